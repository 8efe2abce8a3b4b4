"""Both ends of a byte stream in memory, with faults: what a pipe or a socket may do to lines."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Self

from duologue.testing.faults.injector import FaultInjector
from duologue.testing.faults.plan import FaultPlan
from duologue.transports.base import Transport
from duologue.transports.stdio.line_stream import LineStreamTransport

READ_BYTES = 64 * 1024
"""The size of a Linux pipe: more is never read at once."""


def faulty_streams(plan: FaultPlan | None = None, *, seed: int) -> tuple[Transport, Transport]:
    """Return both ends of a byte stream in memory: the first one has the faults, the second one is the peer.

    Unlike those of `FaultyTransport`, these faults act on bytes: a message arrives in pieces that end anywhere, several
    arrive as one, and the stream ends in the middle of a line. Both ends read lines as the ends of a pipe do.

    Args:
        plan: The faults of the first end. Default: `FaultPlan.random(seed)`.
        seed: Decides which messages have which faults, and where they are cut.
    """
    plan = FaultPlan.random(seed) if plan is None else plan
    none = FaultPlan()
    one, other = StreamTransport(), StreamTransport()
    there = _Pipe(FaultInjector(none if plan.direction == "receive" else plan, seed, "send"))
    here = _Pipe(FaultInjector(none if plan.direction == "send" else plan, seed, "receive"))
    one.join(reads=here, writes=there)
    other.join(reads=there, writes=here)
    return one, other


class StreamTransport(LineStreamTransport):
    """One end of `faulty_streams`."""

    def join(self, *, reads: _Pipe, writes: _Pipe) -> None:
        """Set the pipes of this end, before it is entered."""
        self._pipes = reads, writes

    async def __aenter__(self) -> Self:
        reads, writes = self._pipes
        self._attach(reads.open_reader(self._input), writes.open_writer(self._output))
        return self


class _Pipe:
    """One direction of a stream: bytes that were written, until they are read."""

    def __init__(self, injector: FaultInjector) -> None:
        self.size = 0
        self.reader: _Reader | None = None
        self.writer: _Writer | None = None
        self._injector = injector
        self._line = bytearray()
        self._parts: deque[tuple[float, bytes, bool]] = deque()
        """Time, bytes, and whether they are read apart from those before and after."""
        self._last = 0.0
        self._handle: asyncio.Handle | None = None
        self._is_closed = False
        self._is_broken = False

    def open_reader(self, protocol: asyncio.Protocol) -> _Reader:
        self._loop = asyncio.get_running_loop()
        self.reader = _Reader(self, protocol)
        self.pump_soon()
        return self.reader

    def open_writer(self, protocol: asyncio.Protocol) -> _Writer:
        self._loop = asyncio.get_running_loop()
        self.writer = _Writer(self, protocol)
        return self.writer

    def write(self, data: bytes) -> None:
        """Add bytes; faults are applied to whole lines."""
        self._line += data
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            for delivery in self._injector.apply(line):
                self._last = max(self._loop.time(), self._last) + delivery.wait
                text = delivery.data if delivery.is_torn else delivery.data + b"\n"
                pieces = self._injector.pieces(text) if delivery.is_apart else [text]
                self._parts.extend((self._last, piece, delivery.is_apart) for piece in pieces)
                self.size += len(text)
        self.pump_soon()

    def close(self) -> None:
        """Let the reader see the end, after what was written."""
        self._is_closed = True
        self.pump_soon()

    def abort(self) -> None:
        """Drop what was written, and end."""
        self._parts.clear()
        self.size = 0
        self.close()

    def break_off(self) -> None:
        """End because nothing is read any longer."""
        self._is_broken = True
        self.abort()

    def pump_soon(self) -> None:
        if self._handle is None:
            self._handle = self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Pass on what is due, and come again for the rest."""
        self._handle = None
        reader, now = self.reader, self._loop.time()
        if reader is not None and self._parts and not reader.is_paused:
            if self._parts[0][0] > now:
                self._handle = self._loop.call_at(self._parts[0][0], self._pump)
                return
            data = self._due(now)
            self.size -= len(data)
            reader.protocol.data_received(data)
            if self.writer is not None:
                self.writer.report_size()
            self.pump_soon()
        elif not self._parts and (self._is_closed or self._injector.is_ended):
            self._end()

    def _due(self, now: float) -> bytes:
        time, data, is_apart = self._parts.popleft()
        while not is_apart and self._parts and self._parts[0][0] <= now and not self._parts[0][2]:
            if len(data) >= READ_BYTES:
                break
            data += self._parts.popleft()[1]
        if len(data) > READ_BYTES:
            self._parts.appendleft((time, data[READ_BYTES:], is_apart))
        return data[:READ_BYTES]

    def _end(self) -> None:
        if self.reader is not None:
            self.reader.end()
        if self.writer is not None:
            is_broken = self._is_broken or not self._is_closed
            self.writer.end(
                BrokenPipeError(self._injector.end if self._injector.is_ended else "closed") if is_broken else None
            )


class _End:
    """The state that both ends of a pipe share."""

    def __init__(self, pipe: _Pipe, protocol: asyncio.Protocol) -> None:
        self.protocol = protocol
        self._pipe = pipe
        self._is_closing = False
        self._is_ended = False


class _Reader(_End, asyncio.ReadTransport):
    is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        self._pipe.pump_soon()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        self._pipe.break_off()

    def end(self) -> None:
        """Report the end of the stream, once."""
        if not self._is_ended:
            self._is_ended = True
            self.protocol.eof_received()
        if self._is_closing and not hasattr(self, "_is_gone"):
            self._is_gone = True
            self.protocol.connection_lost(None)


class _Writer(_End, asyncio.WriteTransport):
    _high = 64 * 1024
    _is_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = self._high if high is None else high

    def get_write_buffer_size(self) -> int:
        return self._pipe.size

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._pipe.write(bytes(data))
            self.report_size()

    def report_size(self) -> None:
        """Pause or resume the producer."""
        if not self._is_paused and self._pipe.size > self._high:
            self._is_paused = True
            self.protocol.pause_writing()
        elif self._is_paused and self._pipe.size <= self._high // 4:
            self._is_paused = False
            self.protocol.resume_writing()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        self._pipe.close()

    def abort(self) -> None:
        self._is_closing = True
        self._pipe.abort()

    def end(self, error: Exception | None) -> None:
        """Report that nothing more can be written, once."""
        self._is_closing = True
        if not self._is_ended:
            self._is_ended = True
            self.protocol.connection_lost(error)
