"""Frames over a byte stream, one per line: the base of stdio, sockets and child processes.

Reading: bytes are split into frames as they arrive and delivered all at once. While frames wait to be received, reading
pauses, so a flood stays in the pipe and not in memory.

Writing: the first frame after something arrived is written at once, for latency: it is the response, or the next
request. Later frames are coalesced into one large write per iteration of the event loop, for throughput; the first one,
too, if many arrived together, because as many will follow and the first alone would wake the peer once more. Nothing
here waits for the peer, so reading never waits for writing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from duologue.errors import ConnectionLost, DuologueError, MessageTooLarge, OutputLimitExceeded
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES, LineFramer
from duologue.transports.buffered import (
    HARD_LIMIT_FACTOR,
    LINGER_SECONDS,
    MAX_QUEUED_BYTES,
    READ_AHEAD,
    WRITE_AHEAD,
    BufferedTransport,
)
from duologue.transports.stall_check import StallCheck

COALESCED_BYTES = 64 * 1024
"""The size of a Linux pipe: a larger write would not pass in one piece anyway."""

MANY_FRAMES = 8
"""Frames that arrive together and are answered together: more than an agent's request with the updates before it."""


class LineStreamTransport(BufferedTransport):
    """Frames over a byte stream, one per line.

    A subclass opens a reader and a writer in `__aenter__`, with `self._input` and `self._output` as their protocols,
    and passes them to `_attach`.

    Args:
        max_message_bytes: Longest frame that is received whole.
        max_queued_bytes: Output that may wait; four times as much ends the connection with `OutputLimitExceeded`.
        output_stall: Seconds after which a connection ends whose waiting output makes no progress.
        read_ahead: Bytes of received frames that may wait for `receive` before reading pauses.
    """

    def __init__(
        self,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        output_stall: float | None = None,
        read_ahead: int = READ_AHEAD,
    ) -> None:
        super().__init__(max_queued_bytes)
        self._read_ahead = read_ahead
        self._input = InputProtocol(self)
        self._output = OutputProtocol(self)
        self._framer = LineFramer(max_message_bytes)
        self._stall_check = StallCheck(self._progress, self._on_stall, output_stall)
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._is_closed = False

        self._is_paused = False
        self._reader_gone = asyncio.Event()

        self._coalesced: list[bytes] = []
        self._coalesced_bytes = 0
        self._flush_immediately = True
        """True while nothing was sent since something arrived, unless that was much."""
        self._is_flush_scheduled = False
        """The event loop will write what is coalesced in its next iteration."""
        self._unsent: deque[memoryview] = deque()
        """Frames for asyncio's transport once it has written its own, because it would copy them."""
        self._unsent_bytes = 0
        self._written = 0
        self._is_aborted = False
        self._writer_gone = asyncio.Event()

    def _attach(self, reader: asyncio.ReadTransport, writer: asyncio.WriteTransport) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = reader
        self._writer = writer
        self._send_error = None
        writer.set_write_buffer_limits(high=min(WRITE_AHEAD, self._max_queued))

    # Reading

    def _on_read(self, unread: int) -> None:
        if not self._is_ended:
            self._resume()

    def _bytes_arrived(self, data: bytes) -> None:
        if self._is_ended:
            return
        try:
            frames = self._framer.feed(data)
        except MessageTooLarge as failure:
            self._end(failure)
            return
        self._unread_bytes += len(data)
        self._flush_immediately = len(frames) < MANY_FRAMES
        if frames and self.on_frames is not None and not self._frames and self.on_frames(frames):
            self._unread_bytes = 0
        elif frames:
            self._frames += frames
            self._frames_arrived.set()
        if self._framer.failure is not None:
            self._end(self._framer.failure)
        # A long line that is incomplete must not pause its own arrival.
        elif self._unread_bytes > self._read_ahead and self._frames:
            self._pause()

    def _input_ended(self, error: Exception | None = None) -> None:
        """End receiving: no further bytes will come."""
        self._last_line()
        self._end(None if error is None else ConnectionLost(f"the connection broke: {error}"))

    def _last_line(self) -> None:
        """Deliver an unfinished last line, too."""
        if not self._is_ended:
            try:
                self._frames += self._framer.finish()
            except MessageTooLarge as failure:
                self._end(failure)

    def _end(self, failure: DuologueError | None) -> None:
        if not self._is_ended:
            super()._end(failure)
            self._pause()

    def _pause(self) -> None:
        if self._reader is not None and not self._is_paused and not self._reader.is_closing():
            self._is_paused = True
            self._reader.pause_reading()

    def _resume(self) -> None:
        if self._reader is not None and self._is_paused:
            self._is_paused = False
            self._reader.resume_reading()

    # Writing

    @property
    def pending_bytes(self) -> int:
        return self._coalesced_bytes + self._unwritten_bytes

    @property
    def _unwritten_bytes(self) -> int:
        if self._writer is None or self._is_aborted:  # uvloop still counts what an aborted writer has dropped
            return self._unsent_bytes
        return self._unsent_bytes + self._writer.get_write_buffer_size()

    def send(self, frame: bytes) -> None:
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)
        size = len(frame)
        if size >= COALESCED_BYTES:
            self._send_long(frame)
            return
        if self._flush_immediately and not self._coalesced:
            self._flush_immediately = False
            self._write(frame + b"\n")
            return
        self._coalesced.append(frame)
        self._coalesced_bytes += size + 1
        if self._flush_immediately:
            self._flush_immediately = False
            self._flush()
        elif not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush_scheduled)
        elif self._coalesced_bytes >= COALESCED_BYTES:
            self._flush()

    def _send_long(self, frame: bytes) -> None:
        """Write a long frame at once, after what is coalesced; coalescing it would copy it once more."""
        if self._coalesced:
            self._flush()
        self._write(frame)
        self._write(b"\n")

    def _flush_scheduled(self) -> None:
        self._is_flush_scheduled = False
        if self._coalesced and self._send_error is None:
            # The next `send` and `receive` report a failure.
            with suppress(ConnectionLost):
                self._flush()

    def _flush(self) -> None:
        self._coalesced.append(b"")  # for the line end of the last frame
        data = b"\n".join(self._coalesced)
        self._drop_coalesced()
        self._write(data)

    def _drop_coalesced(self) -> None:
        self._coalesced.clear()
        self._coalesced_bytes = 0

    def _write(self, data: bytes) -> None:
        writer = self._writer
        assert writer is not None
        if writer.is_closing():  # it broke, and asyncio is about to report it
            raise ConnectionLost("the peer no longer reads")
        if len(data) <= WRITE_AHEAD and not self._unsent:
            self._written += len(data)
            writer.write(data)
        else:
            self._unsent.append(memoryview(data))
            self._unsent_bytes += len(data)
            if not self.is_congested:
                self._write_unsent()
        if self.is_congested and (waiting := self._unwritten_bytes) > self._max_queued * HARD_LIMIT_FACTOR:
            self._exceed_output(waiting)

    def _write_unsent(self, *, is_last: bool = False) -> None:
        """Write what is unsent until asyncio's transport is congested; everything, if nothing will follow."""
        assert self._writer is not None
        while self._unsent and (is_last or not self.is_congested):
            part = self._unsent.popleft()
            if len(part) > WRITE_AHEAD:
                self._unsent.appendleft(part[WRITE_AHEAD:])
                part = part[:WRITE_AHEAD]
            self._unsent_bytes -= len(part)
            self._written += len(part)
            self._writer.write(part)

    def _pause_writing(self) -> None:
        self.is_congested = True
        self._stall_check.start()

    def _resume_writing(self) -> None:
        self._stall_check.stop()
        self.is_congested = False
        self._write_unsent()
        if not self.is_congested:
            self._end_congestion()

    def _end_congestion(self) -> None:
        super()._end_congestion()
        self._stall_check.stop()

    def _progress(self) -> int:
        return self._written - self._writer.get_write_buffer_size() if self._writer is not None else 0

    def _on_stall(self) -> None:
        self._abandon(OutputLimitExceeded(f"the peer read nothing for {self._stall_check.seconds:g} s"))

    def _output_broke(self, error: Exception | None) -> None:
        """Stop sending: the peer no longer reads. What it sent before may still be received."""
        self._writer_gone.set()
        if self._send_error is None:
            detail = f": {error}" if error is not None else ""
            self._send_error = ConnectionLost(f"the peer no longer reads{detail}")
        self._drop_coalesced()
        self._unsent.clear()
        self._unsent_bytes = 0
        self._end_congestion()

    def _abandon(self, failure: ConnectionLost) -> None:
        super()._abandon(failure)
        self._abort_writer()

    # Closing

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._end(None)
        try:
            await self._close_writer(LINGER_SECONDS)
        finally:
            self._drop()
        await self._until_gone()

    def _start_closing_writer(self) -> None:
        """Close the output: the peer sees its end once it has read what is queued."""
        if self._writer is not None and not self._writer.is_closing():
            self._flush_scheduled()
            self._write_unsent(is_last=True)
            self._send_error = ConnectionLost("this transport is closed")
            self._writer.close()
        self._end_congestion()

    async def _close_writer(self, linger: float) -> None:
        self._start_closing_writer()
        if self._writer is not None:
            try:
                async with asyncio.timeout(linger):
                    await self._writer_gone.wait()
            except TimeoutError:
                self._abort_writer()

    def _drop(self) -> None:
        """Close both directions without waiting."""
        self._abort_writer()
        if self._reader is not None:
            self._reader.close()

    def _abort_writer(self) -> None:
        # asyncio closes a pipe once for each call, the second time with a traceback.
        if self._writer is not None and not self._writer_gone.is_set() and not self._is_ending(self._writer):
            self._is_aborted = True
            self._writer.abort()

    @staticmethod
    def _is_ending(writer: asyncio.WriteTransport) -> bool:
        return writer.is_closing() and writer.get_write_buffer_size() == 0

    async def _until_gone(self) -> None:
        """Wait until the descriptors are closed."""
        if self._writer is not None:
            await self._writer_gone.wait()
        if self._reader is not None:
            await self._reader_gone.wait()


class InputProtocol(asyncio.Protocol):
    """Pass what the reader read to its `LineStreamTransport`."""

    def __init__(self, transport: LineStreamTransport) -> None:
        self._transport = transport
        self.data_received = transport._bytes_arrived  # type: ignore[method-assign]  # one call less for every read

    def eof_received(self) -> bool:
        self._transport._input_ended()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport._input_ended(exc)
        self._transport._reader_gone.set()


class OutputProtocol(asyncio.Protocol):
    """Report the state of the writer to its `LineStreamTransport`."""

    def __init__(self, transport: LineStreamTransport) -> None:
        self._transport = transport

    def pause_writing(self) -> None:
        self._transport._pause_writing()

    def resume_writing(self) -> None:
        self._transport._resume_writing()

    def eof_received(self) -> bool:
        # A socket whose peer has finished sending may still be read by it.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport._output_broke(exc)


class InputAndOutput(InputProtocol, OutputProtocol):
    """Serve as both protocols of a stream that has one object for both directions, such as a socket."""

    def connection_lost(self, exc: Exception | None) -> None:
        InputProtocol.connection_lost(self, exc)
        OutputProtocol.connection_lost(self, exc)
