"""Frames across two connections: from a server to a command, from a command to a server, one process for many clients.

What is passed on keeps its bytes; where ids have to change, nothing else does. Relays know envelopes, sessions and how
a conversation begins and ends, and none of what is said in it.
"""
