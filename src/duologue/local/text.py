"""Reads lines of UTF-8 from a descriptor, in bounded memory, and changes nothing in them."""

from __future__ import annotations

import os

__all__ = ["NotText", "TooLong", "read_lines"]

CHUNK = 256 * 1024


class NotText(Exception):
    """What was read is not UTF-8, or holds a NUL."""


class TooLong(Exception):
    """More to read than the limit allows."""


def read_lines(fd: int, first: int, count: int | None, *, most_bytes: int, most_skipped: int) -> str:
    """From line `first` (1 is the first) at most `count` lines, to the end if None, with their line ends.

    A line ends with a newline; a carriage return before it belongs to it. What comes after the lines is not looked at.

    Raises:
        NotText: In what was read.
        TooLong: The lines are longer than `most_bytes`, or more than `most_skipped` bytes come before them.
    """
    kept = bytearray()
    to_skip = max(first - 1, 0)
    wanted = count
    skipped = 0
    while wanted is None or wanted > 0:
        chunk = os.read(fd, CHUNK)
        if not chunk:
            break
        if b"\0" in chunk:
            raise NotText
        start = 0
        if to_skip:
            start, to_skip = _after_lines(chunk, 0, to_skip)
            skipped += start
            if skipped > most_skipped:
                raise TooLong
        end = len(chunk)
        if wanted is not None and not to_skip:
            end, wanted = _after_lines(chunk, start, wanted)
        kept += chunk[start:end]
        if len(kept) > most_bytes:
            raise TooLong
    try:
        return kept.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotText from error


def _after_lines(chunk: bytes, start: int, count: int) -> tuple[int, int]:
    """Where `count` lines from `start` end, or the end of the chunk, and how many are still missing."""
    if count > chunk.count(b"\n", start):
        return len(chunk), count - chunk.count(b"\n", start)
    for _ in range(count):
        start = chunk.index(b"\n", start) + 1
    return start, 0
