"""Find the word that a user probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `; did you mean 'chat'?` for a word that is close to a known one, else nothing.

    Args:
        word: The unknown word.
        known: The known ones.
        cutoff: How similar they must be, from 0 to 1.
    """
    from difflib import get_close_matches  # slow to import, and seldom needed

    # The dashes of options would make all of them similar.
    names = {each.lstrip("-"): each for each in known}
    near = get_close_matches(word.lstrip("-"), names, n=1, cutoff=cutoff)
    return f"; did you mean {names[near[0]]!r}?" if near else ""
