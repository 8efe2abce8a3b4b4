"""Where messages meet handlers: one connection, its order, its tasks, its limits.

Knows no version of the protocol and no shape beyond `session_id`. `dialects` and everything above may import it.
"""
