"""The frames that each end counts and keeps so that a broken connection can be resumed."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, Protocol

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


class Encoding(Protocol):
    """How frames are written one after the other."""

    def encode(self, frames: list[bytes], first: int, /) -> bytes:
        """Return frames as they are written; the first of them has the number `first`."""
        ...

    def offsets(self, data: bytes, /) -> list[int]:
        """Return where each frame begins in what `encode` returned."""
        ...


class _Chunk(NamedTuple):
    """Frames that are written together."""

    data: bytes
    frames: int


class ReplayBuffer:
    """The server's frames for one connection or stream: those not sent yet, and those that may be requested again.

    The first frame has the number 1. Sent frames are kept as they were written, many in one chunk.

    Args:
        max_bytes: Sent frames to keep, in bytes.
        max_frames: The same in frames.
        encoding: How frames are written.
        stores_sent: Whether sent frames are kept at all.

    Attributes:
        last_taken: The number of the last frame that was sent.
        waiting_bytes: Bytes that were not sent yet.
        has_gap: A frame was dropped that was never sent.
    """

    __slots__ = (
        "_encoding",
        "_max_bytes",
        "_max_frames",
        "_sent",
        "_sent_bytes",
        "_sent_frames",
        "_skipped",
        "_unsent",
        "_unsent_frames",
        "_waiting",
        "has_gap",
        "last_taken",
        "stores_sent",
        "waiting_bytes",
    )

    def __init__(self, max_bytes: int, max_frames: int, encoding: Encoding, *, stores_sent: bool) -> None:
        self.stores_sent = stores_sent
        self.last_taken = 0
        self.waiting_bytes = 0
        self.has_gap = False
        self._max_bytes = max_bytes
        self._max_frames = max_frames
        self._encoding = encoding
        self._unsent: deque[_Chunk] = deque()
        """Chunks to send again, before what is waiting."""
        self._unsent_frames = 0
        self._waiting: list[bytes] = []
        self._sent: deque[_Chunk] = deque()
        self._sent_bytes = 0
        self._sent_frames = 0
        self._skipped = 0
        """Frames at the beginning of the first sent chunk that were dropped; the chunk goes with its last one."""

    @property
    def stored_bytes(self) -> int:
        """Bytes of all frames in memory."""
        return self.waiting_bytes + self._sent_bytes

    @property
    def newest(self) -> int:
        """The number of the last frame that was appended."""
        return self.last_taken + self._waiting_frames

    @property
    def is_filling(self) -> bool:
        """Whether producers that can wait should: the other half of the window is for those that cannot."""
        frames = self._waiting_frames + self._sent_frames
        return 2 * self.stored_bytes > self._max_bytes or 2 * frames > self._max_frames

    @property
    def _waiting_frames(self) -> int:
        return self._unsent_frames + len(self._waiting)

    def append(self, frame: bytes) -> None:
        """Add a frame to be sent."""
        self.extend([frame], len(frame))

    def extend(self, frames: list[bytes], size: int) -> None:
        """Add frames to be sent, which have `size` bytes together."""
        self._waiting += frames
        self.waiting_bytes += size

    def take(self, size: int) -> bytes:
        """Return the next frames to send, about `size` bytes of them, as they are written."""
        if self._unsent:
            chunk = self._unsent.popleft()
            self._unsent_frames -= chunk.frames
            self.waiting_bytes -= len(chunk.data)
        elif self._waiting:
            frames = self._take_waiting(size)
            chunk = _Chunk(self._encoding.encode(frames, self.last_taken + 1), len(frames))
        else:
            return b""
        self.last_taken += chunk.frames
        if self.stores_sent:
            self._sent.append(chunk)
            self._sent_bytes += len(chunk.data)
            self._sent_frames += chunk.frames
            self._trim_sent(self._max_bytes, self._max_frames)
        return chunk.data

    def _take_waiting(self, size: int) -> list[bytes]:
        if self.waiting_bytes <= size:
            frames, self._waiting = self._waiting, []
            self.waiting_bytes = 0
            return frames
        count = taken = 0
        while count < len(self._waiting) and taken < size:
            taken += len(self._waiting[count])
            count += 1
        frames = self._waiting[:count]
        del self._waiting[:count]
        self.waiting_bytes -= taken
        return frames

    def start_counting(self) -> None:
        """Give the next frame the number 1, and keep sent frames from now on."""
        self.last_taken = -self._waiting_frames
        self.stores_sent = True

    def acknowledge(self, number: int) -> None:
        """Drop all frames up to this number: they have arrived."""
        count = min(number - self._first_sent + 1, self._sent_frames)
        if count <= 0:
            return
        self._sent_frames -= count
        self._skipped += count
        while self._sent and self._sent[0].frames <= self._skipped:
            chunk = self._sent.popleft()
            self._skipped -= chunk.frames
            self._sent_bytes -= len(chunk.data)

    def rewind(self, number: int) -> bool:
        """Send all frames after this number again; `False` if one of them is no longer there."""
        if not self._first_sent - 1 <= number <= self.last_taken:
            return False
        self.acknowledge(number)
        self._cut_skipped()
        self._unsent.extendleft(reversed(self._sent))
        self._unsent_frames += self._sent_frames
        self.waiting_bytes += self._sent_bytes
        self.last_taken = number
        self._sent.clear()
        self._sent_bytes = self._sent_frames = 0
        return True

    def trim(self) -> None:
        """Keep the newest frames that fit, because no client reads; a client that requests others sees the gap."""
        self._trim_sent(self._max_bytes - self.waiting_bytes, max(0, self._max_frames - self._waiting_frames))
        while self.waiting_bytes > self._max_bytes or self._waiting_frames > self._max_frames:
            self.has_gap = True
            if self._unsent:
                chunk = self._unsent.popleft()
                self._unsent_frames -= chunk.frames
                self.waiting_bytes -= len(chunk.data)
                self.last_taken += chunk.frames
            else:
                self._drop_waiting()

    def _drop_waiting(self) -> None:
        count = max(0, len(self._waiting) - self._max_frames)
        size = self.waiting_bytes - sum(map(len, self._waiting[:count]))
        while size > self._max_bytes:
            size -= len(self._waiting[count])
            count += 1
        del self._waiting[:count]
        self.waiting_bytes = size
        self.last_taken += count

    def forget(self) -> None:
        """Drop everything, and start again with the next frame: the client knows that something is missing."""
        self.acknowledge(self.last_taken)
        self.last_taken = self.newest
        self._unsent.clear()
        self._waiting.clear()
        self._unsent_frames = self.waiting_bytes = 0
        self.has_gap = False

    @property
    def _first_sent(self) -> int:
        return self.last_taken - self._sent_frames + 1

    def _trim_sent(self, max_bytes: int, max_frames: int) -> None:
        while self._sent and (self._sent_bytes > max_bytes or self._sent_frames > max_frames):
            first = self._sent[0]
            count = first.frames - self._skipped
            if 8 * len(first.data) > self._max_bytes or 8 * count > self._max_frames:
                # Too much of the window to be dropped whole.
                self._cut_skipped()
                offsets = self._encoding.offsets(self._sent[0].data)
                by_size = bisect_left(offsets, self._sent_bytes - max_bytes)
                count = min(count, max(by_size, self._sent_frames - max_frames))
            self.acknowledge(self._first_sent + count - 1)
            self._cut_skipped()

    def _cut_skipped(self) -> None:
        """Free the bytes of the frames that were dropped from the first sent chunk."""
        if self._skipped:
            data, count = self._sent[0]
            rest = data[self._encoding.offsets(data)[self._skipped] :]
            self._sent[0] = _Chunk(rest, count - self._skipped)
            self._sent_bytes -= len(data) - len(rest)
            self._skipped = 0
