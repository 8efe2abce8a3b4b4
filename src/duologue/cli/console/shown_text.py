"""What a screen remembers of what it has shown, in memory that an endless turn does not fill."""

from __future__ import annotations

import hashlib
from typing import TypeVar

__all__ = ["BoundedDict", "ShownText"]

MOST_ENTRIES = 1000
"""Tool calls, messages or plans that may change again on the screen; older ones are shown anew if they do."""

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(dict[K, V]):
    """A dict that forgets its oldest entry when it has too many."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > MOST_ENTRIES:
            del self[next(iter(self))]


class ShownText:
    """A text that was shown piece by piece: its length and its digest, never the text."""

    def __init__(self) -> None:
        self.length = 0
        self._digest = hashlib.blake2b()

    def add(self, text: str) -> None:
        """Take note of one more piece."""
        self.length += len(text)
        self._digest.update(text.encode("utf-8", "surrogatepass"))

    def begins(self, text: str) -> bool:
        """Say whether a text begins with what was shown."""
        start = text[: self.length].encode("utf-8", "surrogatepass")
        return len(text) >= self.length and hashlib.blake2b(start).digest() == self._digest.digest()
