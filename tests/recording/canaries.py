"""Secrets planted to see where they turn up again."""

from __future__ import annotations

import itertools
import re

__all__ = ["Canaries"]


class Canaries:
    """Makes secrets, each of them once.

    Attributes:
        planted: How many.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.planted = 0

    def __call__(self) -> str:
        """Return a new secret."""
        self.planted += 1
        return f"canary{next(self._numbers):05}"

    def some(self, count: int) -> dict[str, str]:
        """Return a new secret for each name."""
        return {f"NAME{number}": self() for number in range(count)}

    @staticmethod
    def found_in(text: str) -> list[str]:
        """Return the secrets that the text contains."""
        return re.findall(r"canary\d{5}", text)
