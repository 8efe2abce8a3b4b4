"""Text of an agent made fit to stand beside a button: it can say anything, and do nothing to what is around it."""

from __future__ import annotations

__all__ = ["inert"]

MOST_CHARACTERS = 200
"""As much as fits beside a question."""


def inert(text: str, most: int | None = MOST_CHARACTERS) -> str:
    r"""One line without escape codes, line breaks, invisible signs and marks that turn the order of reading.

    Each of those is spelt out (`\x1b`), so that it is seen. What is longer than `most` is cut, and says so.
    """
    cut = text if most is None else text[:most]
    shown = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in cut)
    return shown if len(cut) == len(text) else f"{shown}… ({len(text):,} characters)"
