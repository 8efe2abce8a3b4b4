"""Search for any of many short texts: in one pass if the bytes are few, else in a pass for each rare character.

A regular expression of many alternatives looks at every byte with care. Where thousands of bytes are searched at once,
it is several times faster to look for one rare character after the other, and for the rest only where that occurs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

SHORT = 512
"""Fewer bytes are searched in one pass: more passes take longer to start than to run."""
PREFIX = 4
"""Markers without a rare character are searched by this many of their first characters."""

_COMMON = '"etaionsrhldcum_fpgwyb-v:/=.kxqz8129j\\'
"""Characters of markers, from those that most texts contain often to those that are rare."""


class MarkerSearch:
    """Finds bytes that contain one of some texts.

    Args:
        markers: The texts, at least one, none of them empty; each character stands for one byte.
        rare: Characters that most texts contain seldom, the best ones first.
    """

    def __init__(self, markers: Iterable[str], rare: str = "") -> None:
        self._markers = tuple(markers)
        self._rare = rare

    def is_in(self, data: bytes) -> bool:
        """Return True if the bytes contain one of the markers."""
        return any(pattern.search(data) is not None for pattern in self._patterns(data))

    def lines_in(self, data: bytes) -> set[int]:
        """Return the numbers of the lines that contain one of the markers; the first is 0."""
        found: set[int] = set()
        for pattern in self._patterns(data):
            line = start = 0
            while (match := pattern.search(data, start)) is not None:
                line += data.count(b"\n", start, match.start())
                found.add(line)
                line, start = line + 1, data.find(b"\n", match.start()) + 1
                if not start:
                    break
        return found

    def _patterns(self, data: bytes) -> list[re.Pattern[bytes]]:
        """Return patterns, one of which matches wherever a marker is."""
        if len(data) < SHORT:
            return [self._any]
        return [group.pattern for group in self._groups if group.anchor in data]

    # Patterns are compiled when they are first needed: many programs import this and search nothing.
    @cached_property
    def _any(self) -> re.Pattern[bytes]:
        return re.compile(any_of(self._markers).encode("latin-1"))

    @cached_property
    def _groups(self) -> list[_Group]:
        groups: dict[str, list[str]] = {}
        for marker in self._markers:
            anchor = next((each for each in self._rare if each in marker), marker[:PREFIX])
            groups.setdefault(anchor, []).append(marker)
        return [_Group(anchor, markers) for anchor, markers in groups.items()]


class _Group:
    """Markers that contain the same text.

    Attributes:
        anchor: What they contain.
        pattern: Finds them.
    """

    def __init__(self, anchor: str, markers: Sequence[str]) -> None:
        self.anchor = anchor.encode("latin-1")
        self._anchor = anchor
        self._markers = markers

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """A pattern that starts with the anchor, which `re` finds fastest."""
        anchor, markers = self._anchor, self._markers
        ends = [marker.rindex(anchor) + len(anchor) for marker in markers]
        # What follows is compared first: that is cheaper than to look back.
        alternatives = [
            re.escape(marker[end:]) + (f"(?<={re.escape(marker)})" if end > len(anchor) else "")
            for marker, end in zip(markers, ends, strict=True)
        ]
        pattern = f"{re.escape(anchor)}{_two_before(anchor, markers, ends)}(?:{'|'.join(alternatives)})"
        return re.compile(pattern.encode("latin-1"))


def any_of(markers: Iterable[str]) -> str:
    """Return a pattern that finds any of these texts, grouped by their rarest characters so that most are not tried."""
    by_rarest: dict[str, list[str]] = {}
    for marker in markers:
        at = max(range(len(marker)), key=lambda index: _COMMON.find(marker[index]))
        before = f"(?<={re.escape(marker[: at + 1])})" if at else ""
        by_rarest.setdefault(marker[at], []).append(before + re.escape(marker[at + 1 :]))
    return "|".join(f"{re.escape(rarest)}(?:{'|'.join(others)})" for rarest, others in by_rarest.items())


def _two_before(anchor: str, markers: Sequence[str], ends: Sequence[int]) -> str:
    """Return a check of the two characters before the anchor, so that most places are left after one look back."""
    if min(ends) < len(anchor) + 2:
        return ""
    before = [marker[end - len(anchor) - 2 : end - len(anchor)] for marker, end in zip(markers, ends, strict=True)]
    classes = "".join(f"[{''.join(sorted({re.escape(two[index]) for two in before}))}]" for index in (0, 1))
    return f"(?<={classes}{re.escape(anchor)})"
