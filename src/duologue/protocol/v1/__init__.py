"""Version 1 of the protocol: what each act of the two sides looks like on its wire.

Shapes come from `schema.v1`; no other version is mentioned here. `dialects.negotiation` and the two sides import it.
"""
