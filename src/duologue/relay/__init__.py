"""Pass frames between two connections: from a server to a command or back, or from many clients to one process.

What is passed on keeps its bytes; where ids have to change, nothing else does. Relays read envelopes, session ids and
the start and end of a session, and no content. Programs such as `cli` import this package.
"""
