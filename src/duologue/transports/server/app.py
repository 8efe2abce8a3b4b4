"""The ASGI application: one endpoint for agents, and two pages for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from duologue.transports.server.asgi_extensions import abort_of, listen_of, write_of
from duologue.transports.server.auth import AccessControl, Caller, RequestRejected
from duologue.transports.server.http_post import HttpRequestHandler
from duologue.transports.server.limits import Limits
from duologue.transports.server.protected_app import AccessLogEntry, ProtectedApp, allow, path_of
from duologue.transports.server.registry import ConnectionRegistry, ServableFor, new_id
from duologue.transports.server.websocket import WebSocketHandler

PATH = "/acp"


class ServerApp(ProtectedApp):
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
        super().__init__(access, limits)
        self._on_close = on_close
        self._servable_for = servable_for
        self._connections: ConnectionRegistry | None = None

    @property
    def connections(self) -> ConnectionRegistry:
        """The open connections; created on first use, inside the event loop."""
        if self._connections is None:
            self._connections = ConnectionRegistry(self._servable_for, self.limits)
        return self._connections

    async def aclose(self) -> None:
        await self.connections.aclose()
        if self._on_close is not None:
            await self._on_close()

    async def drain(self, seconds: float) -> None:
        await self.connections.drain(seconds)

    def on_rejected(self, rejection: RequestRejected) -> None:
        self.connections.metrics.rejected[rejection.status] += 1

    async def answer(self, scope: Scope, receive: Receive, send: Send, entry: AccessLogEntry) -> None:
        path = path_of(scope)
        raw_send, send = send, entry.watch(send)
        if path == "/health" and scope["type"] == "http":
            self.access.check_host_and_origin(scope)
            await self._health(scope, receive, send)
            return
        caller = await self.access.authenticate(scope)
        entry.caller = caller.name
        if path == PATH and scope["type"] == "websocket":
            entry.status = 101
            # The messages of a socket are not logged: there are many.
            await self._websocket(caller, receive, raw_send, scope)
        elif path == "/metrics" and scope["type"] == "http":
            allow(scope, "GET")
            text = self.connections.metrics.page(self.connections.gauges)
            await PlainTextResponse(text, media_type="text/plain; version=0.0.4")(scope, receive, send)
        elif path == PATH:
            await HttpRequestHandler(self.connections, caller.name, scope).answer(receive, send)
        else:
            raise RequestRejected(404, "not found; the endpoint for agents is /acp")

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        allow(scope, "GET")
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
