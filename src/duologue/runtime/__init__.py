"""One JSON-RPC connection: dispatch to handlers, order, tasks and limits.

It knows no protocol version and no message field except `session_id`. `protocol` and everything above may import it.
"""
