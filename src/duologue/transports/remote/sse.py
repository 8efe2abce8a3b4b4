"""Parse server-sent events from bytes in any slices, without I/O.

Lines end with LF, CR or CRLF; an empty one ends an event. Unknown fields, comments, events without data and an event
that is cut off by the end of the stream are ignored.
"""

from __future__ import annotations

from typing import NamedTuple

from duologue.errors import MessageTooLarge

MAX_RETRY_SECONDS = 60.0
"""Longest pause that a server may request."""

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One message of the server.

    Attributes:
        data: The message.
        id: The number of the event, if the server numbers them.
        after: The event of the session's own stream that precedes this one; an extension that other clients ignore.
    """

    data: bytes
    id: str
    after: str


class EventParser:
    """Split a stream into events.

    Args:
        max_bytes: Longest event that is accepted.

    Attributes:
        retry: Seconds to wait before reconnecting, if the server requested a pause.
    """

    def __init__(self, max_bytes: int) -> None:
        self.retry: float | None = None
        self._max_bytes = max_bytes
        self._is_new = True
        self._skips_newline = False
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._type = b""
        self._id = ""
        self._after = ""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that are complete now.

        Raises:
            MessageTooLarge: An event exceeds the limit.
        """
        if self._is_new:
            data = bytes(self._line) + data
            self._line.clear()
            if _BOM.startswith(data):  # incomplete, or nothing else has arrived
                self._line += data
                return []
            self._is_new = False
            data = data.removeprefix(_BOM)
        if self._skips_newline and data:
            data = data.removeprefix(b"\n")
        self._skips_newline = data.endswith(b"\r") or (self._skips_newline and not data)
        return self._lines(data) if data else []

    def _lines(self, data: bytes) -> list[Event]:
        lines = data.splitlines()
        rest = b"" if data[-1:] in b"\r\n" else lines.pop()
        events: list[Event] = []
        if lines and self._line:
            lines[0] = bytes(self._line + lines[0])
            self._line.clear()
        for line in lines:
            if line:
                self._field(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        self._line += rest
        self._check(len(self._line))
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            self._check(0)
            self._data.append(value)
        elif name == b"event":
            self._type = value
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"after":
            self._after = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            # Longer numbers exceed the maximum anyway.
            self.retry = min(int(value[:9]) / 1000, MAX_RETRY_SECONDS) if len(value) < 9 else MAX_RETRY_SECONDS

    def _dispatch(self) -> Event | None:
        data, is_message = self._data, self._type in (b"", b"message")
        event = Event(data[0] if len(data) == 1 else b"\n".join(data), self._id, self._after)
        self._data, self._size, self._type, self._after = [], 0, b"", ""
        return event if is_message and event.data else None

    def _check(self, more: int) -> None:
        if self._size + more > self._max_bytes:
            raise MessageTooLarge(f"an event exceeds the limit of {self._max_bytes} bytes")
