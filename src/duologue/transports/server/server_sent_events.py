"""Frames as the server writes them on an event stream: each one numbered event."""

from __future__ import annotations

import re
from typing import Self

_NEXT_EVENT = re.compile(rb"(?:^|(?<=\n\n))id: ")
_FIRST_HEADS = [b"\n\nid: %d\ndata: " % number for number in range(100)]
_ENDINGS = [b"%02d\ndata: " % number for number in range(100)]


class AfterEvent(bytes):
    """A frame that belongs after event number `after` of its session's own stream."""

    after: int

    def __new__(cls, frame: bytes, after: int) -> Self:
        self = super().__new__(cls, frame)
        self.after = after
        return self


class ServerSentEvents:
    """Write each frame as one event; the number of the frame is its id."""

    @staticmethod
    def encode(frames: list[bytes], first: int) -> bytes:
        """Return the events of these frames."""
        text = b"".join(frames)
        if b"\n" in text or b"\r" in text or AfterEvent in map(type, frames):
            return b"".join([_event(number, frame) for number, frame in enumerate(frames, first)])
        pieces = frames * 2
        pieces[::2] = _heads(first, len(frames))
        pieces[1::2] = frames
        return b"".join(pieces)[2:] + b"\n\n"

    @staticmethod
    def offsets(data: bytes) -> list[int]:
        """Return where each event begins."""
        return [found.start() for found in _NEXT_EVENT.finditer(data)]


def _heads(first: int, count: int) -> list[bytes]:
    """Return the end of each event's predecessor, and its own beginning."""
    heads: list[bytes] = []
    for hundreds in range(first // 100, (first + count - 1) // 100 + 1):
        begin = b"\n\nid: %d" % hundreds
        heads += [begin + ending for ending in _ENDINGS] if hundreds else _FIRST_HEADS
    return heads[first % 100 : first % 100 + count]


def _event(number: int, frame: bytes) -> bytes:
    after = b"after: %d\n" % frame.after if isinstance(frame, AfterEvent) else b""
    # Outside of strings all whitespace is the same, and in strings there are no line ends.
    return b"id: %d\n%bdata: %b\n\n" % (number, after, frame.replace(b"\n", b" ").replace(b"\r", b" "))
