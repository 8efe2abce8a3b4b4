"""One connection to an HTTP server: a request, and its response as it arrives; HTTP/1.1 here, HTTP/2 in a subclass."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, cast

import httptools

from duologue.transports.remote.small_reads import SmallReads

MAX_HEAD_BYTES = 256 * 1024
"""Bytes of a response in addition to its body: status, headers, trailers and chunk sizes."""

CHUNK_FACTOR = 16
"""Bytes that each byte of a body may take: chunks of one byte are legal."""

WRITE_BYTES = 64 * 1024
"""Bytes of a request that are written at once; the rest follows as the server reads, which shows progress."""

READ_AHEAD = 256 * 1024
"""Bytes of a body that may wait for `read` before the connection stops reading."""


class HttpError(Exception):
    """A request without a valid response: the server cannot be reached, is silent, or broke the connection."""


class HttpRequest(NamedTuple):
    """A request; the target is its path, or its whole URL for a proxy."""

    method: str
    scheme: str
    authority: str
    target: str
    headers: Iterable[tuple[str, str]]
    body: bytes | None


class HttpConnection(SmallReads):
    """Send requests one after the other, each after the response to the one before was read.

    Attributes:
        transport: The TCP or TLS connection.
        status: The status of the response.
        headers: Its headers, by names in lower case.
        cookies: Its `Set-Cookie` headers.
        idle_since: When the last response ended.
        unrequested: What the server sent before the first request, as it may in HTTP/2.
        closed: Set when the connection is closed.
        has_answered: Something arrived since the last request was sent.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.cookies: list[str] = []
        self.idle_since = 0.0
        self.unrequested = b""
        self.closed = asyncio.Event()
        self.has_answered = False
        self._is_waiting_for_head = False
        self._is_complete = True
        self._keeps_alive = True
        self._overhead = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._is_paused = False
        self._failure: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._silence_seconds: float | None = None
        self._last_active = 0.0
        self._unwritten = 0
        self._unsent = memoryview(b"")
        """The part of the request's body that was not written yet."""
        self._is_congested = False
        self._timer: asyncio.TimerHandle | None = None
        self._start()

    def _start(self) -> None:
        self._parser = httptools.HttpResponseParser(self)

    @property
    def is_reusable(self) -> bool:
        """Whether the response was read completely, and the connection stays open for another request."""
        is_read = (
            self._is_complete and not self._body and not self._unsent
        )  # what is left would be read as part of the next response
        if not is_read or not self._keeps_alive or self._failure is not None or self.transport.is_closing():
            return False
        return not self.transport.get_write_buffer_size()  # the server may never read the rest of the last request

    async def send(self, request: HttpRequest, seconds: float | None) -> None:
        """Send a request and wait for the status and headers of its response.

        Args:
            request: The request.
            seconds: How long the server may be silent, now and while the body is read; `None` is unlimited.

        Raises:
            HttpError: There is no valid response.
        """
        if self.unrequested:
            self.fail("the server sent something before the request; is this an HTTP server?")
        self.headers, self.cookies = {}, []
        self._is_waiting_for_head = True
        self._is_complete = self.has_answered = False
        self._overhead = 0
        self._last_active = self._loop.time()
        self._silence_seconds = seconds
        self._write(request)
        self._unwritten = self.transport.get_write_buffer_size()
        if seconds is not None and self._timer is None:
            self._timer = self._loop.call_later(seconds, self._check_silence)
        while self._is_waiting_for_head:
            await self._wait()

    def _write(self, request: HttpRequest) -> None:
        lines = [f"{request.method} {request.target} HTTP/1.1\r\nhost: {request.authority}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        if request.body is not None:
            lines.append(f"content-length: {len(request.body)}")
        head = "\r\n".join([*lines, "\r\n"]).encode()
        body = request.body or b""
        self._unsent = memoryview(body)[WRITE_BYTES:]
        self.transport.write(head + body[:WRITE_BYTES])
        self._send_body()

    def _send_body(self) -> None:
        """Write as much of the body as the server reads without delay."""
        while self._unsent and not self._is_congested:
            part, self._unsent = self._unsent[:WRITE_BYTES], self._unsent[WRITE_BYTES:]
            self.transport.write(part)

    async def read(self) -> bytes:
        """Return the next part of the body; empty at its end.

        Raises:
            HttpError: The server broke off, or was silent for too long.
        """
        while not self._body and not self._is_complete:
            await self._wait()
        parts, self._body = self._body, []
        size, self._body_bytes = self._body_bytes, 0
        if size:
            self._consumed(size)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _consumed(self, size: int) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, reason: str) -> None:
        """Drop the connection; `send` and `read` raise the reason."""
        if self._failure is None:
            self._failure = HttpError(reason)
        self.transport.abort()
        self._wake()

    def _check_silence(self) -> None:
        """Fail if nothing moved for too long; else look again when that could be."""
        self._timer = None
        if self._is_complete or self._silence_seconds is None:
            return
        now, unwritten = self._loop.time(), self.transport.get_write_buffer_size()
        if unwritten < self._unwritten or self._body:  # if the caller reads slowly, the server may have to wait
            self._last_active = now
        self._unwritten = unwritten
        left = self._last_active + self._silence_seconds - now
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_silence)
        else:
            self.fail(f"the server was silent for {self._silence_seconds:g} s")

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # that of uvloop for TLS is of a class of its own
        self.transport.set_write_buffer_limits(high=WRITE_BYTES)
        with suppress(AttributeError, OSError):  # not on every system, and not for every kind of socket
            # Megabytes that wait in the system would look like a request that was sent.
            connected: socket.socket = transport.get_extra_info("socket")
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, WRITE_BYTES)

    def pause_writing(self) -> None:
        self._is_congested = True

    def resume_writing(self) -> None:
        """Write more; that the server reads counts as activity, which the size of a TLS buffer does not show."""
        self._is_congested = False
        self._last_active = self._loop.time()
        self._send_body()

    def data_received(self, data: bytes) -> None:
        self.has_answered = True
        if self._is_complete:
            self.unrequested += data[: READ_AHEAD - len(self.unrequested)]
            self._keeps_alive = False
            return
        self._last_active = self._loop.time()
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(f"the server sent no valid HTTP response: {error}")
        if self._overhead > MAX_HEAD_BYTES:
            self.fail(f"the headers of a response exceed the limit of {MAX_HEAD_BYTES} bytes")
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        has_length = "content-length" in self.headers or "transfer-encoding" in self.headers
        if exc is None and not self._is_waiting_for_head and not has_length and self._failure is None:
            self._is_complete = True  # such a body ends with its connection
        elif self._failure is None:
            self._failure = HttpError(f"the server closed the connection{'' if exc is None else f': {exc}'}")
        self._keeps_alive = False
        self._wake()
        self.closed.set()

    # --- called by the parser

    def on_message_begin(self) -> None:
        """Reject a second response to one request."""
        if self._is_complete:
            raise ValueError("a response without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; a trailer is ignored."""
        if not self._is_waiting_for_head:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if key == "set-cookie":
            self.cookies.append(text)
        else:
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """Go on to the body, unless this is an interim response such as 100."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers, self.cookies = {}, []
        else:
            self._is_waiting_for_head = False

    def on_body(self, data: bytes) -> None:
        """Buffer a part of the body."""
        self._overhead = max(self._overhead - CHUNK_FACTOR * len(data), 0)
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > READ_AHEAD and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        """End the response."""
        if not self._is_waiting_for_head:
            self._is_complete = True
            self._keeps_alive = self._parser.should_keep_alive()
            self.idle_since = self._loop.time()

    async def aclose(self) -> None:
        """Drop the connection."""
        self.transport.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self.closed.wait()
