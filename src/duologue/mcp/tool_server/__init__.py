"""Offer Python functions to a peer as an MCP server, over stdio, HTTP or ACP itself.

MCP servers that a session uses are in `duologue.mcp`. The client and integrations import this package; it needs the
extra `mcp`.
"""
