"""Both ends of a connection inside one process, with the same limits as a real one."""

from __future__ import annotations

from duologue.errors import ConnectionLost, DuologueError
from duologue.transports.buffered import HARD_LIMIT_FACTOR, MAX_QUEUED_BYTES, BufferedTransport


class MemoryTransport(BufferedTransport):
    """One end of a `memory_pair()`; the other end receives what is sent here, as the very same objects."""

    _other: MemoryTransport

    def __init__(self, bound: int) -> None:
        super().__init__(bound)
        self._send_error = None

    @property
    def pending_bytes(self) -> int:
        return self._other._unread_bytes

    def _on_read(self, unread: int) -> None:
        self._other._end_congestion()

    def send(self, frame: bytes) -> None:
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)
        other = self._other
        other._frames.append(frame)
        other._unread_bytes += len(frame)
        other._frames_arrived.set()
        if other._unread_bytes > self._max_queued:
            self.is_congested = True
            if other._unread_bytes > self._max_queued * HARD_LIMIT_FACTOR:
                self._exceed_output(other._unread_bytes)

    async def aclose(self) -> None:
        """Close this end at once: frames not received here are dropped, those sent can still be received there."""
        self._frames.clear()
        self._unread_bytes = 0
        self._send_error = ConnectionLost("this transport is closed")
        self._end(None)

    def _end(self, failure: DuologueError | None) -> None:
        super()._end(failure)
        self._end_congestion()
        other = self._other
        other._send_error = other._send_error or ConnectionLost("the other end was closed")
        other._end_congestion()
        if not other._is_ended:
            other._end(None)


def memory_pair(bound: int = MAX_QUEUED_BYTES) -> tuple[MemoryTransport, MemoryTransport]:
    """Return both ends of a connection that never leaves this process.

    Args:
        bound: Bytes that may wait in one direction before the sender is congested.
    """
    one, other = MemoryTransport(bound), MemoryTransport(bound)
    one._other, other._other = other, one
    return one, other
