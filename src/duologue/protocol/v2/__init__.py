"""Version 2 of the protocol: its methods, proxies and conversions.

Message classes come from `schema.v2`; no other version is used here. `protocol.negotiation`, `observation` and the
bridge between versions import it.
"""
