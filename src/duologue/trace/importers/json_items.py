"""Cut a long JSON document into the objects of its arrays, without reading it whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SIGN = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'(?:[^"\\]|\\.)*+', re.DOTALL)


class JsonItems:
    """Collects the objects that lie directly in an array inside a number of brackets.

    Args:
        depth: Brackets around an object: 1 for `[{}]`, 2 for `{"messages": [{}]}`.
        max_bytes: Longer objects are not collected.

    Attributes:
        line: Number of the line that is read.
    """

    def __init__(self, depth: int, max_bytes: int) -> None:
        self._wanted_depth = depth
        self._max_bytes = max_bytes
        self._depth = 0
        self._is_in_array = False
        """Whether the innermost bracket around a wanted object belongs to an array."""
        self._is_in_string = self._is_escaped = False
        self._item: list[bytes] | None = None
        self._size = 0
        self._item_line = self.line = 1

    @property
    def is_at_end(self) -> bool:
        """True if every bracket and string is closed."""
        return self._depth == 0 and not self._is_in_string

    def add(self, part: bytes) -> Iterator[tuple[int, bytes | None]]:
        """Yield the objects that the next bytes complete, with the number of their first line; None if too long."""
        position = first = 0
        while (position := self._next(part, position)) < len(part):
            sign = part[position : position + 1]
            position += 1
            if sign in b"{[":
                if self._item is None and sign == b"{" and self._depth == self._wanted_depth and self._is_in_array:
                    self._item, self._size, first = [], 0, position - 1
                    self._item_line = self.line + part.count(b"\n", 0, position)
                self._depth += 1
                if self._depth == self._wanted_depth:
                    self._is_in_array = sign == b"["
                continue
            self._depth = max(0, self._depth - 1)
            if self._item is not None and self._depth == self._wanted_depth:
                self._collect(part[first:position])
                yield self._item_line, b"".join(self._item) if self._size <= self._max_bytes else None
                self._item = None
        if self._item is not None:
            self._collect(part[first:])
        self.line += part.count(b"\n")

    def _next(self, part: bytes, position: int) -> int:
        """Return the position of the next bracket that is not in a string; the end if there is none."""
        while position < len(part):
            if self._is_in_string:
                position = self._skip_string(part, position)
                continue
            found = _SIGN.search(part, position)
            if found is None:
                return len(part)
            if found[0] != b'"':
                return found.start()
            self._is_in_string, position = True, found.end()
        return position

    def _skip_string(self, part: bytes, position: int) -> int:
        """Return the position after the string, or the end of the part."""
        position += self._is_escaped
        self._is_escaped = False
        found = _IN_STRING.match(part, position)
        end = position if found is None else found.end()
        if end < len(part):
            self._is_escaped = part[end : end + 1] == b"\\"
            self._is_in_string = self._is_escaped
        return end + 1

    def _collect(self, data: bytes) -> None:
        assert self._item is not None, "an object has begun"
        self._size += len(data)
        if self._size > self._max_bytes:
            self._item.clear()
        else:
            self._item.append(data)
