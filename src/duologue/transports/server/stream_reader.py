"""Streamable HTTP: write the events of one stream in response to a GET."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.types import Receive, Send

from duologue.errors import InvalidRequest
from duologue.jsonrpc.codec import serialize_error
from duologue.transports.buffered import Wakeup
from duologue.transports.server.auth import RequestRejected
from duologue.transports.server.http_streams import HttpServerConnection, Stream

HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would buffer events
]


class StreamReader:
    """Serve one GET: send the events of a stream until either side ends it.

    Args:
        connection: The connection.
        stream: One of its streams.
        abort: Drops the TCP connection of the client.

    Attributes:
        blocked_since: When the write began that the client does not read; `None` while it reads.
    """

    def __init__(self, connection: HttpServerConnection, stream: Stream, abort: Callable[[], object]) -> None:
        self._abort = abort
        self.wakeup = Wakeup()
        self.blocked_since: float | None = None
        self._connection = connection
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._scope: asyncio.Timeout | None = None

    def begin(self, last_seen: str | None) -> None:
        """Attach to the stream, after the last event that the client has seen.

        Raises:
            RequestRejected: Another client reads the stream, or an event that was missed is lost.
        """
        stream, connection = self._stream, self._connection
        if last_seen is None and stream.reader is not None:
            raise RequestRejected(409, "this stream has a reader already")
        window = stream.window
        if last_seen is None:
            is_whole = not window.has_gap
        else:
            # Digits only: `int` would accept signs, whitespace and underscores.
            number = int(last_seen) if last_seen.isascii() and last_seen.isdigit() and len(last_seen) < 20 else -1
            is_whole = number >= 0 and window.rewind(number)
            connection.metrics.resumed += is_whole
        if not is_whole:
            window.forget()
            connection.measure()
            connection.metrics.lost += 1
            error = InvalidRequest("history lost, load the session")
            raise RequestRejected(410, error.message, body=serialize_error(None, error))
        connection.measure()
        before, stream.reader = stream.reader, self
        if before is not None:
            before.replace()
        connection.on_read_again()

    def abort(self) -> None:
        """Drop the TCP connection: a client that reads nothing would not read an end either."""
        self._abort()
        self.leave()

    def leave(self) -> None:
        """End `run`."""
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.reschedule(self._loop.time())

    def replace(self) -> None:
        """End properly, because another reader replaces this one; at once, if this client reads nothing."""
        self.wakeup.set()
        if self.blocked_since is not None:
            self.abort()

    async def run(self, receive: Receive, send: Send) -> None:
        """Send events until either side ends the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        try:
            async with asyncio.timeout(None) as self._scope, asyncio.TaskGroup() as group:
                sending = group.create_task(self._send_events(send))
                while (await receive())["type"] != "http.disconnect":
                    pass
                sending.cancel()
        except TimeoutError:
            pass  # `leave` was called
        finally:
            self._scope = None
            self._connection.detach(self._stream, self)

    async def _send_events(self, send: Send) -> None:
        connection = self._connection
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
            while self._stream.reader is self:
                events = self._coalesce()
                if events:
                    await self._write(send, events)
                    if self._stream.window.waiting_bytes < connection.limits.write_ahead // 2:
                        connection.end_congestion(self._stream)
                elif connection.is_finished or connection.is_gone:
                    break
                else:
                    connection.end_congestion(self._stream)
                    await self._wait(send)
            await send({"type": "http.response.body", "body": b""})
        self.leave()

    def _coalesce(self) -> bytes:
        window = self._stream.window
        before = window.stored_bytes
        events = window.take(self._connection.limits.write_ahead)
        self._connection.add_stored_bytes(window.stored_bytes - before)
        return events

    async def _write(self, send: Send, events: bytes) -> None:
        self.blocked_since = self._loop.time()
        await send({"type": "http.response.body", "body": events, "more_body": True})
        self.blocked_since = None

    async def _wait(self, send: Send) -> None:
        try:
            async with asyncio.timeout(self._connection.limits.keepalive_seconds):
                await self.wakeup.wait()
        except TimeoutError:
            await self._write(send, b":\n\n")
