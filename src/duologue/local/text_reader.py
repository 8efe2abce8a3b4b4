"""Reads lines of UTF-8 from a descriptor, in bounded memory, and changes nothing in them."""

from __future__ import annotations

import errno
import os

from duologue.local.errors import AccessDenied, refusal

__all__ = ["read_lines", "read_settled"]

CHUNK = 256 * 1024
LONG_ESCAPES = bytes(set(range(32)) - set(b"\b\t\n\f\r"))
"""Characters that take six bytes in JSON."""
MAX_SKIPPED_BYTES = 1024 * 1024 * 1024
"""Text passed over to find the lines that were asked for: a second's work."""
MOST_READS = 12
"""A file that changed while it was read is read again, so often."""
PATIENT_READS = 4
"""So often it is hoped to stop; after that, a file that has only grown meanwhile is taken as far as it is."""


class _NotText(AccessDenied):
    """Bytes that are not UTF-8, or a NUL; `complete` is the text before half a character at the very end."""

    def __init__(self, complete: str | None = None) -> None:
        super().__init__("not UTF-8 text")
        self.complete = complete


def read_settled(fd: int, first: int, count: int | None, *, most_bytes: int) -> str:
    """`read_lines` of a file that stayed as it was meanwhile, or that does nothing but grow, like a log.

    Raises:
        Refused: As for `read_lines`.
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
            # Half of a character may be there already.
            text = error
        after = os.fstat(fd)
        is_same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        if is_same or (read > PATIENT_READS and after.st_size > before.st_size):
            if isinstance(text, _NotText):
                if is_same or text.complete is None:
                    raise text
                return text.complete  # the other half of the last character is being written just now
            return text
    raise refusal(errno.EBUSY)


def read_lines(fd: int, first: int, count: int | None, *, most_bytes: int) -> str:
    """From line `first` (1 is the first) at most `count` lines, to the end if None, with their line ends.

    A line ends with a newline; a carriage return before it belongs to it. What comes after the lines is not looked at,
    and what comes before them only for NUL.

    Raises:
        Refused: Not UTF-8 text, or too long.
    """
    kept = bytearray()
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
        kept += chunk[start:end]
        if len(kept) > most_bytes:
            raise _too_long(most_bytes)
    if 6 * len(kept) > 2 * most_bytes and len(kept) + 5 * sum(map(kept.count, LONG_ESCAPES)) > 2 * most_bytes:
        raise AccessDenied("so many control characters that no message could hold it; ask for fewer lines")
    try:
        return kept.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data"
        raise _NotText(kept[: error.start].decode("utf-8") if is_cut else None) from error


def _after_lines(chunk: bytes, start: int, count: int) -> tuple[int, int]:
    """Where `count` lines from `start` end, or the end of the chunk, and how many are still missing."""
    here = chunk.count(b"\n", start)
    if count > here:
        return len(chunk), count - here
    for _ in range(count):
        start = chunk.index(b"\n", start) + 1
    return start, 0


def _too_long(most_bytes: int) -> AccessDenied:
    return AccessDenied(f"longer than the limit of {most_bytes} bytes; ask for fewer lines with line and limit")
