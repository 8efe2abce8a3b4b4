"""Errors of lenient decoding, with the path of the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from msgspec import Struct

from duologue.sanitize import shorten
from duologue.schema.base import JsonObject, JsonValue

Path: TypeAlias = tuple[Any, ...] | None
"""The path of a value: None at the top, else (path of the parent, key or index). It becomes text only when needed."""


class Defaulted(Struct, frozen=True):
    """An invalid value that was tolerated as the schema allows."""

    path: str
    problem: str


Reader: TypeAlias = Callable[[JsonValue, Path, list[Defaulted]], Any]
"""Converts parsed JSON to a type; tolerated values are added to the list."""


class Rejected(Exception):
    """An invalid value that must not be tolerated."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.problem}"


JSON_NAMES = {str: "str", int: "int", float: "float", bool: "bool", dict: "object", list: "array", type(None): "null"}
MAX_KEY = 64
"""Characters of a key or value from outside that an error message may contain."""


def path_text(path: Path) -> str:
    """Return the path as text, such as `$.prompt[0].text`; a key that is no identifier is quoted in brackets."""
    parts: list[str] = []
    while path is not None:
        path, key = path
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif key.isidentifier() and len(key) <= MAX_KEY:
            parts.append(f".{key}")
        else:
            parts.append(f"[{shorten(key, MAX_KEY)!r}]")
    return "$" + "".join(reversed(parts))


def mismatch(expected: str, value: JsonValue) -> str:
    """Return a text such as `expected str, got int`."""
    return f"expected {expected}, got {JSON_NAMES[type(value)]}"


def is_object(value: JsonValue) -> TypeGuard[JsonObject]:
    """Return True if the value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: JsonValue) -> TypeGuard[list[JsonValue]]:
    """Return True if the value is a JSON array."""
    return isinstance(value, list)


def json_object(value: JsonValue, path: Path) -> JsonObject:
    """Return the value if it is an object; raise `Rejected` otherwise."""
    if not is_object(value):
        raise Rejected(path, mismatch("object", value))
    return value


def array(value: JsonValue, path: Path) -> list[JsonValue]:
    """Return the value if it is an array; raise `Rejected` otherwise."""
    if not is_array(value):
        raise Rejected(path, mismatch("array", value))
    return value
