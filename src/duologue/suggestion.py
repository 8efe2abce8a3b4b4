"""Find the word that a user probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'chat'?` for a word that is close to a known one, else nothing."""
    from difflib import get_close_matches  # slow to import, and seldom needed

    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
