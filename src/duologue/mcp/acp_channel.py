"""MCP over ACP: send requests to MCP servers in the client, and route the client's notifications to them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from duologue.conversation.content import JsonObject


class SendMessage(Protocol):
    """Sends the request `mcp/message` to the client.

    Returns the inner response, `{"result": …}` or `{"error": {"code": …, "message": …}}`; raises the error of the
    request itself. Cancelling it cancels the request.
    """

    async def __call__(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject: ...


class OnMessage(Protocol):
    """Receives a notification about an active request."""

    def __call__(self, request_id: str, method: str, params: JsonObject | None) -> None: ...


class AcpChannel:
    """Carries MCP for those servers of one session that run in the client."""

    def __init__(self, send: SendMessage) -> None:
        self.send = send
        self._routes: dict[str, OnMessage] = {}

    @contextmanager
    def route(self, server_id: str, on_message: OnMessage) -> Generator[None]:
        """Pass notifications for this server to `on_message` while the context lasts."""
        self._routes[server_id] = on_message
        try:
            yield
        finally:
            self._routes.pop(server_id, None)

    def deliver(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        """Route a notification `mcp/message` of the client; one for an unknown server is ignored."""
        if (on_message := self._routes.get(server_id)) is not None:
            on_message(request_id, method, params)
