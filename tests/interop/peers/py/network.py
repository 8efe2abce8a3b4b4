"""The official Python SDK's ways over the network: an agent that listens, and a client's transport to an address."""

# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from acp.http import create_http_stream
from acp.http.asgi import create_asgi_app
from acp.ws import create_websocket_stream
from gate import gated


def listen(make_agent: Callable[[Any], Any]) -> None:
    """Serve WebSocket and HTTP on one port of loopback, which is printed."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(gated(create_asgi_app(make_agent)), log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


class Watched:
    """A transport; what it should keep to itself would show among what the agent asked."""

    def __init__(self, transport: Any, asked: list[dict[str, Any]]) -> None:
        self._transport = transport
        self._asked = asked
        self.send = transport.send
        self.close = transport.close

    async def receive(self) -> dict[str, Any] | None:
        message: dict[str, Any] | None = await self._transport.receive()
        if message is not None and message.get("method", "").startswith("_duologue/"):
            self._asked.append({"method": message["method"], "params": message["params"]})
        return message


async def dial(url: str, headers: dict[str, str], asked: list[dict[str, Any]]) -> Watched:
    """Return a client's transport to this URL."""
    if url.startswith("http"):
        return Watched(create_http_stream(url, headers=headers), asked)
    return Watched(await create_websocket_stream(url, headers=headers), asked)
