"""Lenient readers of strings, numbers, booleans and null: no forgiveness here, only a clear complaint."""

from __future__ import annotations

from typing import Any

from msgspec import inspect

from duologue.schema.base import JsonValue
from duologue.schema.refusal import JSON_NAMES, Mended, Path, Reader, Refused, mismatch, shortened

__all__ = ["exact", "literal", "number", "string"]


def exact(kind: type) -> Reader:
    """A value of this JSON type and no other: true is not 1, and 1.0 is not 1."""

    def read(value: JsonValue, path: Path, mended: list[Mended]) -> Any:
        if type(value) is not kind:
            raise Refused(path, mismatch(JSON_NAMES[kind], value))
        return value

    return read


def string(node: inspect.StrType) -> Reader:
    """A string, perhaps of a least length."""
    low = node.min_length or 0

    def read(value: JsonValue, path: Path, mended: list[Mended]) -> str:
        if not isinstance(value, str):
            raise Refused(path, mismatch("str", value))
        if len(value) < low:
            raise Refused(path, "too short")
        return value

    return read


def number(node: inspect.IntType | inspect.FloatType, highest: int | None = None) -> Reader:
    """A number between the bounds of its annotation; `highest` is the one msgspec can not carry."""
    kind: type = int if isinstance(node, inspect.IntType) else float
    low: float | None = node.ge
    high: float | None = node.le if highest is None else highest

    def read(value: JsonValue, path: Path, mended: list[Mended]) -> Any:
        if type(value) is not kind:
            raise Refused(path, mismatch(JSON_NAMES[kind], value))
        if (low is not None and value < low) or (high is not None and value > high):
            raise Refused(path, "out of range")
        return value

    return read


def literal(values: tuple[Any, ...]) -> Reader:
    """One of these strings."""
    known: dict[Any, Any] = {value: value for value in values}
    expected = " or ".join(map(repr, values))

    def read(value: JsonValue, path: Path, mended: list[Mended]) -> Any:
        if not isinstance(value, str):
            raise Refused(path, mismatch("str", value))
        if value not in known:
            raise Refused(path, f"expected {expected}, got {shortened(value)!r}")
        return known[value]  # the very object that msgspec compares defaults with

    return read
