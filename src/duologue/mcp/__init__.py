"""Connect the MCP servers of a session and call their tools; offer Python functions as an MCP server.

`transports` runs the processes and the official SDK (extra `mcp`) implements MCP; only modules that need the SDK import
it. The ACP messages about MCP are in `protocol`. Both sides and everything above may import this package.
"""
