"""The nesting depth of a JSON text, found in time linear in its length, whatever a peer puts into it.

A loop or a regular expression over each bracket or string takes seconds for the longest message, and blocks everything
else. Here the work per byte is done by operations on whole byte strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from operator import add

PIECE = 64 * 1024
"""Bytes examined at a time: other threads can run in between."""

_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_NOT_MARKS = bytes(set(range(256)) - set(b'"[]{}'))
_DIGITS = bytes(ord("1") if byte in b"[{" else ord("0") for byte in range(256))


@cache  # built when first needed: few messages have so many brackets
def _tables() -> tuple[list[int], list[int]]:
    """Return the change of depth after eight brackets, and the largest depth within them relative to that.

    The index is a byte: each bracket is a bit, 1 for an opening one.
    """
    steps = [[1 if byte >> bit & 1 else -1 for bit in range(7, -1, -1)] for byte in range(256)]
    changes = [sum(each) for each in steps]
    return changes, [max(accumulate(each)) - change for each, change in zip(steps, changes, strict=True)]


def is_nested_deeper(text: bytes, limit: int) -> bool:
    """Return True if arrays and objects are nested deeper than `limit`. Brackets in strings do not count."""
    if not _has_more_brackets(text, limit):
        return False
    depth = 0
    for brackets in outside_strings(text, delete=_NOT_MARKS):
        if brackets and depth + _peak(brackets) > limit:
            return True
        depth += 2 * len(brackets.translate(None, _NOT_OPENING)) - len(brackets)
    return False


def pieces_of(text: bytes) -> Iterator[bytes]:
    """Yield a text in pieces of `PIECE` bytes: a copy of all of it would take new memory, which is slow."""
    if len(text) <= PIECE:
        yield bytes(text)
        return
    view = memoryview(text)
    for at in range(0, len(text), PIECE):
        yield bytes(view[at : at + PIECE])


def _has_more_brackets(text: bytes, limit: int) -> bool:
    """Return True if there are more opening brackets than `limit`, in strings too."""
    # `replace` searches with memchr; `count` and `translate` examine every byte, which takes three times as long.
    left = limit
    for piece in pieces_of(text):
        left -= 2 * len(piece) - len(piece.replace(b"{", b"", limit + 1)) - len(piece.replace(b"[", b"", limit + 1))
        if left < 0:
            return True
    return False


def outside_strings(text: bytes, *, delete: bytes = b"") -> Iterator[bytes]:
    """Yield the text without its strings and without the bytes to delete, in pieces."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes in a row are an empty string, or the end of one string and the beginning of the next.
    marks = text.translate(None, delete).replace(b'""', b"")
    is_inside = False
    for at in range(0, len(marks), PIECE):
        parts = marks[at : at + PIECE].split(b'"')
        yield b"".join(parts[is_inside::2])
        is_inside ^= len(parts) % 2 == 0


def _peak(brackets: bytes) -> int:
    """Return the largest depth within these brackets."""
    size = (len(brackets) + 7) // 8
    groups = int(brackets.translate(_DIGITS).ljust(8 * size, b"0"), 2).to_bytes(size, "big")
    changes, excesses = _tables()
    ends = accumulate(map(changes.__getitem__, groups))
    peaks: Iterator[int] = map(add, ends, map(excesses.__getitem__, groups))
    return max(peaks)
