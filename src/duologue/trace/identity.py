"""Ids that a run makes up anew (sessions, messages, tool calls, terminals): number them, or translate them.

Two runs of the same conversation differ in them, although they mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

MAX_DEPTH = 100
"""Levels of nested values that are searched for ids; deeper ones stay as they are."""

MIN_LENGTH = 8
"""Length from which an id is recognised wherever it occurs; shorter ones only in members that are named after it."""

_ID_NAME = re.compile(
    r"(session|terminal|message|tool_?call|elicitation|compaction|plan|server|connection)_?ids?$", re.IGNORECASE
)


def kind_of(name: str) -> str:
    """Return what a member with this name identifies, such as `session` for `parentSessionId`; empty if nothing."""
    found = _ID_NAME.search(name)
    return "" if found is None else found[1].lower().replace("_", "")


def map_strings(value: Any, change: Callable[[str, str], str], name: str = "", depth: int = 0) -> Any:
    """Return a JSON value with each string replaced by `change(name of its member, string)`."""
    if isinstance(value, str):
        return change(name, value)
    if depth == MAX_DEPTH:
        return value
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: map_strings(each, change, key, depth + 1) for key, each in members.items()}
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [map_strings(each, change, name, depth + 1) for each in items]
    return value


class IdNumbers:
    """Numbers the ids of one run in the order in which they first occur, so that equal runs get equal values."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._numbered: dict[tuple[str, str], str] = {}
        self._anywhere: dict[str, str] = {}

    def number(self, value: Any) -> Any:
        """Return a JSON value with its ids replaced by their kind and number, such as `session 1`."""
        return map_strings(map_strings(value, self._find), self._replace)

    def _find(self, name: str, text: str) -> str:
        kind = kind_of(name)
        if kind and (kind, text) not in self._numbered:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._numbered[kind, text] = f"{kind} {self._counts[kind]}"
            if len(text) >= MIN_LENGTH:
                self._anywhere.setdefault(text, self._numbered[kind, text])
        return text

    def _replace(self, name: str, text: str) -> str:
        return self._numbered.get((kind_of(name), text)) or self._anywhere.get(text, text)


class IdTranslator:
    """Translates the ids and paths of one run into those of another, as far as pairs of them are known.

    Args:
        known: Translator whose pairs are known from the start.
    """

    def __init__(self, known: IdTranslator | None = None) -> None:
        self._ids: dict[tuple[str, str], str] = {} if known is None else dict(known._ids)
        self._anywhere: dict[str, str] = {} if known is None else dict(known._anywhere)
        self._paths: dict[str, str] = {} if known is None else dict(known._paths)

    @property
    def is_empty(self) -> bool:
        """True if every value is translated into itself."""
        return not self._ids and not self._paths

    def pair(self, value: Any, other: Any, name: str = "", depth: int = 0) -> None:
        """Learn from two values that mean the same which ids are paired."""
        if isinstance(value, str) and isinstance(other, str):
            self.pair_ids(kind_of(name), value, other)
        elif depth == MAX_DEPTH:
            return
        elif isinstance(value, dict) and isinstance(other, dict):
            one, two = cast("dict[str, Any]", value), cast("dict[str, Any]", other)
            for key in one.keys() & two.keys():
                self.pair(one[key], two[key], key, depth + 1)
        elif isinstance(value, list) and isinstance(other, list):
            items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            for each, its_pair in zip(items, other, strict=False):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                self.pair(each, its_pair, name, depth + 1)

    def pair_ids(self, kind: str, one: str, other: str) -> None:
        """Learn that two ids mean the same; an id that is equal in both runs needs no translation."""
        if not kind or (one == other and (kind, one) not in self._ids):
            return
        self._ids[kind, one] = other
        if len(one) >= MIN_LENGTH:
            self._anywhere[one] = other

    def pair_paths(self, one: str, other: str) -> None:
        """Learn that two directories mean the same."""
        if one != other and len(one.rstrip("/\\")) > 1:
            self._paths[one.rstrip("/\\")] = other.rstrip("/\\")

    def translate(self, value: Any) -> Any:
        """Return a JSON value with the ids and paths of the other run."""
        return value if self.is_empty else map_strings(value, self._translate)

    def _translate(self, name: str, text: str) -> str:
        found = self._ids.get((kind_of(name), text)) or self._anywhere.get(text)
        return self._path(text) if found is None else found

    def _path(self, text: str) -> str:
        for one, other in self._paths.items():
            start = 7 if text.startswith("file://") else 0
            rest = text[start + len(one) :]
            if text.startswith(one, start) and (not rest or rest[0] in "/\\"):
                return text[:start] + other + rest
        return text
