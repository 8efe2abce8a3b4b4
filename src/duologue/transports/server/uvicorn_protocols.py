"""The protocols of uvicorn with limits that they lack: time for headers, and output that waits to be sent."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from functools import partial
from typing import Any

import httptools
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.protocol import OPEN

from duologue.transports.masked_frames import read_masked_text
from duologue.transports.server.asgi_extensions import ABORT, LISTEN, RESET, WRITE, OnText

HEADER_SECONDS = 10.0
"""For the headers of one request to arrive."""

READ_BYTES = 64 * 1024
"""asyncio reads four times as much, and glibc maps and unmaps a buffer of that size for every single read."""

MAX_OVERHEAD = 256 * 1024
"""Bytes of one request in addition to its body; `Limits.header_bytes` is checked once all headers are there."""

CHUNK_FACTOR = 16
"""Bytes that each byte of a body may take: chunks of one byte are legal."""

MAX_UNREAD = 1024 * 1024
"""Bytes of pongs that a client may leave unread."""

MAX_FRAGMENTS = 1024 * 1024
"""Fragments of one message: more than any real client sends."""

FLUSH_SECONDS = 5.0
"""For the last bytes to leave after the connection was closed."""


class HardenedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a time limit for headers, and a limit on all that is not body."""

    _deadline: asyncio.TimerHandle | None = None
    _overhead = 0
    _has_headers = False
    _is_upgraded = False

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.parser = httptools.HttpRequestParser(self)  # without the leniencies of the base class

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP, not any transport
        super().connection_made(transport)
        with suppress(AttributeError):  # only in asyncio's own event loops
            transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        # A plain close would wait for the client to read.
        self.app_state = {**self.app_state, ABORT: transport.abort, RESET: partial(_reset, transport)}
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._overhead += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._overhead > MAX_OVERHEAD:
            self.send_400_response("The headers, trailers or chunks of the request are too large.")
        if self._is_answering or self._is_upgraded or self.transport.is_closing():
            self._cancel_deadline()
        elif self._deadline is None:
            self._start_deadline()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                self._decline_upgrade(data[upgrade.args[0] :])

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read a request again without its `Upgrade` to another protocol, such as HTTP/2, which a server may ignore."""
        lines = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        head = b"%b %b HTTP/1.1" % (self.parser.get_method(), self.url)
        self.parser = httptools.HttpRequestParser(self)
        self._parse(b"\r\n".join([head, *lines, b"", rest]))

    @property
    def _is_answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete  # there is none before the first request

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        self._is_upgraded = True

    def send_400_response(self, msg: str) -> None:
        """Reject what arrived; if it follows a whole request, close after the response to that."""
        if self._is_answering and not self.cycle.more_body:
            self.cycle.keep_alive = False
        elif not self.transport.is_closing():
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._overhead = 0
        self._has_headers = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_headers:  # else it is a trailer, which came after the checks of the headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/"):
            raise ValueError("a whole URL, whose host may differ from the Host header")
        self._has_headers = True
        if not self.parser.should_upgrade():  # else `_parse` goes on
            super().on_headers_complete()
        else:
            self.scope["method"] = self.parser.get_method().decode("ascii")

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead = max(self._overhead - CHUNK_FACTOR * len(body), 0)
        super().on_body(body)

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _reset(transport: asyncio.Transport) -> None:
    """Drop a connection with a reset (RST): a linger time of 0 makes the kernel send that instead of an end."""
    connection: socket.socket = transport.get_extra_info("socket")
    if not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class HardenedWebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSocket with limits on the memory of one client."""

    def __init__(self, *args: Any, **named: Any) -> None:
        named["app_state"] = {**named["app_state"], WRITE: self.write_frames, LISTEN: self.listen}
        super().__init__(*args, **named)
        self._on_text: OnText | None = None
        self._app = self.app
        self.app = self._run

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            if self.close_sent:
                self.handshake_complete = True  # so is a rejected one
            self.loop.call_later(FLUSH_SECONDS, self._drop)

    def _drop(self) -> None:
        """Drop a client that has not read the last bytes."""
        if self.close_timer is None:
            self.transport.abort()

    def write_frames(self, data: bytes) -> asyncio.Event:
        """Write whole frames; return an event that is set while the client reads.

        Raises:
            ConnectionError: The client is gone.
        """
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self.transport.write(data)
        return self.writable

    def listen(self, on_text: OnText) -> None:
        """Call `on_text` with each text the moment it arrives, while no earlier one waits to be received."""
        self._on_text = on_text

    def data_received(self, data: bytes) -> None:
        if self._on_text is not None:
            data = self._pass_texts(data, self._on_text)
        if data:
            super().data_received(data)

    def _pass_texts(self, data: bytes, on_text: OnText) -> bytes:
        """Pass the whole texts at the beginning of `data`; return the rest, which the library processes."""
        library = self.conn
        is_between_messages = not library.reader.buffer and library.current_size is None and self.queue.empty()
        if not is_between_messages or library.state is not OPEN or library.extensions:
            return data
        begin = 0
        while (found := read_masked_text(data, begin)) is not None and on_text(found[0]):
            begin = found[1]
        return data[begin:]

    def start_keepalive(self) -> None:
        """Free the memory of the handshake: thousands of connections may stay open."""
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
