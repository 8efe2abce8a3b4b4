"""The web application: one endpoint that carries agents, and two pages for those who look after it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from duologue.transports.server.asgi_extensions import abort_of, write_of
from duologue.transports.server.auth import AccessControl, Caller, RequestRejected
from duologue.transports.server.http_post import HttpRequestHandler
from duologue.transports.server.limits import Limits
from duologue.transports.server.registry import ConnectionRegistry, ServableFor, new_id
from duologue.transports.server.websocket import WebSocketHandler

__all__ = ["ServerApp"]

_access = logging.getLogger("duologue.access")

PATH = "/acp"


class ServerApp:
    """An ASGI application: `/acp` for clients, `/health` for everybody, `/metrics` for those with a token.

    Args:
        servable_for: The agent for a caller.
        doors: Who may come in.
        limits: What they may take.
        on_close: Called when the server has ended, after the last agent.
    """

    def __init__(
        self,
        servable_for: ServableFor,
        doors: AccessControl,
        limits: Limits,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._on_close = on_close
        self._servable_for = servable_for
        self._doors = doors
        self.limits = limits
        self._connections: ConnectionRegistry | None = None

    @property
    def connections(self) -> ConnectionRegistry:
        """All that are open; made when an event loop runs."""
        if self._connections is None:
            self._connections = ConnectionRegistry(self._servable_for, self.limits)
        return self._connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        visit = AccessLogEntry(scope.get("method", "GET"), scope["path"][:200], self._doors.address(scope))
        try:
            await self._answer(scope, receive, send, visit)
        except RequestRejected as refusal:
            self.connections.numbers.refused[refusal.status] += 1
            await refuse(scope, receive, visit.watch(send), refusal)
        finally:
            visit.log()

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self.connections.aclose()
        if self._on_close is not None:
            await self._on_close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, straight: Send, visit: AccessLogEntry) -> None:
        path = _path(scope)
        send = visit.watch(straight)
        if path == "/health" and scope["type"] == "http":
            self._doors.check_host_and_origin(scope)
            await self._health(scope, receive, send)
            return
        visitor = await self._doors.authenticate(scope)
        visit.caller = visitor.caller
        if path == PATH and scope["type"] == "websocket":
            visit.status = 101
            # Nobody watches each message of a socket: there are many.
            await self._websocket(visitor, receive, straight, scope)
        elif path == "/metrics" and scope["type"] == "http":
            _allow(scope, "GET")
            text = self.connections.numbers.page(self.connections.gauges)
            await PlainTextResponse(text, media_type="text/plain; version=0.0.4")(scope, receive, send)
        elif path == PATH:
            await HttpRequestHandler(self.connections, visitor.caller, scope).answer(receive, send)
        else:
            raise RequestRejected(404, "there is nothing here; agents are at /acp")

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        _allow(scope, "GET")
        is_draining = self.connections.is_draining
        await PlainTextResponse("stopping\n" if is_draining else "ok\n", 503 if is_draining else 200)(
            scope, receive, send
        )

    async def _websocket(self, visitor: Caller, receive: Receive, send: Send, scope: Scope) -> None:
        if self.connections.is_draining:
            raise RequestRejected(503, "the server is being stopped", {"Retry-After": "5"})
        id = new_id()
        if (await receive())["type"] != "websocket.connect":
            return
        headers = [(b"acp-connection-id", id.encode())]
        await send({"type": "websocket.accept", "subprotocol": visitor.subprotocol, "headers": headers})
        carrier = WebSocketHandler(receive, send, self.connections, visitor.caller, abort_of(scope), write_of(scope))
        await carrier.run(id)


def _path(scope: Scope) -> str:
    """Where in this application, wherever that is mounted itself."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _allow(scope: Scope, *methods: str) -> None:
    if scope["method"] not in methods:
        raise RequestRejected(405, f"only {', '.join(methods)}", {"Allow": ", ".join(methods)})


async def refuse(scope: Scope, receive: Receive, send: Send, refusal: RequestRejected) -> None:
    """Say no, and why."""
    if refusal.body is None:
        response: Response = PlainTextResponse(f"{refusal.reason}\n", refusal.status, refusal.headers)
    else:
        response = Response(refusal.body, refusal.status, refusal.headers, "application/json")
    if scope["type"] == "websocket":
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        await socket.send_denial_response(response)
        return
    # What is left of the request is not read: the client may not use this connection again.
    response.headers["Connection"] = "close"
    await response(scope, receive, send)


@dataclass
class AccessLogEntry:
    """One line of the access log. Addresses are logged without what follows the path, tokens not at all."""

    method: str
    path: str
    address: str
    caller: str | None = None
    status: int = 0
    began: float = field(default_factory=time.monotonic)

    def watch(self, send: Send) -> Send:
        """The same way out, with an eye on the status."""

        async def watched(message: Message) -> None:
            kind = message["type"]
            if kind.endswith("response.start"):
                self.status = message["status"]
            await send(message)

        return watched

    def log(self) -> None:
        """Write it, as JSON."""
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
