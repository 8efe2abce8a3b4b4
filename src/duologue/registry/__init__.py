"""Published agents: find them in indexes, install, pin, verify and probe them.

Agents that the user wrote into the configuration file belong to `config`. Programs import it, and the public entrances
of the client side when a target is one bare word.
"""
