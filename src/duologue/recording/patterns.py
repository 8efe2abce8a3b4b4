"""Regular expressions of the user, searched so that no text can stop the program for long.

Python's `re` cannot be interrupted, and blocks every thread while it searches. A pattern that some text would keep busy
for ages is refused where that can be recognized, and long texts are searched in overlapping parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

_parser: Any = import_module("re._parser")  # no public module takes a pattern apart; typing knows neither of these
_constants: Any = import_module("re._constants")

PART = 4096
"""Characters that are searched at once. Half of them are searched again with the next ones."""


class UserPattern:
    """Masks what a regular expression matches.

    Args:
        pattern: The regular expression.

    Raises:
        ValueError: It is not a regular expression, matches an empty text, or repeats a repetition.
    """

    def __init__(self, pattern: str) -> None:
        try:
            self._compiled = re.compile(pattern)
            parsed = _parser.parse(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        if self._compiled.search("") is not None:
            raise ValueError(f"the pattern {pattern!r} matches an empty text, and so would mask everything")
        if _repeats_repetition(parsed):
            raise ValueError(
                f"the pattern {pattern!r} repeats a repetition, and some texts would take it years: write the inner "
                "one with `++` or `*+` instead of `+` or `*`, or with a number of times"
            )
        self._required = "" if self._compiled.flags & re.IGNORECASE else _required_text(parsed)

    def mask(self, text: str, mask: str) -> str:
        """Return the text with every match replaced."""
        if self._required not in text:
            return text
        if len(text) <= PART:
            return self._compiled.sub(mask, text)
        shown: list[str] = []
        position = 0
        for start, end in self._matches(text):
            if end > position:
                shown += [text[position:start], mask] if start >= position else []
                position = end
        return "".join([*shown, text[position:]])

    def _matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the matches of a long text by their start; some overlap."""
        step, done = PART // 2, 0
        for first in range(0, len(text), step):
            last = first + PART
            for found in self._compiled.finditer(text, max(first, done), last):
                start, end = found.span()
                if end == last < len(text) and (whole := self._compiled.match(text, start)) is not None:
                    end = whole.end()  # it goes on in the next part
                done = max(done, end)
                yield start, end


def _required_text(parsed: Any) -> str:
    """Return the longest text that every match contains, as far as it is easy to see."""
    letters = "".join(chr(argument) if operator is _constants.LITERAL else "\0" for operator, argument in parsed)
    return max(letters.split("\0"), key=len)


def _repeats_repetition(parsed: Any, *, is_repeated: bool = False) -> bool:
    """Return True if a group that is repeated any number of times contains another such repetition."""
    for operator, argument in parsed:
        if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            _, most, body = argument
            is_endless = most is _constants.MAXREPEAT
            if is_endless and is_repeated:
                return True
            if _repeats_repetition(body, is_repeated=is_repeated or is_endless):
                return True
        elif operator in (_constants.POSSESSIVE_REPEAT, _constants.ATOMIC_GROUP):
            continue  # what these matched is never tried in another way
        elif any(_repeats_repetition(body, is_repeated=is_repeated) for body in _bodies(argument)):
            return True
    return False


def _bodies(argument: Any) -> Iterator[Any]:
    """Yield the patterns inside the argument of an operator: groups, alternatives, conditions."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for each in cast("list[Any]", argument):
            yield from _bodies(each)
