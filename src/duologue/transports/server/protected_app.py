"""An ASGI application whose requests are checked before they are answered: the base of every server here."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import msgspec
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from duologue.transports.server.auth import AccessControl, RequestRejected
from duologue.transports.server.limits import Limits

_access = logging.getLogger("duologue.access")


class ProtectedApp(ABC):
    """Logs each request, and sends the rejections of those that `answer` does not accept.

    Args:
        access: Authenticates each request.
        limits: The limits of the server.
    """

    def __init__(self, access: AccessControl, limits: Limits) -> None:
        self.access = access
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        entry = AccessLogEntry(scope.get("method", "GET"), scope["path"][:200], self.access.address(scope))
        try:
            await self.answer(scope, receive, send, entry)
        except RequestRejected as rejection:
            self.on_rejected(rejection)
            await _reject(scope, receive, entry.watch(send), rejection)
        finally:
            entry.log()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    @abstractmethod
    async def answer(self, scope: Scope, receive: Receive, send: Send, entry: AccessLogEntry) -> None:
        """Check a request with `access` and answer it.

        Raises:
            RequestRejected: It is not accepted; no answer was begun.
        """

    @abstractmethod
    async def drain(self, seconds: float) -> None:
        """Accept nothing new, and wait up to these seconds for what runs."""

    @abstractmethod
    async def aclose(self) -> None:
        """Release everything."""

    def on_rejected(self, rejection: RequestRejected) -> None:  # noqa: B027  (not every server has metrics)
        """Count a rejection, where there are metrics."""


def path_of(scope: Scope) -> str:
    """Return the path relative to where this application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def allow(scope: Scope, *methods: str) -> None:
    """Accept only these methods of HTTP.

    Raises:
        RequestRejected: The request has another one.
    """
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
