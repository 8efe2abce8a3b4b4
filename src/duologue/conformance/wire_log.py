"""Every message of a case in both directions, and what passive rules find in them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from duologue.recording.format import Entry, FrameDirection
from duologue.trace.frames import TracedFrame, Tracer

MAX_BYTES = 64 * 1024 * 1024
"""Bytes that the log of one case keeps; of later frames, and of long ones, only the beginning is kept."""
LONGEST_FRAME = 1024 * 1024
NOT_STORED = "not stored: too long"
STORED_OF_LONG = 2000
"""Characters that are kept of a frame that is too long to be kept."""


class WireFrame(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a case.

    Attributes:
        number: Its number in the case, from 1.
        connection: Number of the connection in the case, from 1.
        entry: The message with its time and direction, as in a recording.
        is_deliberate: True if the checker sent it although it breaks the protocol.
        size: Length in bytes.
    """

    number: int
    connection: int
    entry: Entry
    is_deliberate: bool = False
    size: int = 0


class WireLog:
    """The messages of all connections of one case, in the order in which they were sent and received.

    Attributes:
        frames: The messages.
        unanswered: Numbers of the requests for whose responses the case waited in vain.
        connections: How many connections there were.
    """

    def __init__(self) -> None:
        self.frames: list[WireFrame] = []
        self.unanswered: set[int] = set()
        self.connections = 0
        self._began = time.monotonic()
        self._bytes = 0

    def connect(self) -> ConnectionLog:
        """Begin the log of another connection."""
        self.connections += 1
        return ConnectionLog(self, self.connections)

    def add(self, connection: int, direction: FrameDirection, frame: bytes, *, is_deliberate: bool) -> int:
        """Add a message; return its number."""
        number = len(self.frames) + 1
        entry = self._entry(direction, frame)
        self.frames.append(
            WireFrame(number=number, connection=connection, entry=entry, is_deliberate=is_deliberate, size=len(frame))
        )
        return number

    def _entry(self, direction: FrameDirection, frame: bytes) -> Entry:
        t = round(time.monotonic() - self._began, 6)
        if len(frame) > LONGEST_FRAME or self._bytes + len(frame) > MAX_BYTES:
            stored = frame[:STORED_OF_LONG].decode("utf-8", "replace")
            return Entry(t=t, dir=direction, text=f"{stored}… ({len(frame):,} bytes)", invalid=NOT_STORED)
        self._bytes += len(frame)
        try:
            msgspec.json.decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Entry(t=t, dir=direction, text=frame.decode("utf-8", "replace"), invalid="not JSON")
        return Entry(t=t, dir=direction, frame=Raw(frame))


class ConnectionLog:
    """The messages of one connection of a case.

    Args:
        log: The log of the case.
        number: Number of the connection.

    Attributes:
        is_muted: While it is True, messages are not added, because they are many and all alike.
    """

    def __init__(self, log: WireLog, number: int) -> None:
        self.is_muted = False
        self._log = log
        self._number = number

    def add(self, direction: FrameDirection, frame: bytes, *, is_deliberate: bool = False) -> int:
        """Add a message; return its number in the case."""
        if self.is_muted:
            return len(self._log.frames)
        return self._log.add(self._number, direction, frame, is_deliberate=is_deliberate)

    def note_unanswered(self, number: int | None) -> None:
        """Remember that a response to this message was waited for in vain."""
        if number is not None:
            self._log.unanswered.add(number)

    def frames(self) -> list[WireFrame]:
        """Return the messages of the connection."""
        return [frame for frame in self._log.frames if frame.connection == self._number]

    def traced(self) -> Iterator[tuple[WireFrame, TracedFrame]]:
        """Yield the messages with their meaning; the numbers of the traced ones count this connection only."""
        own = self.frames()
        return zip(own, Tracer().trace(frame.entry for frame in own), strict=True)
