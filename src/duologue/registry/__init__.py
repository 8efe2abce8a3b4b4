"""Published agents: find them in indexes, install, pin, verify and probe them.

Imported by the command line and, when a target is one bare word, by the public entrances of the client side.
"""
