"""Two ends of a connection inside one process, with the same bounds as a real one."""

from __future__ import annotations

import asyncio

from duologue.errors import ConnectionLost, OutputLimitExceeded
from duologue.transports.base import Transport
from duologue.transports.stdio.line_stream import HARD_MARK_FACTOR, MAX_QUEUED_BYTES

__all__ = ["MemoryTransport", "memory_pair"]


class MemoryTransport(Transport):
    """One end of a `memory_pair()`; what is sent here is received there, as the very same objects."""

    _other: MemoryTransport

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._arrived: list[bytes] = []
        self._arrived_bytes = 0
        self._is_closed = False
        self._failure: OutputLimitExceeded | None = None
        self._wakeup = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def pending_bytes(self) -> int:
        return self._other._arrived_bytes

    async def receive(self) -> list[bytes]:
        while not self._arrived:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._is_closed or self._other._is_closed:
                return []
            self._wakeup.clear()
            await self._wakeup.wait()
        frames, self._arrived = self._arrived, []
        self._arrived_bytes = 0
        self._other._make_room()
        return frames

    def send(self, frame: bytes) -> None:
        other = self._other
        if self._is_closed or other._is_closed:
            raise ConnectionLost("this transport is closed" if self._is_closed else "the other end was closed")
        other._arrived.append(frame)
        other._arrived_bytes += len(frame)
        other._wakeup.set()
        if other._arrived_bytes > self._bound:
            self._congest(other._arrived_bytes)

    async def drain(self) -> None:
        while self.is_congested:
            self._room.clear()
            await self._room.wait()
        if self._is_closed or self._other._is_closed:
            raise ConnectionLost("the connection was closed before all was taken")

    async def aclose(self) -> None:
        """Our end is gone at once: what waits here unread is dropped, what waits there can still be received."""
        self._is_closed = True
        self._arrived.clear()
        self._arrived_bytes = 0
        for end in (self, self._other):
            end._wakeup.set()
            end._make_room()

    def _congest(self, waiting: int) -> None:
        self.is_congested = True
        if waiting > self._bound * HARD_MARK_FACTOR:
            self._failure = OutputLimitExceeded(f"{waiting} bytes wait to be received; the bound is {self._bound}")
            self._is_closed = True
            self._wakeup.set()
            self._other._wakeup.set()
            self._make_room()
            raise self._failure

    def _make_room(self) -> None:
        self.is_congested = False
        self._room.set()


def memory_pair(bound: int = MAX_QUEUED_BYTES) -> tuple[MemoryTransport, MemoryTransport]:
    """Both ends of a connection that never leaves this process.

    Args:
        bound: Bytes that may wait in one direction before the sender is told to wait.
    """
    one, other = MemoryTransport(bound), MemoryTransport(bound)
    one._other, other._other = other, one
    return one, other
