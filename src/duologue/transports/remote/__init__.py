"""The client side of WebSocket and HTTP: URLs, TLS, cookies, reconnecting and resuming.

The server side is in `transports.server`; the resume protocol that both ends share is `transports.resume`. The
client and relays import this package; it needs the extra `remote`.
"""
