"""Split a stream of bytes into lines, in bounded memory, also when parts of the stream are missing."""

from __future__ import annotations

from io import BytesIO

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
        return split_lines(self.add_unsplit(data))

    def add_unsplit(self, data: bytes) -> bytes:
        """Add the next bytes of the stream; return the lines that they complete, each with its line end."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return b""
        end_of_first = data.find(b"\n") + 1
        self._keep(data[:end_of_first])
        lines = b"".join((self._end_line(), memoryview(data)[end_of_first:end]))
        self._keep(data[end:])
        return lines

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


def split_lines(lines: bytes) -> list[bytes]:
    """Return lines without their line ends; empty ones are left out."""
    # Several times faster than `split`, because it looks at line ends only.
    return [line[:-1] for line in BytesIO(lines).readlines() if not line.isspace()]
