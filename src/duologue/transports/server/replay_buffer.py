"""Numbered frames on their way to a client: those that wait, and those that left but may be asked for again."""

from __future__ import annotations

from collections import deque

__all__ = ["ReplayBuffer"]


class ReplayBuffer:
    """The outgoing frames of one connection or stream; the first has the number 1.

    Args:
        max_bytes: How much is kept of what may have to be sent again.
        max_frames: The same in frames.
        keeps: Keep what was sent at all.
    """

    __slots__ = (
        "_max_bytes",
        "_max_frames",
        "_sent",
        "_sent_bytes",
        "_waiting",
        "has_gap",
        "keeps",
        "last_taken",
        "waiting_bytes",
    )

    def __init__(self, max_bytes: int, max_frames: int, *, keeps: bool) -> None:
        self.keeps = keeps
        self.last_taken = 0
        """The number of the last frame that left."""
        self.waiting_bytes = 0
        self.has_gap = False
        """Something was dropped that was never sent."""
        self._max_bytes = max_bytes
        self._max_frames = max_frames
        self._waiting: deque[bytes] = deque()
        self._sent: deque[bytes] = deque()
        self._sent_bytes = 0

    @property
    def kept_bytes(self) -> int:
        """All that is held in memory."""
        return self.waiting_bytes + self._sent_bytes

    @property
    def newest(self) -> int:
        """The number of the last frame that was appended."""
        return self.last_taken + len(self._waiting)

    @property
    def is_filling(self) -> bool:
        """Whoever can wait should: half of the room is left for those who cannot."""
        frames = len(self._waiting) + len(self._sent)
        return 2 * self.kept_bytes > self._max_bytes or 2 * frames > self._max_frames

    def append(self, frame: bytes) -> None:
        """One more that waits."""
        self._waiting.append(frame)
        self.waiting_bytes += len(frame)

    def take(self) -> bytes | None:
        """The next to be sent; nothing, if none waits."""
        if not self._waiting:
            return None
        frame = self._waiting.popleft()
        self.waiting_bytes -= len(frame)
        self.last_taken += 1
        if self.keeps:
            self._sent.append(frame)
            self._sent_bytes += len(frame)
            self._trim_sent(self._max_bytes, self._max_frames)
        return frame

    def take_many(self, size: int) -> list[bytes]:
        """The next to be sent, about this many bytes of them."""
        frames: list[bytes] = []
        while size > 0 and (frame := self.take()) is not None:
            frames.append(frame)
            size -= len(frame)
        return frames

    def start_counting(self) -> None:
        """Whatever comes next has the number 1, and is kept from now on."""
        self.last_taken = -len(self._waiting)
        self.keeps = True

    def acknowledge(self, number: int) -> None:
        """All up to this number has arrived and need not be kept."""
        while self._sent and self._first_sent <= number:
            self._drop_sent()

    def rewind(self, number: int) -> bool:
        """Send again all behind this number; false, if that is not possible without a gap."""
        if not self._first_sent - 1 <= number <= self.last_taken:
            return False
        while self.last_taken > number:
            frame = self._sent.pop()
            self._sent_bytes -= len(frame)
            self._waiting.appendleft(frame)
            self.waiting_bytes += len(frame)
            self.last_taken -= 1
        self.acknowledge(number)
        return True

    def trim(self) -> None:
        """Nobody is there to take anything: keep the newest that fit. Who asks for the others is told of the gap."""
        frames = max(0, self._max_frames - len(self._waiting))
        self._trim_sent(self._max_bytes - self.waiting_bytes, frames)
        while self.waiting_bytes > self._max_bytes or len(self._waiting) > self._max_frames:
            self.waiting_bytes -= len(self._waiting.popleft())
            self.last_taken += 1
            self.has_gap = True

    def forget(self) -> None:
        """Begin anew with the next frame: whoever asked knows that something is missing."""
        self.acknowledge(self.last_taken)
        self.last_taken += len(self._waiting)
        self._waiting.clear()
        self.waiting_bytes = 0
        self.has_gap = False

    @property
    def _first_sent(self) -> int:
        return self.last_taken - len(self._sent) + 1

    def _trim_sent(self, max_bytes: int, max_frames: int) -> None:
        while self._sent and (self._sent_bytes > max_bytes or len(self._sent) > max_frames):
            self._drop_sent()

    def _drop_sent(self) -> None:
        self._sent_bytes -= len(self._sent.popleft())
