"""The user's configuration file (agents and MCP servers by name, permission rules), recordings, and opened sessions.

Options that a library user passes as arguments do not belong here. Programs import it.
"""
