"""Agents behind a web server: one endpoint for WebSocket and for streamable HTTP, closed to everybody without a token.

It moves frames between a network that breaks and an agent that should not notice. It knows of the protocol what it
must to route a message (`initialize`, ids, `sessionId`) and no more. It needs the extra `remote`.
"""
