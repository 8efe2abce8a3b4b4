"""The messages of a connection, as a test saw them, and their text for a failure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.sanitize import escape_bytes, escape_line, shorten

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of messages that are kept of one connection; older ones are dropped."""
SHOWN_MESSAGES = 20
"""Messages that a failure shows: those before the last ones rarely explain it."""
LINE_CHARACTERS = 160


class LoggedFrame(Struct, frozen=True):
    """One message of a connection.

    Attributes:
        direction: Whether it was sent or received by the side that the test plays.
        frame: Its bytes, without the line end.
    """

    direction: Literal["sent", "received"]
    frame: bytes

    @property
    def message(self) -> Any:
        """The decoded message; `None` if it is no JSON."""
        try:
            return msgspec.json.decode(self.frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def __str__(self) -> str:
        """Return one line: an arrow, what it is, and the beginning of its content."""
        arrow = "->" if self.direction == "sent" else "<-"
        return shorten(f"{arrow} {_summary(self.message, self.frame)}", LINE_CHARACTERS)


def _summary(message: Any, frame: bytes) -> str:
    if not isinstance(message, dict):
        return f"not a message: {escape_line(escape_bytes(frame[:LINE_CHARACTERS]))}"
    members = cast("JsonObject", message)
    id_ = f" #{members['id']}" if "id" in members else ""
    if "method" in members:
        return f"{members['method']}{id_} {_json(members.get('params', {}))}"
    kind = "error" if "error" in members else "result"
    return f"{kind}{id_} {_json(members.get(kind))}"


def _json(value: Any) -> str:
    return escape_line(msgspec.json.encode(value).decode(), None)


class MessageLog:
    """The last messages of a connection."""

    def __init__(self) -> None:
        self._frames: deque[LoggedFrame] = deque()
        self._bytes = 0
        self._dropped = 0

    def add(self, direction: Literal["sent", "received"], frame: bytes) -> None:
        """Add a message; drop the oldest ones beyond the limit."""
        self._frames.append(LoggedFrame(direction, frame))
        self._bytes += len(frame)
        while self._bytes > MOST_BYTES and len(self._frames) > 1:
            self._bytes -= len(self._frames.popleft().frame)
            self._dropped += 1

    def __iter__(self) -> Iterator[LoggedFrame]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames) + self._dropped

    def __str__(self) -> str:
        """Return the last messages, one line each."""
        shown = list(self._frames)[-SHOWN_MESSAGES:]
        head = "messages" if len(shown) == len(self) else f"the last {len(shown)} of {len(self)} messages"
        return "\n  ".join([f"{head} (-> sent by the test, <- received):", *map(str, shown)])
