"""Where MCP over ACP meets the connection: a way out for requests, and the way in for what the client says of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from duologue.conversation.content import JsonObject

__all__ = ["AcpChannel", "OnMessage", "SendMessage"]


class SendMessage(Protocol):
    """Sends the request `mcp/message` to the client.

    It returns what the client answered, `{"result": …}` or `{"error": {"code": …, "message": …}}`, and raises what the
    request itself failed with. Cancelled, it cancels the request.
    """

    async def __call__(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject: ...


class OnMessage(Protocol):
    """Takes a notification about an active request."""

    def __call__(self, request_id: str, method: str, params: JsonObject | None) -> None: ...


class AcpChannel:
    """Carries MCP for the servers of one session that live in the client."""

    def __init__(self, send: SendMessage) -> None:
        self.send = send
        self._routes: dict[str, OnMessage] = {}

    @contextmanager
    def route(self, server_id: str, on_message: OnMessage) -> Generator[None]:
        """Hand what comes for this server to `on_message`, for as long as the context lasts."""
        self._routes[server_id] = on_message
        try:
            yield
        finally:
            self._routes.pop(server_id, None)

    def deliver(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        """A notification `mcp/message` of the client. One for a server that is not there means nothing."""
        if (on_message := self._routes.get(server_id)) is not None:
            on_message(request_id, method, params)
