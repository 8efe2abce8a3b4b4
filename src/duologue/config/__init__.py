"""The file the programs share: agents by name, rules for permissions.

What a library user passes as arguments does not belong here. Programs import it.
"""
