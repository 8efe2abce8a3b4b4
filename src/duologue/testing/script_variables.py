"""Variables of a script: `"$name"` stands for a value, `"${name}"` for its text inside a longer one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from duologue.trace.replay.script import items, members

_NAME = r"[A-Za-z_]\w*"
_PATH = rf"{_NAME}(?:\.\w+)*"
_WHOLE = re.compile(rf"\$({_PATH})")
_PART = re.compile(rf"\$\{{({_PATH})\}}")


class UnknownVariable(ValueError):
    """A text names a variable that has no value."""


def check_name(name: str) -> None:
    """Refuse a name that cannot be used as `$name`.

    Raises:
        ValueError: It is not a word.
    """
    if re.fullmatch(_NAME, name) is None:
        raise ValueError(f"{name!r} cannot be the name of a variable; use letters, digits and _")


def value_at(value: Any, path: str) -> Any:
    """Return the part of a value at a path such as `result.sessions.0.sessionId`.

    Raises:
        LookupError: The value has no such part.
    """
    for key in path.split("."):
        listed, named = items(value), members(value)
        if key.isdecimal() and int(key) < len(listed):
            value = listed[int(key)]
        elif key in named:
            value = named[key]
        else:
            raise LookupError(key)
    return value


class Variables:
    """The values that the texts of a script may name.

    Args:
        values: The values by name; they may change.
        is_strict: Refuse a name without a value. Otherwise such a text stays as it is.
    """

    def __init__(self, values: Mapping[str, Any], *, is_strict: bool) -> None:
        self._values = values
        self._is_strict = is_strict

    def fill(self, value: Any) -> Any:
        """Return a JSON value with the values of its variables.

        Raises:
            UnknownVariable: A text names a variable that has no value.
        """
        if isinstance(value, str):
            return self._fill_text(value) if "$" in value else value
        listed, named = items(value), members(value)
        if listed:
            return [self.fill(each) for each in listed]
        if named:
            return {name: self.fill(each) for name, each in named.items()}
        return value

    def _fill_text(self, text: str) -> Any:
        if whole := _WHOLE.fullmatch(text):
            return self._value(whole[1], text)
        return _PART.sub(lambda found: _as_text(self._value(found[1], found[0])), text)

    def _value(self, path: str, text: str) -> Any:
        name, _, rest = path.partition(".")
        try:
            return value_at(self._values[name], rest) if rest else self._values[name]
        except LookupError:
            if not self._is_strict:
                return text
        known = ", ".join(f"${each}" for each in sorted(self._values)) or "none"
        raise UnknownVariable(f"{text} has no value; known are: {known}")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
