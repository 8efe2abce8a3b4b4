"""Move frames: in memory, over stdio, to a child process, over WebSocket and HTTP.

A transport moves bytes without interpreting them; parsing and dispatch belong to `jsonrpc` and `runtime`. Every package
above `jsonrpc` may import this one.
"""
