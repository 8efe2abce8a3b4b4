"""Remember what was shown on the screen, in bounded memory."""

from __future__ import annotations

import hashlib
from typing import TypeVar

MOST_ENTRIES = 1000
"""Tool calls, messages or plans whose changes are shown as changes; older ones are shown in full again."""

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(dict[K, V]):
    """A dict that drops its oldest entry when it has too many."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > MOST_ENTRIES:
            del self[next(iter(self))]


class ShownText:
    """Text that was shown piece by piece: its length and its digest, not the text itself."""

    def __init__(self) -> None:
        self.length = 0
        self._digest = hashlib.blake2b()

    def add(self, text: str) -> None:
        """Add a piece that was shown."""
        self.length += len(text)
        self._digest.update(text.encode("utf-8", "surrogatepass"))

    def begins(self, text: str) -> bool:
        """Return True if a text begins with the text that was shown."""
        start = text[: self.length].encode("utf-8", "surrogatepass")
        return len(text) >= self.length and hashlib.blake2b(start).digest() == self._digest.digest()
