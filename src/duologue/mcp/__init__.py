"""A session's MCP servers and their tools, and tools of our own offered to the peer.

Processes are owned by `transports` and MCP itself by the official SDK (extra `mcp`), which only the modules that speak
it import; how ACP spells any of this belongs to `dialects`. Both sides and everything above may import it.
"""
