"""Framing of a byte stream: one line is one frame, one JSON text.

Rules of this file:
    line end       `\\n`; one `\\r` before it belongs to it; nothing else ends a line
    empty line     spaces and tabs only: skipped
    byte-order     accepted once, as the very first bytes of the stream
    too long       delivered as `Oversized`: its beginning and its size; the rest is dropped as it arrives
    far too long   more than `ABORT_FACTOR` times the limit: `MessageTooLarge`, because the line may never end

How the stream was sliced never changes the frames, and the cost is linear in the bytes, even one byte at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from operator import itemgetter
from typing import Self

from duologue.errors import MessageTooLarge

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""The limit of the TypeScript SDK, so that every message it may send can be received."""

HEAD_BYTES = 4096
"""Bytes kept of a line that is too long: enough for the id and the method of any sane message."""

ABORT_FACTOR = 4
"""Times the limit that is read and dropped while waiting for a line end."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WHITESPACE = b" \t"
FIRST_VISIBLE = b"!"
"""Smallest line that starts with neither whitespace nor a control character."""

_UNPRINTABLE = "[^ -~]"

_without_line_end: Callable[[bytes], bytes] = itemgetter(slice(None, -1))


def to_ascii(frame: bytes) -> bytes:
    """Return an equivalent frame of printable ASCII only, for a terminal."""
    return re.sub(_UNPRINTABLE, _escaped, frame.decode("utf-8", "replace")).encode("ascii")


def _escaped(found: re.Match[str]) -> str:
    """Escape a character in a string; between the tokens of a JSON text only whitespace is not printable."""
    character = found[0]
    if character in "\t\n\r":
        return " "
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class Oversized(bytes):
    """The beginning of a line that is over the limit; `size` is the length of the whole line.

    Closing brackets at its end are left out, so that it never parses as a message.
    """

    size: int

    def __new__(cls, line: bytes, size: int) -> Self:
        self = super().__new__(cls, line.rstrip(b" \t\r}]"))
        self.size = size
        return self


class LineFramer:
    """Splits a byte stream into frames; pure, one per direction of a connection.

    Attributes:
        failure: Set once a line is far over the limit; from then on every call raises it.
    """

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.failure: MessageTooLarge | None = None
        self._limit = max_message_bytes
        self._part = BytesIO()
        """The unfinished line; `BytesIO` gives it back without copying it once more."""
        self._size = 0
        """Length of the unfinished line; more than what `_part` has while the rest of a line is dropped."""
        self._is_first_line = True

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the frames they complete.

        Raises:
            MessageTooLarge: A line is far over the limit. Frames completed by the same call are returned first; then
                `failure` is set and the next call raises it.
        """
        if self.failure is not None:
            self._raise_failure()
        if (
            data.find(b"\n") == len(data) - 1
            and data >= FIRST_VISIBLE
            and not (self._size or self._is_first_line or len(data) > self._limit or data.endswith(b"\r\n"))
        ):
            return [data[:-1]]  # one whole line with nothing to join or to drop: the usual request or response
        end = data.rfind(b"\n") + 1
        lines: list[bytes] = []
        if end:
            # BytesIO finds line ends with memchr; bytes.split examines every byte, which costs twice as much.
            lines = list(map(_without_line_end, BytesIO(data)))
            if end < len(data):
                lines.pop()
            lines = self._complete(lines, check_all=b"\r" in data or len(data) > self._limit)
        if end < len(data) and self.failure is None:
            self._append(data[end:])
        if not lines:
            self._raise_failure()
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line, if the stream ended without a line end."""
        self._raise_failure()
        return self._complete([b""], check_all=True) if self._size else []

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def _complete(self, lines: list[bytes], *, check_all: bool) -> list[bytes]:
        """Return the frames among these whole lines, of which the first may have begun in an earlier slice."""
        if check_all:
            lines = self._join(lines)
        elif self._size or self._is_first_line:
            lines[:1] = self._join(lines[:1])
        if self.failure is not None and not check_all:
            return []
        # One pass in C detects the common case: every line starts with a visible character.
        if lines and min(lines) < FIRST_VISIBLE:
            return [line for line in lines if line.strip(WHITESPACE) or isinstance(line, Oversized)]
        return lines

    def _join(self, lines: list[bytes]) -> list[bytes]:
        whole: list[bytes] = []
        for line in lines:
            self._append(line)
            if self.failure is not None:
                break
            whole.append(self._end_line())
        return whole

    def _append(self, data: bytes) -> None:
        """Add to the unfinished line as much as may be needed; one byte over the limit could be a `\\r`."""
        self._size += len(data)
        if self._size > self._limit * ABORT_FACTOR:
            self._part = BytesIO()
            self.failure = MessageTooLarge(
                f"a line of more than {self._limit * ABORT_FACTOR} bytes; the limit is {self._limit}"
            )
        elif self._size <= self._limit + 1:
            self._part.write(data)
        elif self._part.tell() < HEAD_BYTES:
            self._part.write(data[: HEAD_BYTES - self._part.tell()])
        elif self._part.tell() > HEAD_BYTES:
            self._part = BytesIO(self._part.getvalue()[:HEAD_BYTES])
            self._part.seek(HEAD_BYTES)

    def _end_line(self) -> bytes:
        """Return the line that just ended, whole or as `Oversized`."""
        line, size = self._part.getvalue(), self._size
        self._part = BytesIO()
        self._size = 0
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        if size > self._limit + 1 or (size > self._limit and not line.endswith(b"\r")):
            return Oversized(line[: min(HEAD_BYTES, self._limit)], size)
        return line.removesuffix(b"\r")
