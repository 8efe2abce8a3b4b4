"""Readers of strings, numbers, booleans and null for lenient decoding; they tolerate nothing, and name the problem."""

from __future__ import annotations

import math
from typing import Any

from msgspec import inspect

from duologue.sanitize import shorten
from duologue.schema.base import JsonValue
from duologue.schema.lenient_errors import JSON_NAMES, MAX_KEY, Defaulted, Path, Reader, Rejected, mismatch


def exact(kind: type) -> Reader:
    """Return a reader for values of this JSON type and no other: true is not 1, and 1.0 is not 1."""

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> Any:
        if type(value) is not kind:
            raise Rejected(path, mismatch(JSON_NAMES[kind], value))
        return value

    return read


def string(node: inspect.StrType) -> Reader:
    """Return a reader for strings, perhaps with a minimum length."""
    low = node.min_length or 0

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> str:
        if not isinstance(value, str):
            raise Rejected(path, mismatch("str", value))
        if len(value) < low:
            raise Rejected(path, "too short")
        return value

    return read


def number(node: inspect.IntType | inspect.FloatType, highest: int | None = None) -> Reader:
    """Return a reader for numbers within the bounds of the annotation; `highest` is a bound too large for msgspec."""
    kind: type[Any] = int if isinstance(node, inspect.IntType) else float
    low: float = -math.inf if node.ge is None else node.ge
    high: float = math.inf if node.le is None else node.le
    if highest is not None:
        high = highest

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> Any:
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise Rejected(path, mismatch(JSON_NAMES[kind], value))
        if not low <= value <= high:
            raise Rejected(path, "out of range")
        return value

    return read


def literal(values: tuple[Any, ...]) -> Reader:
    """Return a reader for one of these strings."""
    known: dict[Any, Any] = {value: value for value in values}
    expected = " or ".join(map(repr, values))

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> Any:
        if not isinstance(value, str):
            raise Rejected(path, mismatch("str", value))
        if value not in known:
            raise Rejected(path, f"expected {expected}, got {shorten(value, MAX_KEY)!r}")
        return known[value]  # the identical object, because msgspec compares defaults by identity

    return read
