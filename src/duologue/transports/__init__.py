"""How frames move: memory, this process's stdio, a child process, later WebSocket and HTTP.

A transport knows bytes and nothing of their meaning; parsing and dispatch belong to `jsonrpc` and `runtime`.
Anyone may import it, save `jsonrpc` and `schema`.
"""
