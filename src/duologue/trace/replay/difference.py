"""Differences of two JSON values that should mean the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import Struct

from duologue.recording.redaction import MASK
from duologue.trace.identity import MAX_DEPTH

CHANGING = (
    *("_meta", "agentInfo", "clientInfo", "info", "version"),
    *("createdAt", "updatedAt", "timestamp", "usage", "used", "size", "cost", "sessions", "nextCursor"),
)
"""Members that differ from run to run although the conversation is the same: they are never compared."""

TEXTS = ("title", "name", "description", "text", "message", "hint", "data", "command", "path", "uri", "output")
"""Members whose texts a model words anew in each run."""
TEXT_VALUES = ("content", "locations", "rawInput", "rawOutput", "args", "entries")
"""Members that consist of such texts, whatever their values are."""

SHOWN_CHARACTERS = 200


class Difference(Struct, frozen=True):
    """A value that differs.

    Attributes:
        path: JSON path of the value, such as `$.params.cwd`.
        expected: The recorded value as JSON, shortened; empty if there is none.
        received: The value that came instead; empty if there is none.
    """

    path: str
    expected: str
    received: str

    def __str__(self) -> str:
        """Return it as one sentence."""
        return f"{self.path}: expected {self.expected or 'nothing'}, received {self.received or 'nothing'}"


def differences(expected: Any, received: Any, ignored: Sequence[str], path: str = "$") -> Iterator[Difference]:
    """Yield where a value differs from the expected one. A removed secret equals everything.

    Args:
        expected: The recorded value.
        received: The value to compare with it.
        ignored: Names of members, and paths such as `$.result.modes*` or `*.cwd`, that are not compared.
        path: Path of the value.
    """
    if expected == MASK or path.count(".") + path.count("[") > MAX_DEPTH:
        return
    if isinstance(expected, dict) and isinstance(received, dict):
        one, two = cast("dict[str, Any]", expected), cast("dict[str, Any]", received)
        for name in [*one, *(name for name in two if name not in one)]:
            inner = f"{path}.{name}"
            if is_ignored(name, inner, ignored) or (_is_empty(one.get(name)) and _is_empty(two.get(name))):
                continue
            if name in one and name in two:
                yield from differences(one[name], two[name], ignored, inner)
            else:
                yield Difference(inner, *(shown(each[name]) if name in each else "" for each in (one, two)))
    elif isinstance(expected, list) and isinstance(received, list):
        yield from _differences_of_lists(expected, received, ignored, path)  # pyright: ignore[reportUnknownArgumentType]
    elif expected != received or isinstance(expected, bool) != isinstance(received, bool):
        yield Difference(path, shown(expected), shown(received))


def _differences_of_lists(one: list[Any], two: list[Any], ignored: Sequence[str], path: str) -> Iterator[Difference]:
    for index in range(max(len(one), len(two))):
        inner = f"{path}[{index}]"
        if is_ignored("", inner, ignored):
            continue
        if index < len(one) and index < len(two):
            yield from differences(one[index], two[index], ignored, inner)
        else:
            yield Difference(inner, *(shown(each[index]) if index < len(each) else "" for each in (one, two)))


def is_ignored(name: str, path: str, ignored: Sequence[str]) -> bool:
    """Return True if a member is not compared."""
    return any(name == each or (_pattern(each).fullmatch(path) is not None) for each in ignored)


@lru_cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, path.split("*"))))


def _is_empty(value: Any) -> bool:
    """Return True for a value that means the same as a missing member."""
    return value is None or value == []


def without_texts(value: Any, depth: int = 0) -> Any:
    """Return a JSON value without the texts of a model."""
    if depth == MAX_DEPTH:
        return None
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {
            name: without_texts(each, depth + 1)
            for name, each in members.items()
            if name not in TEXT_VALUES and not (name in TEXTS and isinstance(each, str))
        }
    if isinstance(value, list):
        return [without_texts(each, depth + 1) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def shown(value: Any) -> str:
    """Return a value as JSON, shortened."""
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
