"""The ASGI application: one endpoint for agents, and two pages for operators."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from duologue.transports.server.asgi_extensions import abort_of, listen_of, write_of
from duologue.transports.server.auth import AccessControl, Caller, RequestRejected
from duologue.transports.server.http_post import HttpRequestHandler
from duologue.transports.server.limits import Limits
from duologue.transports.server.registry import ConnectionRegistry, ServableFor, new_id
from duologue.transports.server.websocket import WebSocketHandler

_access = logging.getLogger("duologue.access")

PATH = "/acp"


class ServerApp:
    """An ASGI application: `/acp` for clients, `/health` without a token, `/metrics` with one.

    Args:
        servable_for: Returns the agent for a caller.
        access: Authenticates each request.
        limits: The limits of the server.
        on_close: Called when the server has ended, after the last agent.
    """

    def __init__(
        self,
        servable_for: ServableFor,
        access: AccessControl,
        limits: Limits,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._on_close = on_close
        self._servable_for = servable_for
        self._access = access
        self.limits = limits
        self._connections: ConnectionRegistry | None = None

    @property
    def connections(self) -> ConnectionRegistry:
        """The open connections; created on first use, inside the event loop."""
        if self._connections is None:
            self._connections = ConnectionRegistry(self._servable_for, self.limits)
        return self._connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        entry = AccessLogEntry(scope.get("method", "GET"), scope["path"][:200], self._access.address(scope))
        try:
            await self._answer(scope, receive, send, entry)
        except RequestRejected as rejection:
            self.connections.metrics.rejected[rejection.status] += 1
            await _reject(scope, receive, entry.watch(send), rejection)
        finally:
            entry.log()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self.connections.aclose()
        if self._on_close is not None:
            await self._on_close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, raw_send: Send, entry: AccessLogEntry) -> None:
        path = _path(scope)
        send = entry.watch(raw_send)
        if path == "/health" and scope["type"] == "http":
            self._access.check_host_and_origin(scope)
            await self._health(scope, receive, send)
            return
        caller = await self._access.authenticate(scope)
        entry.caller = caller.name
        if path == PATH and scope["type"] == "websocket":
            entry.status = 101
            # The messages of a socket are not logged: there are many.
            await self._websocket(caller, receive, raw_send, scope)
        elif path == "/metrics" and scope["type"] == "http":
            _allow(scope, "GET")
            text = self.connections.metrics.page(self.connections.gauges)
            await PlainTextResponse(text, media_type="text/plain; version=0.0.4")(scope, receive, send)
        elif path == PATH:
            await HttpRequestHandler(self.connections, caller.name, scope).answer(receive, send)
        else:
            raise RequestRejected(404, "not found; the endpoint for agents is /acp")

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        _allow(scope, "GET")
        is_draining = self.connections.is_draining
        await PlainTextResponse("stopping\n" if is_draining else "ok\n", 503 if is_draining else 200)(
            scope, receive, send
        )

    async def _websocket(self, caller: Caller, receive: Receive, send: Send, scope: Scope) -> None:
        if self.connections.is_draining:
            raise RequestRejected(503, "the server is shutting down", {"Retry-After": "5"})
        id = new_id()
        if (await receive())["type"] != "websocket.connect":
            return
        headers = [(b"acp-connection-id", id.encode())]
        await send({"type": "websocket.accept", "subprotocol": caller.subprotocol, "headers": headers})
        handler = WebSocketHandler(
            receive, send, self.connections, caller.name, abort_of(scope), write_of(scope), listen_of(scope)
        )
        await handler.run(id)


def _path(scope: Scope) -> str:
    """Return the path relative to where this application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _allow(scope: Scope, *methods: str) -> None:
    if scope["method"] not in methods:
        raise RequestRejected(405, f"use {', '.join(methods)}", {"Allow": ", ".join(methods)})


async def _reject(scope: Scope, receive: Receive, send: Send, rejection: RequestRejected) -> None:
    if rejection.body is None:
        response: Response = PlainTextResponse(f"{rejection.reason}\n", rejection.status, rejection.headers)
    else:
        response = Response(rejection.body, rejection.status, rejection.headers, "application/json")
    if scope["type"] == "websocket":
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        await socket.send_denial_response(response)
        return
    # The rest of the request is not read: the client must not reuse this connection.
    response.headers["Connection"] = "close"
    await response(scope, receive, send)


@dataclass
class AccessLogEntry:
    """One line of the access log. URLs are logged without their query, tokens not at all."""

    method: str
    path: str
    address: str
    caller: str | None = None
    status: int = 0
    began: float = field(default_factory=time.monotonic)

    def watch(self, send: Send) -> Send:
        """Wrap `send` to record the status."""

        async def watched(message: Message) -> None:
            kind = message["type"]
            if kind.endswith("response.start"):
                self.status = message["status"]
            await send(message)

        return watched

    def log(self) -> None:
        """Write the entry as JSON."""
        if not _access.isEnabledFor(logging.INFO):
            return
        line = {
            "address": self.address,
            "caller": self.caller,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "seconds": round(time.monotonic() - self.began, 3),
        }
        _access.info("%s", msgspec.json.encode(line).decode())
