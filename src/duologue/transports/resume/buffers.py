"""The frames that each end counts and keeps so that a broken connection can be resumed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from duologue.transports.resume.protocol import ACKNOWLEDGE_BYTES, ACKNOWLEDGE_FRAMES, WINDOW_BYTES, WINDOW_FRAMES


class SentFrames:
    """The client's frames that the server has not acknowledged, by number.

    Attributes:
        count: How many frames were sent in all.
        size: Bytes that are buffered.
    """

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._frames: deque[bytes] = deque()

    @property
    def is_full(self) -> bool:
        """Whether more is buffered than a window is meant to hold."""
        return self.size > WINDOW_BYTES or len(self._frames) > WINDOW_FRAMES

    @property
    def acknowledged(self) -> int:
        """How many frames the server is known to have."""
        return self.count - len(self._frames)

    def append(self, frame: bytes) -> None:
        """Add a frame that was sent."""
        self.count += 1
        self.size += len(frame)
        self._frames.append(frame)

    def acknowledge(self, count: object) -> bool:
        """Drop the first `count` frames; `False` if that is no number between those acknowledged and those sent."""
        if not isinstance(count, int) or not self.acknowledged <= count <= self.count:
            return False
        while self.acknowledged < count:
            self.size -= len(self._frames.popleft())
        return True

    def after(self, count: int) -> Sequence[bytes]:
        """Return what follows frame number `count`, which must be acknowledged or later."""
        return list(islice(self._frames, count - self.acknowledged, None))


class AckCounter:
    """Count the frames that arrived, and those not acknowledged yet.

    Args:
        frames: Unacknowledged frames after which an acknowledgement is due.
        size: The same in bytes.
    """

    def __init__(self, frames: int = ACKNOWLEDGE_FRAMES, size: int = ACKNOWLEDGE_BYTES) -> None:
        self.count = 0
        self._max_frames = frames
        self._max_bytes = size
        self._frames = 0
        self._bytes = 0

    def add(self, *frames: bytes) -> None:
        """Count frames that arrived."""
        self.count += len(frames)
        self._frames += len(frames)
        self._bytes += sum(map(len, frames))

    @property
    def is_due(self) -> bool:
        """Whether it is time to acknowledge."""
        return self._frames >= self._max_frames or self._bytes >= self._max_bytes

    @property
    def has_unacknowledged(self) -> bool:
        """Whether a frame arrived that was not acknowledged."""
        return self._frames > 0

    def acknowledge(self) -> int:
        """Return how many frames to acknowledge, and count them as acknowledged."""
        self._frames = self._bytes = 0
        return self.count


class ReplayBuffer:
    """The server's frames for one connection or stream: those not sent yet, and those that may be requested again.

    The first frame has the number 1.

    Args:
        max_bytes: Sent frames to keep, in bytes.
        max_frames: The same in frames.
        keeps: Whether sent frames are kept at all.

    Attributes:
        last_taken: The number of the last frame that was sent.
        waiting_bytes: Bytes that were not sent yet.
        has_gap: A frame was dropped that was never sent.
    """

    __slots__ = (
        "_max_bytes",
        "_max_frames",
        "_sent",
        "_sent_bytes",
        "_waiting",
        "has_gap",
        "last_taken",
        "stores_sent",
        "waiting_bytes",
    )

    def __init__(self, max_bytes: int, max_frames: int, *, stores_sent: bool) -> None:
        self.stores_sent = stores_sent
        self.last_taken = 0
        self.waiting_bytes = 0
        self.has_gap = False
        self._max_bytes = max_bytes
        self._max_frames = max_frames
        self._waiting: deque[bytes] = deque()
        self._sent: deque[bytes] = deque()
        self._sent_bytes = 0

    @property
    def stored_bytes(self) -> int:
        """Bytes of all frames in memory."""
        return self.waiting_bytes + self._sent_bytes

    @property
    def newest(self) -> int:
        """The number of the last frame that was appended."""
        return self.last_taken + len(self._waiting)

    @property
    def is_filling(self) -> bool:
        """Whether producers that can wait should: the other half of the window is for those that cannot."""
        frames = len(self._waiting) + len(self._sent)
        return 2 * self.stored_bytes > self._max_bytes or 2 * frames > self._max_frames

    def append(self, frame: bytes) -> None:
        """Add a frame to be sent."""
        self.extend([frame], len(frame))

    def extend(self, frames: list[bytes], size: int) -> None:
        """Add frames to be sent, which have `size` bytes together."""
        self._waiting.extend(frames)
        self.waiting_bytes += size

    def take(self, size: int) -> list[bytes]:
        """Return the next frames to send, about `size` bytes of them."""
        waiting, taken = self._waiting, 0
        frames: list[bytes] = []
        if self.waiting_bytes <= size:
            frames, taken = list(waiting), self.waiting_bytes
            waiting.clear()
        else:
            while waiting and taken < size:
                frame = waiting.popleft()
                frames.append(frame)
                taken += len(frame)
        self.waiting_bytes -= taken
        self.last_taken += len(frames)
        if self.stores_sent:
            self._sent.extend(frames)
            self._sent_bytes += taken
            self._trim_sent(self._max_bytes, self._max_frames)
        return frames

    def start_counting(self) -> None:
        """Give the next frame the number 1, and keep sent frames from now on."""
        self.last_taken = -len(self._waiting)
        self.stores_sent = True

    def acknowledge(self, number: int) -> None:
        """Drop all frames up to this number: they have arrived."""
        sent, size = self._sent, 0
        for _ in range(min(number - self._first_sent + 1, len(sent))):
            size += len(sent.popleft())
        self._sent_bytes -= size

    def rewind(self, number: int) -> bool:
        """Send all frames after this number again; `False` if one of them is no longer there."""
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
        """Keep the newest frames that fit, because no client reads; a client that requests others sees the gap."""
        frames = max(0, self._max_frames - len(self._waiting))
        self._trim_sent(self._max_bytes - self.waiting_bytes, frames)
        while self.waiting_bytes > self._max_bytes or len(self._waiting) > self._max_frames:
            self.waiting_bytes -= len(self._waiting.popleft())
            self.last_taken += 1
            self.has_gap = True

    def forget(self) -> None:
        """Drop everything, and start again with the next frame: the client knows that something is missing."""
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
            self._sent_bytes -= len(self._sent.popleft())
