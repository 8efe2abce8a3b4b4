"""Patterns of messages: what a message must contain."""

from __future__ import annotations

from typing import Any

import msgspec

from duologue.conversation.content import JsonObject


def as_pattern(pattern: str | JsonObject) -> JsonObject:
    """Return the pattern of a whole message; a string stands for its method, and `*` for any method."""
    return {"method": pattern} if isinstance(pattern, str) else pattern


def difference(pattern: Any, value: Any, path: str = "it") -> str | None:
    """Describe where a value differs from a pattern; `None` if it matches.

    Every member of the pattern must be present and match; the value may have other members. Lists match item by item.
    `"*"` matches everything.
    """
    match pattern, value:
        case "*", _:
            return None
        case dict(), dict():
            return _difference_of_objects(pattern, value, path)  # pyright: ignore[reportUnknownArgumentType]
        case list(), list():
            return _difference_of_lists(pattern, value, path)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            is_same = pattern == value and isinstance(pattern, bool) == isinstance(value, bool)
            return None if is_same else f"{path} is {_shown(value)}, not {_shown(pattern)}"


def _difference_of_objects(pattern: JsonObject, value: JsonObject, path: str) -> str | None:
    for name, wanted in pattern.items():
        if name not in value:
            return f"{path} has no {name}"
        found = difference(wanted, value[name], f"{path}.{name}")
        if found is not None:
            return found
    return None


def _difference_of_lists(pattern: list[Any], value: list[Any], path: str) -> str | None:
    if len(pattern) != len(value):
        return f"{path} has {len(value)} members, not {len(pattern)}"
    pairs = enumerate(zip(pattern, value, strict=True))
    return next((found for i, (one, other) in pairs if (found := difference(one, other, f"{path}[{i}]"))), None)


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
