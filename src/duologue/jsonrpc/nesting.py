"""How deep a JSON text is nested, found in time that grows with its length alone, whatever a peer puts into it.

A loop or a regular expression over each bracket or string takes seconds for the longest message, and everything else
waits for it. Here the work per byte is left to operations on whole byte strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from operator import add

__all__ = ["is_nested_deeper", "outside_strings"]

PIECE = 64 * 1024
"""Bytes looked at in one go: other threads get their turn in between."""

_SMALL_BYTES = 64 * 1024
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_NOT_MARKS = bytes(set(range(256)) - set(b'"[]{}'))
_DIGITS = bytes(ord("1") if byte in b"[{" else ord("0") for byte in range(256))
_STEPS = [[1 if byte >> bit & 1 else -1 for bit in range(7, -1, -1)] for byte in range(256)]
_CHANGE = [sum(steps) for steps in _STEPS]
"""How much deeper eight brackets lead; each is a bit, 1 for those that open."""
_EXCESS = [max(accumulate(steps)) - sum(steps) for steps in _STEPS]
"""How much deeper than at their end it was among them."""


def is_nested_deeper(text: bytes, limit: int) -> bool:
    """Whether arrays and objects are nested more than `limit` deep. Brackets in strings do not count."""
    if _opening_brackets(text) <= limit:
        return False
    depth = 0
    for brackets in outside_strings(text, delete=_NOT_MARKS):
        if brackets and depth + _peak(brackets) > limit:
            return True
        depth += 2 * _opening_brackets(brackets) - len(brackets)
    return False


def outside_strings(text: bytes, *, delete: bytes = b"") -> Iterator[bytes]:
    """The text without its strings and without the bytes to delete, in pieces. An unfinished string is one, too."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes in a row are an empty string, or the end of one and the beginning of the next: nothing else changes.
    marks = text.translate(None, delete).replace(b'""', b"")
    is_inside = False
    for at in range(0, len(marks), PIECE):
        parts = marks[at : at + PIECE].split(b'"')
        yield b"".join(parts[is_inside::2])
        is_inside ^= len(parts) % 2 == 0


def _peak(brackets: bytes) -> int:
    """How deep these brackets lead at most."""
    size = (len(brackets) + 7) // 8
    groups = int(brackets.translate(_DIGITS).ljust(8 * size, b"0"), 2).to_bytes(size, "big")
    ends = accumulate(map(_CHANGE.__getitem__, groups))
    peaks: Iterator[int] = map(add, ends, map(_EXCESS.__getitem__, groups))
    return max(peaks)


def _opening_brackets(text: bytes) -> int:
    # The first is quicker, and takes as much room again as the text.
    if len(text) <= _SMALL_BYTES:
        return len(text.translate(None, _NOT_OPENING))
    return text.count(b"[") + text.count(b"{")
