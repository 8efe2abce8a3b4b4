"""What was handled and still waits for the program that reads it: its bytes count as input that waits."""

from __future__ import annotations

from collections.abc import Callable, Sized

from duologue.jsonrpc.codec import decoded_bytes

__all__ = ["UnreadBytes", "size_of"]

PLAIN_BYTES = 512
"""Messages up to this length count by their length: most of each is its envelope."""


def size_of(frame: bytes) -> int:
    """What counts for an event that came in this frame: the memory it may take."""
    return len(frame) if len(frame) <= PLAIN_BYTES else decoded_bytes(frame)


class UnreadBytes:
    """What waits for the readers of one connection.

    Attributes:
        bytes: How much waits; whoever adds to what a reader has to read, or takes from it, counts that here itself.
        is_awaited: Whether `on_progress` is to be called when it becomes less.
        on_progress: Reconsiders whether reading may go on.
    """

    def __init__(self, on_progress: Callable[[], None]) -> None:
        self.bytes = 0
        self.is_awaited = False
        self.on_progress = on_progress
        self._waiting: dict[str | None, Sized] = {}
        self._on_full: dict[str, Callable[[], None]] = {}

    def add(self, session_id: str, waiting: Sized, size: int, on_full: Callable[[], None]) -> None:
        """Count what waits for the reader of this session from now on: `size` bytes so far.

        Args:
            session_id: The session.
            waiting: What waits.
            size: How many bytes of it wait already.
            on_full: Called when reading from the peer pauses because too much waits.
        """
        self._waiting[session_id] = waiting
        self._on_full[session_id] = on_full
        self.bytes += size

    def remove(self, session_id: str, size: int) -> None:
        """Count it no longer: these `size` bytes are the reader's own."""
        del self._waiting[session_id], self._on_full[session_id]
        self.bytes -= size
        self.on_progress()

    def report_full(self) -> None:
        """Report to every reader's queue that reading from the peer pauses now."""
        for on_full in list(self._on_full.values()):
            on_full()

    def __contains__(self, session_id: str | None) -> bool:
        """Whether something waits for the reader of this session."""
        return bool(self._waiting.get(session_id))
