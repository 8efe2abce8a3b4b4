"""Frames over a byte stream, one per line: the engine under stdio, sockets and child processes.

Reading: bytes are cut into frames as they arrive and handed over all at once. When frames wait untaken, reading pauses,
so a flood stays in the pipe and not in memory.

Writing: the first frame after something arrived leaves at once, for latency: it is the answer, or the next question.
What follows is gathered into few large writes, one for each turn of the event loop, for throughput. Nothing here waits
for the other side, so reading never waits for writing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from duologue.errors import ConnectionLost, DuologueError, MessageTooLarge, OutputLimitExceeded
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES, LineFramer
from duologue.transports.base import Transport

__all__ = ["HARD_MARK_FACTOR", "MAX_QUEUED_BYTES", "LineStreamTransport"]

MAX_QUEUED_BYTES = 16 * 1024 * 1024
"""Output that may wait for a slow peer: room for a large file and its neighbours, no more."""

HARD_MARK_FACTOR = 4
"""Producers that cannot wait may go this many times over the bound; then the connection ends."""

WRITE_AHEAD = 256 * 1024
"""Bytes waiting beyond the kernel's own pipe buffer that make us congested: enough to keep a reader busy."""

READ_AHEAD = 1024 * 1024
"""Bytes of frames not yet taken that pause reading."""

GATHERED_WRITE = 64 * 1024
"""The size of a Linux pipe: a larger write would not pass in one piece anyway."""

LINGER_SECONDS = 2.0
"""How long `aclose` waits for the other side to take what is already queued."""


class LineStreamTransport(Transport):
    """Frames over a byte stream, one per line.

    A subclass opens a reader and a writer in `__aenter__`, with `self._input` and `self._output` as their protocols,
    and hands them to `_attach`.

    Args:
        max_message_bytes: Longest frame that is received whole.
        max_queued_bytes: Output that may wait; four times as much ends the connection with `OutputLimitExceeded`.
        output_stall: Seconds without any progress of waiting output after which the connection ends.
    """

    def __init__(
        self,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        output_stall: float | None = None,
    ) -> None:
        self._input = InputProtocol(self)
        self._output = OutputProtocol(self)
        self._framer = LineFramer(max_message_bytes)
        self._max_queued = max_queued_bytes
        self._output_stall = output_stall
        self._stall_check: asyncio.TimerHandle | None = None
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._is_closed = False

        self._frames: list[bytes] = []
        self._untaken = 0
        self._is_paused = False
        self._is_ended = False
        self._failure: DuologueError | None = None
        """Why receiving ended, unless it ended well."""
        self._arrival = asyncio.Event()
        self._reader_gone = asyncio.Event()

        self._gathered = bytearray()
        self._flush_immediately = True
        """Nothing was sent since something arrived."""
        self._is_gathering = False
        """The end of this turn of the event loop will write what is gathered."""
        self._written = 0
        self._broken: ConnectionLost | None = ConnectionLost("this transport was not entered yet")
        """Why nothing can be sent."""
        self._room = asyncio.Event()
        self._writer_gone = asyncio.Event()

    def _attach(self, reader: asyncio.ReadTransport, writer: asyncio.WriteTransport) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = reader
        self._writer = writer
        self._broken = None
        writer.set_write_buffer_limits(high=min(WRITE_AHEAD, self._max_queued))

    # Reading

    async def receive(self) -> list[bytes]:
        while not self._frames:
            if self._is_ended:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                return []
            self._arrival.clear()
            await self._arrival.wait()
        frames, self._frames = self._frames, []
        self._untaken = 0
        if not self._is_ended:
            self._resume()
        return frames

    def _bytes_arrived(self, data: bytes) -> None:
        if self._is_ended:
            return
        try:
            frames = self._framer.feed(data)
        except MessageTooLarge as failure:
            self._end(failure)
            return
        self._untaken += len(data)
        self._flush_immediately = True
        if frames and self.on_frames is not None and not self._frames and self.on_frames(frames):
            self._untaken = 0
        elif frames:
            self._frames += frames
            self._arrival.set()
        if self._framer.failure is not None:
            self._end(self._framer.failure)
        # A long line that is not whole yet must not pause its own arrival.
        elif self._untaken > READ_AHEAD and self._frames:
            self._pause()

    def _input_ended(self, error: Exception | None = None) -> None:
        """No more bytes will come."""
        self._last_line()
        self._end(None if error is None else ConnectionLost(f"the connection broke: {error}"))

    def _last_line(self) -> None:
        """An unfinished last line counts, too."""
        if not self._is_ended:
            try:
                self._frames += self._framer.finish()
            except MessageTooLarge as failure:
                self._end(failure)

    def _end(self, failure: DuologueError | None) -> None:
        """Receiving ends, after the frames that have arrived."""
        if not self._is_ended:
            self._is_ended = True
            self._failure = failure
            self._arrival.set()
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
        return len(self._gathered) + (self._writer.get_write_buffer_size() if self._writer is not None else 0)

    def send(self, frame: bytes) -> None:
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        if len(frame) >= GATHERED_WRITE:
            self._send_long(frame)
            return
        gathered = self._gathered
        gathered += frame
        gathered += b"\n"
        if self._flush_immediately:
            self._flush_immediately = False
            self._flush()
        elif not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self._end_turn)
        elif len(gathered) >= GATHERED_WRITE:
            self._flush()

    def _send_long(self, frame: bytes) -> None:
        """It leaves at once behind what is gathered; to gather it would be one more copy of it."""
        if self._gathered:
            self._flush()
        # asyncio keeps what the other side does not take yet: of a view it copies that only once.
        self._write(memoryview(frame))
        self._write(b"\n")

    async def drain(self) -> None:
        while self.is_congested and self._broken is None:
            self._room.clear()
            await self._room.wait()
        if self._broken is not None:
            raise self._broken.with_traceback(None)

    def _end_turn(self) -> None:
        self._is_gathering = False
        if self._gathered and self._broken is None:
            # Nobody is here to hear of a failure; the next `send` and `receive` say it.
            with suppress(ConnectionLost):
                self._flush()

    def _flush(self) -> None:
        data, self._gathered = self._gathered, bytearray()
        self._write(data)

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        writer = self._writer
        assert writer is not None
        if writer.is_closing():  # it broke, and asyncio is about to say so
            raise ConnectionLost("the other side takes nothing any more")
        self._written += len(data)
        writer.write(data)
        if self.is_congested and (waiting := writer.get_write_buffer_size()) > self._max_queued * HARD_MARK_FACTOR:
            failure = OutputLimitExceeded(f"{waiting} bytes wait to be read; the bound is {self._max_queued}")
            self._give_up(failure)
            raise failure

    def _pause_writing(self) -> None:
        self.is_congested = True
        if self._output_stall is not None:
            self._stall_check = self._loop.call_later(self._output_stall, self._check_stall, self._progress())

    def _make_room(self) -> None:
        self.is_congested = False
        self._room.set()
        if self._stall_check is not None:
            self._stall_check.cancel()
            self._stall_check = None

    def _progress(self) -> int:
        return self._written - self._writer.get_write_buffer_size() if self._writer is not None else 0

    def _check_stall(self, before: int) -> None:
        assert self._output_stall is not None
        now = self._progress()
        if now > before:
            self._stall_check = self._loop.call_later(self._output_stall, self._check_stall, now)
        else:
            self._give_up(OutputLimitExceeded(f"nothing was read for {self._output_stall:g} s"))

    def _output_broke(self, error: Exception | None) -> None:
        """The other side reads no more; what it sent before may still be received."""
        self._writer_gone.set()
        if self._broken is None:
            detail = f": {error}" if error is not None else ""
            self._broken = ConnectionLost(f"the other side takes nothing any more{detail}")
        self._gathered.clear()
        self._make_room()

    def _give_up(self, failure: ConnectionLost) -> None:
        """End both directions at once."""
        self._broken = failure
        self._end(failure)
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
        """No more output: the other side sees the end once it has read what is queued."""
        if self._writer is not None and not self._writer.is_closing():
            self._end_turn()
            self._broken = ConnectionLost("this transport is closed")
            self._writer.close()
        self._make_room()

    async def _close_writer(self, linger: float) -> None:
        self._start_closing_writer()
        if self._writer is not None:
            try:
                async with asyncio.timeout(linger):
                    await self._writer_gone.wait()
            except TimeoutError:
                self._abort_writer()

    def _drop(self) -> None:
        """Let go of both directions without waiting."""
        self._abort_writer()
        if self._reader is not None:
            self._reader.close()

    def _abort_writer(self) -> None:
        # asyncio ends a pipe once for each call, and the second time with a traceback: not where it has begun to.
        if self._writer is not None and not self._writer_gone.is_set() and not self._is_ending(self._writer):
            self._writer.abort()

    @staticmethod
    def _is_ending(writer: asyncio.WriteTransport) -> bool:
        return writer.is_closing() and writer.get_write_buffer_size() == 0

    async def _until_gone(self) -> None:
        """The descriptors are closed when this returns."""
        if self._writer is not None:
            await self._writer_gone.wait()
        if self._reader is not None:
            await self._reader_gone.wait()


class InputProtocol(asyncio.Protocol):
    """Tells a `LineStreamTransport` what its reader read."""

    def __init__(self, lines: LineStreamTransport) -> None:
        self._lines = lines

    def data_received(self, data: bytes) -> None:
        self._lines._bytes_arrived(data)

    def eof_received(self) -> bool:
        self._lines._input_ended()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._lines._input_ended(exc)
        self._lines._reader_gone.set()


class OutputProtocol(asyncio.Protocol):
    """Tells a `LineStreamTransport` how its writer fares."""

    def __init__(self, lines: LineStreamTransport) -> None:
        self._lines = lines

    def pause_writing(self) -> None:
        self._lines._pause_writing()

    def resume_writing(self) -> None:
        self._lines._make_room()

    def eof_received(self) -> bool:
        # On a socket: that it sends no more does not mean that it reads no more.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._lines._output_broke(exc)


class InputAndOutput(InputProtocol, OutputProtocol):
    """Both of them, for a stream with one object for both directions, such as a socket."""

    def connection_lost(self, exc: Exception | None) -> None:
        InputProtocol.connection_lost(self, exc)
        OutputProtocol.connection_lost(self, exc)
