"""A server on loopback that a client under test connects to, over WebSocket or HTTP."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Literal, Self

from duologue.conformance.client_side.endpoints import Endpoint
from duologue.transports.base import Transport, WrappedTransport
from duologue.transports.server.app import ServerApp
from duologue.transports.server.auth import AccessControl
from duologue.transports.server.limits import Limits
from duologue.transports.server.run import ServerAddress, new_token, serve
from duologue.transports.server.tokens import single_token

GRACE_SECONDS = 2.0
"""How long a connection outlives the loss of its network: a client that is gone has not closed its connection."""


class ServerEndpoint(Endpoint):
    """Our own server, whose connections lead to the case.

    Args:
        scheme: How clients connect: `ws` or `http`.
    """

    def __init__(self, scheme: Literal["ws", "http"]) -> None:
        super().__init__()
        self.transport = "websocket" if scheme == "ws" else "http"
        self.token = new_token()
        self._scheme = scheme
        self._port = 0
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        limits = Limits(grace_seconds=GRACE_SECONDS)
        app = ServerApp(lambda _: self, AccessControl(single_token(self.token), limits), limits)
        self._port = await self._stack.enter_async_context(serve(app, ServerAddress()))
        return self

    async def __aexit__(self, *_: object) -> None:
        while not self._waiting.empty():
            await self._waiting.get_nowait().aclose()
        await self._stack.aclose()

    @property
    def address(self) -> str:
        """The URL, without the token."""
        return ServerAddress().url(self._port, self._scheme)

    async def serve(self, transport: Transport) -> None:
        """Hand a connection to the case, and keep it until the case closes it."""
        held = _HeldTransport(transport)
        await self._waiting.put(held)
        await held.closed.wait()


class _HeldTransport(WrappedTransport):
    """A connection of the server, which the server ends once it was closed here."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.closed = asyncio.Event()

    async def aclose(self) -> None:
        self.closed.set()
        await self._inner.aclose()
