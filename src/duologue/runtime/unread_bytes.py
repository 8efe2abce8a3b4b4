"""Bytes of events that were handled and wait for the program that reads them; they count as waiting input."""

from __future__ import annotations

from collections.abc import Callable, Sized

from duologue.jsonrpc.codec import decoded_bytes

PLAIN_BYTES = 512
"""Messages up to this length count by their length: most of it is the envelope."""


def size_of(frame: bytes) -> int:
    """Estimate the memory that the event of this frame takes."""
    return len(frame) if len(frame) <= PLAIN_BYTES else decoded_bytes(frame)


class UnreadBytes:
    """Count of the bytes that wait for the readers of one connection.

    Attributes:
        bytes: The bytes that wait; the code that adds to a reader's queue, or removes from it, updates this count.
        is_awaited: Whether to call `on_progress` when the count decreases.
        on_progress: Checks whether reading from the peer may continue.
    """

    def __init__(self, on_progress: Callable[[], None]) -> None:
        self.bytes = 0
        self.is_awaited = False
        self.on_progress = on_progress
        self._waiting: dict[str | None, Sized] = {}
        self._on_full: dict[str, Callable[[], None]] = {}

    def add(self, session_id: str, waiting: Sized, size: int, on_full: Callable[[], None]) -> None:
        """Start counting what waits for the reader of this session: `size` bytes so far.

        Args:
            session_id: The session.
            waiting: The reader's queue.
            size: The bytes already in it.
            on_full: Called when reading from the peer pauses because too much waits.
        """
        self._waiting[session_id] = waiting
        self._on_full[session_id] = on_full
        self.bytes += size

    def remove(self, session_id: str, size: int) -> None:
        """Stop counting for this session; `size` bytes leave the count."""
        del self._waiting[session_id], self._on_full[session_id]
        self.bytes -= size
        self.on_progress()

    def report_full(self) -> None:
        """Call `on_full` of every session: reading from the peer pauses now."""
        for on_full in list(self._on_full.values()):
            on_full()

    def __contains__(self, session_id: str | None) -> bool:
        """Return True if something waits for the reader of this session."""
        return bool(self._waiting.get(session_id))
