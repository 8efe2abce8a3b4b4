"""The web server's two protocols, with the bounds that they lack: of time for headers, of what waits to be sent."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from duologue.transports.server.asgi_extensions import ABORT, WRITE

__all__ = ["HardenedHttpProtocol", "HardenedWebSocketProtocol"]

HEADER_SECONDS = 10.0
"""For the headers of one request to arrive, once a connection is open or the first of them is there."""

MAX_UNREAD = 1024 * 1024
"""Answers to pings that a client may leave unread; it gets one for each of its own."""

MAX_FRAGMENTS = 1024 * 1024
"""Pieces of one message: even of single bytes more than a real one has."""

FLUSH_SECONDS = 5.0
"""For the last bytes to leave after the end."""


TEXT = 0x81
"""The first byte of a message that is one frame of text."""

SHORT = 126
"""A length from here on stands behind the second byte."""

_MEDIUM = struct.Struct("!BBH")
_LONG = struct.Struct("!BBQ")


class HardenedHttpProtocol(H11Protocol):
    """HTTP/1.1 that waits for nobody's headers."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP, not any transport
        super().connection_made(transport)
        # A plain close would wait for the client to take what it does not take.
        self.app_state = {**self.app_state, ABORT: transport.abort}
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_are_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._headers_are_here()
        elif self._deadline is None:
            self._expect_headers()

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _headers_are_here(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class HardenedWebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSocket that holds no more for a client than it has to."""

    def __init__(self, *args: Any, **named: Any) -> None:
        named["app_state"] = {**named["app_state"], WRITE: self.write_texts}
        super().__init__(*args, **named)
        self._app = self.app
        self.app = self._run

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            if self.close_sent:
                self.handshake_complete = True  # refused is complete, too
            self.loop.call_later(FLUSH_SECONDS, self._drop)

    def _drop(self) -> None:
        """Whoever has not taken the last bytes by now never will."""
        if self.close_timer is None:
            self.transport.abort()

    async def write_texts(self, texts: list[bytes]) -> None:
        """Each as one message, and all in one piece: an agent that streams has many small ones.

        Raises:
            ConnectionError: The client is gone.
        """
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ConnectionResetError("the client is gone")
        pieces: list[bytes] = []
        for text in texts:
            size = len(text)
            if size < SHORT:
                pieces.append(bytes((TEXT, size)))
            elif size < 1 << 16:
                pieces.append(_MEDIUM.pack(TEXT, SHORT, size))
            else:
                pieces.append(_LONG.pack(TEXT, SHORT + 1, size))
            pieces.append(text)
        self.transport.write(b"".join(pieces))
        if not self.writable.is_set():
            await self.writable.wait()

    def start_keepalive(self) -> None:
        """Thousands of connections may rest here: let go of how each of them began."""
        super().start_keepalive()
        del self.request, self.response
        self.scope["headers"] = []

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.transport.get_write_buffer_size() > MAX_UNREAD and not self.writable.is_set():
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > MAX_FRAGMENTS:
            self.transport.abort()
