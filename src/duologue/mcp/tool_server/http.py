"""A web server on loopback, as long as a context lasts. All on this machine can reach it, so it asks who they are."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["BearerOnly", "serve_on_loopback"]

LINGER_SECONDS = 1
"""For requests that are being answered when the server is told to end."""


class BearerOnly:
    """An application for those who know the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_known(scope):
            answer = PlainTextResponse("unknown token", 401, {"WWW-Authenticate": "Bearer"})
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        # As long for a wrong token as for the right one.
        return hmac.compare_digest(given, self._expected)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # The signals of the process belong to the program we are part of.
        yield


@asynccontextmanager
async def serve_on_loopback(app: ASGIApp) -> AsyncGenerator[str]:
    """Serve `app` on a port of the system's choice; yields its address, without a path."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        # asyncio does this only for sockets that name their protocol; without it an answer may wait 40 ms for company.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=LINGER_SECONDS)
        server = _Server(config)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(server.serve(sockets=[listener]))
            host, port = listener.getsockname()
            try:
                yield f"http://{host}:{port}"
            finally:
                server.should_exit = True
            await running
