"""Version 2 of the protocol: what is meant, as version 2 writes it.

Only shapes of `schema.v2` belong here. `dialects` itself and whoever negotiates a version may import it.
"""
