"""An HTTP server on loopback while a context lasts, with a token: every user of the machine can connect to it."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LINGER_SECONDS = 1
"""Seconds for active requests when the server is stopped."""


class BearerOnly:
    """ASGI middleware that rejects requests without the bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._has_token(scope):
            answer = PlainTextResponse("unknown token", 401, {"WWW-Authenticate": "Bearer"})
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _has_token(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        # A wrong token takes as long as the right one.
        return hmac.compare_digest(given, self._expected)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # Signals belong to the program that embeds this server.
        yield


@asynccontextmanager
async def serve_on_loopback(app: ASGIApp) -> AsyncGenerator[str]:
    """Serve `app` on a free port and yield its URL without a path."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        # asyncio does this only for sockets that name their protocol; without it a response may be delayed by 40 ms.
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
