"""Read lines of UTF-8 from a descriptor, unchanged and in bounded memory."""

from __future__ import annotations

import errno
import os

from duologue.local.errors import AccessDenied, os_error

CHUNK = 256 * 1024
LONG_ESCAPES = bytes(set(range(32)) - set(b"\b\t\n\f\r"))
"""Characters that take six bytes in JSON."""
MAX_SKIPPED_BYTES = 1024 * 1024 * 1024
"""Bytes skipped to find the requested lines: about a second's work."""
MOST_READS = 12
"""How often a file that changes while it is read is read again."""
STRICT_READS = 4
"""After this many reads, a file that only grows is accepted as it is."""


class _NotText(AccessDenied):
    """Bytes that are not UTF-8, or a NUL; `complete` is the text before an incomplete character at the end."""

    def __init__(self, complete: str | None = None) -> None:
        super().__init__("not UTF-8 text")
        self.complete = complete


def read_settled(fd: int, first: int, count: int | None, *, most_bytes: int) -> str:
    """Read lines as `read_lines` does, from a file that does not change meanwhile, or only grows, like a log.

    Raises:
        AccessDenied: As for `read_lines`.
        OSError: EBUSY if it does not stop changing.
    """
    for read in range(1, MOST_READS + 1):
        before = os.fstat(fd)
        if first <= 1 and count is None and before.st_size > most_bytes:
            raise _too_long(most_bytes)
        os.lseek(fd, 0, os.SEEK_SET)
        try:
            text: str | _NotText = read_lines(fd, first, count, most_bytes=most_bytes)
        except _NotText as error:
            # A part of a character may have been written already.
            text = error
        after = os.fstat(fd)
        is_same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        if is_same or (read > STRICT_READS and after.st_size > before.st_size):
            if isinstance(text, _NotText):
                if is_same or text.complete is None:
                    raise text
                return text.complete  # the rest of the last character is being written now
            return text
    raise os_error(errno.EBUSY)


def read_lines(fd: int, first: int, count: int | None, *, most_bytes: int) -> str:
    """Return at most `count` lines (all if None) from line `first` on, counted from 1, with their line ends.

    A line ends with a newline; a carriage return before it belongs to it. Bytes after the lines are not checked, and
    bytes before them only for NUL.

    Raises:
        AccessDenied: The text is not UTF-8, or too long.
    """
    data = bytearray()
    to_skip, skipped, wanted = first - 1, 0, count
    while wanted is None or wanted > 0:
        chunk = os.read(fd, CHUNK)
        if not chunk:
            break
        if b"\0" in chunk:
            raise _NotText
        start, to_skip = _after_lines(chunk, 0, to_skip)
        skipped += start
        if skipped > MAX_SKIPPED_BYTES:
            raise AccessDenied(f"more than {MAX_SKIPPED_BYTES} bytes before that line")
        end = len(chunk)
        if wanted is not None:
            end, wanted = _after_lines(chunk, start, wanted)
        data += chunk[start:end]
        if len(data) > most_bytes:
            raise _too_long(most_bytes)
    if 6 * len(data) > 2 * most_bytes and len(data) + 5 * sum(map(data.count, LONG_ESCAPES)) > 2 * most_bytes:
        raise AccessDenied("too many control characters for one message; ask for fewer lines")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data"
        raise _NotText(data[: error.start].decode("utf-8") if is_cut else None) from error


def _after_lines(chunk: bytes, start: int, count: int) -> tuple[int, int]:
    """Return the end of `count` lines from `start`, or of the chunk, and how many lines are still missing."""
    here = chunk.count(b"\n", start)
    if count > here:
        return len(chunk), count - here
    for _ in range(count):
        start = chunk.index(b"\n", start) + 1
    return start, 0


def _too_long(most_bytes: int) -> AccessDenied:
    return AccessDenied(f"longer than the limit of {most_bytes} bytes; ask for fewer lines with line and limit")
