"""Parts for programs that work on the wire: connections, handlers, typed methods, transports, the bridge.

Agents and clients are written without them: see `duologue.Agent` and `duologue.connect`. The messages of each version
of the protocol are in `duologue.schema`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from duologue.jsonrpc.framing import LineFramer as LineFramer
    from duologue.jsonrpc.peer import Peer as Peer
    from duologue.local.commands import RunningCommand as RunningCommand
    from duologue.local.files import Roots as Roots
    from duologue.mcp.tool_server.transports import serve_stdio as serve_stdio
    from duologue.relay.bridge.auto_bridge import AutoBridge as AutoBridge
    from duologue.relay.bridge.bridge import Bridge as Bridge
    from duologue.runtime.connection import Connection as Connection
    from duologue.runtime.handlers import Context as Context
    from duologue.runtime.handlers import Handlers as Handlers
    from duologue.runtime.observers import Direction as Direction
    from duologue.runtime.observers import FrameObserver as FrameObserver
    from duologue.sanitize import sanitize as sanitize
    from duologue.sanitize import strip_terminal_controls as strip_terminal_controls
    from duologue.schema.base import Method as Method
    from duologue.schema.base import Model as Model
    from duologue.schema.base import Notification as Notification
    from duologue.schema.codec import decode as decode
    from duologue.schema.codec import encode as encode
    from duologue.transports.base import Transport as Transport
    from duologue.transports.memory import memory_pair as memory_pair
    from duologue.transports.process.transport import ProcessTransport as ProcessTransport
    from duologue.transports.remote.http import HttpTransport as HttpTransport
    from duologue.transports.remote.websocket import WebSocketTransport as WebSocketTransport
    from duologue.transports.stdio.socket import SocketTransport as SocketTransport
    from duologue.transports.stdio.stdio import StdioTransport as StdioTransport
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "duologue.jsonrpc.framing": "LineFramer",
            "duologue.jsonrpc.peer": "Peer",
            "duologue.local.commands": "RunningCommand",
            "duologue.local.files": "Roots",
            "duologue.mcp.tool_server.transports": "serve_stdio",
            "duologue.relay.bridge.auto_bridge": "AutoBridge",
            "duologue.relay.bridge.bridge": "Bridge",
            "duologue.runtime.connection": "Connection",
            "duologue.runtime.observers": "Direction FrameObserver",
            "duologue.runtime.handlers": "Context Handlers",
            "duologue.sanitize": "sanitize strip_terminal_controls",
            "duologue.schema.base": "Method Model Notification",
            "duologue.schema.codec": "decode encode",
            "duologue.transports.base": "Transport",
            "duologue.transports.memory": "memory_pair",
            "duologue.transports.process.transport": "ProcessTransport",
            "duologue.transports.remote.http": "HttpTransport",
            "duologue.transports.remote.websocket": "WebSocketTransport",
            "duologue.transports.stdio.socket": "SocketTransport",
            "duologue.transports.stdio.stdio": "StdioTransport",
        },
    )
