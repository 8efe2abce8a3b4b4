"""Split a stream of bytes into lines, in bounded memory, also when parts of the stream are missing."""

from __future__ import annotations

MAX_LINE_BYTES = 64 << 20
"""A longer line is dropped."""


class LineSplitter:
    """Collects the lines of one stream.

    Attributes:
        dropped: Lines that were dropped since this was last set to 0: too long, or a part of them is missing.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._is_skipping = False

    def add(self, data: bytes) -> list[bytes]:
        """Add the next bytes of the stream; return the lines that they complete, without line ends and empty lines."""
        if b"\n" not in data:
            self._keep(data)
            return []
        first, *lines, rest = data.split(b"\n")
        self._keep(first)
        lines.insert(0, self._end_line())
        self._keep(rest)
        return [line for line in lines if line and not line.isspace()]

    def miss(self, *, is_at_line_end: bool) -> None:
        """Note that bytes are missing here; drop the line they cut, unless they end with a line."""
        self._parts, self._size = [], 0
        self._is_skipping = not is_at_line_end

    def rest(self) -> bytes:
        """Return what is left after the end of the stream: a line without its end."""
        return self._end_line()

    def _keep(self, data: bytes) -> None:
        if self._is_skipping or not data:
            return
        self._parts.append(data)
        self._size += len(data)
        if self._size > MAX_LINE_BYTES:
            self.miss(is_at_line_end=False)

    def _end_line(self) -> bytes:
        """Return the collected line; empty if it is dropped."""
        self.dropped += self._is_skipping
        line = b"".join(self._parts)
        self._parts, self._size, self._is_skipping = [], 0, False
        return line
