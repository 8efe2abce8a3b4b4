"""The user's configuration file: agents and MCP servers by name, permission rules, and where recordings are stored.

Options that a library user passes as arguments do not belong here. Programs import it.
"""
