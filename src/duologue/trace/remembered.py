"""A dictionary that forgets its oldest entries, because the input of a reader has no bound."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

MAX_REMEMBERED = 100_000
"""Entries of each kind that are remembered; beyond them the state is only partly known."""


class Remembered(dict[K, V]):
    """A dictionary with at most `MAX_REMEMBERED` entries.

    Attributes:
        is_partial: Entries were forgotten.
    """

    is_partial = False

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > MAX_REMEMBERED:
            self.is_partial = True
            del self[next(iter(self))]
