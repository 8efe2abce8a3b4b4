"""Serve agents over the network: one endpoint for WebSocket and streamable HTTP, for callers with a token.

It moves frames between a network that breaks and an agent that does not notice. Of the protocol it knows only what it
needs to route a message (`initialize`, ids, `sessionId`). It needs the extra `remote`.
"""
