"""Version 1 of the protocol: its methods, proxies and conversions.

Message classes come from `schema.v1`; no other version is used here. `protocol.negotiation` and `observation` import
it.
"""
