"""Bytes in any slices become whole frames: one line, one JSON text.

Rules of this file:
    line end      `\\n`; one `\\r` before it belongs to it; nothing else ends a line
    blank         spaces and tabs only: skipped
    byte-order    accepted once, as the very first bytes of the stream
    over-long     delivered as `Oversized`: its beginning and its size; the rest is forgotten as it comes
    far too long  more than `GIVE_UP_FACTOR` times the limit: `MessageTooLarge`, for the line may never end

How the stream was sliced never changes the frames, and the cost is linear in the bytes, even one byte at a time.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import Self

from duologue.errors import MessageTooLarge

__all__ = ["MAX_MESSAGE_BYTES", "LineFramer", "Oversized", "to_ascii"]

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""The limit of the TypeScript SDK, so that whatever it may send we may receive."""

HEAD_BYTES = 4096
"""What is kept of an over-long line: enough to hold the id and the method of any sane message."""

GIVE_UP_FACTOR = 4
"""How many times the limit is read and forgotten in the hope of a line end."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = b" \t"
FIRST_VISIBLE = b"!"
"""Smallest line that starts with neither a blank nor a control character."""

_UNPRINTABLE = re.compile("[^ -~]")


def to_ascii(frame: bytes) -> bytes:
    """Return a frame that means the same and consists of printable ASCII alone: for a terminal."""
    return _UNPRINTABLE.sub(_escaped, frame.decode("utf-8", "replace")).encode("ascii")


def _escaped(found: re.Match[str]) -> str:
    """Between the tokens of a JSON text only white space is not printable; all else is inside of strings."""
    character = found[0]
    if character in "\t\n\r":
        return " "
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class Oversized(bytes):
    """The beginning of a line over the limit, standing in for it; `size` is how long the line was.

    Closing brackets at its end are left out, so that it never parses as a message.
    """

    size: int

    def __new__(cls, line: bytes, size: int) -> Self:
        self = super().__new__(cls, line.rstrip(b" \t\r}]"))
        self.size = size
        return self


class LineFramer:
    """Cuts a byte stream into frames; pure, one per direction of a connection.

    Attributes:
        failure: Set once a line went far over the limit; from then on every call raises it.
    """

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.failure: MessageTooLarge | None = None
        self._limit = max_message_bytes
        self._part = bytearray()
        self._size = 0
        """Length of the unfinished line; more than `len(_part)` while an over-long one is being forgotten."""
        self._is_first_line = True

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that these bytes complete.

        Raises:
            MessageTooLarge: No line end came for far too long. Frames completed by the same call are returned first;
                then `failure` is set and the next call raises it.
        """
        self._raise_failure()
        if self._is_one_plain_line(data):
            return [data[:-1]]
        end = data.rfind(b"\n") + 1
        lines: list[bytes] = []
        if end:
            # BytesIO looks for line ends with memchr; bytes.split looks at every byte, which costs twice as much.
            lines = [line[:-1] for line in BytesIO(data[:end])]
            lines = self._complete(lines, all_need_care=b"\r" in data or len(data) > self._limit)
        if end < len(data) and self.failure is None:
            self._keep(data[end:])
        if not lines:
            self._raise_failure()
        return lines

    def _is_one_plain_line(self, data: bytes) -> bool:
        """What comes at a time where questions and answers alternate; there is nothing to put together or to drop."""
        return (
            data.find(b"\n") == len(data) - 1
            and data >= FIRST_VISIBLE
            and not (self._size or self._is_first_line or len(data) > self._limit or data.endswith(b"\r\n"))
        )

    def finish(self) -> list[bytes]:
        """The last line, if the stream ended without a line end."""
        self._raise_failure()
        return self._complete([b""], all_need_care=True) if self._size else []

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def _complete(self, lines: list[bytes], *, all_need_care: bool) -> list[bytes]:
        """The frames among these whole lines, of which the first may have begun in an earlier slice."""
        if all_need_care:
            lines = self._join(lines)
        elif self._size or self._is_first_line:
            lines[:1] = self._join(lines[:1])
        if self.failure is not None and not all_need_care:
            return []
        # One pass in C tells the common case: every line starts with a visible character.
        if lines and min(lines) < FIRST_VISIBLE:
            return [line for line in lines if line.strip(BLANK) or isinstance(line, Oversized)]
        return lines

    def _join(self, lines: list[bytes]) -> list[bytes]:
        whole: list[bytes] = []
        for line in lines:
            self._keep(line)
            if self.failure is not None:
                break
            whole.append(self._take())
        return whole

    def _keep(self, data: bytes) -> None:
        """Add to the unfinished line as much as may be needed; the one byte over the limit could be a `\\r`."""
        self._size += len(data)
        if self._size > self._limit * GIVE_UP_FACTOR:
            self._part = bytearray()
            self.failure = MessageTooLarge(
                f"a line of more than {self._limit * GIVE_UP_FACTOR} bytes; the limit is {self._limit}"
            )
        elif self._size <= self._limit + 1:
            self._part += data
        elif len(self._part) < HEAD_BYTES:
            self._part += data[: HEAD_BYTES - len(self._part)]
        elif len(self._part) > HEAD_BYTES:
            self._part = self._part[:HEAD_BYTES]

    def _take(self) -> bytes:
        """The line that just ended, whole or as a stand-in."""
        line, size = bytes(self._part), self._size
        self._part = bytearray()
        self._size = 0
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        if size > self._limit + 1 or (size > self._limit and not line.endswith(b"\r")):
            return Oversized(line[: min(HEAD_BYTES, self._limit)], size)
        return line.removesuffix(b"\r")
