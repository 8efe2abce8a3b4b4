"""What may stand behind a command's name, read with patience: a person typed it."""

from __future__ import annotations

import re
import shlex

__all__ = ["number_in", "path_and_rest", "seconds_in", "words_in"]

_FIRST = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(\S+))\s?""")


def number_in(argument: str, default: int, most: int) -> int:
    """The number a command was given (`1_000` and `1,000` are one), but no more than `most`."""
    digits = argument.strip().replace("_", "").replace(",", "")
    return min(int(digits), most) if digits.isdecimal() and len(digits) < 20 else default


def seconds_in(argument: str, default: float, most: float) -> float:
    """A time in seconds."""
    text = argument.strip().removesuffix("s")
    return min(float(text), most) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else default


def words_in(argument: str) -> list[str]:
    """The words as a shell reads them; quotes hold words together.

    Raises:
        ValueError: A quote is not closed.
    """
    return shlex.split(argument)


def path_and_rest(argument: str) -> tuple[str, str]:
    """The first word, which quotes may hold together, and everything behind it as it is."""
    found = _FIRST.match(argument)
    if found is None:
        return "", ""
    return next(group for group in found.groups() if group is not None), argument[found.end() :]
