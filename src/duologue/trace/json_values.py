"""Reading values from JSON that may have any shape: what is not there, or has another type, reads as nothing."""

from __future__ import annotations

from collections.abc import Iterator

from duologue.schema.base import JsonObject, JsonValue
from duologue.schema.lenient_errors import is_array, is_object


def member(value: JsonValue, *names: str) -> JsonValue:
    """Return the member at the end of the names; None if there is none."""
    for name in names:
        if not is_object(value):
            return None
        value = value.get(name)
    return value


def text(value: JsonValue, *names: str) -> str:
    """Return the string at the end of the names; empty if there is none."""
    found = member(value, *names)
    return found if isinstance(found, str) else ""


def number(value: JsonValue, *names: str) -> int | None:
    """Return the integer at the end of the names; None if there is none."""
    found = member(value, *names)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def items(value: JsonValue, *names: str) -> list[JsonValue]:
    """Return the array at the end of the names; an empty one if there is none."""
    found = member(value, *names)
    return found if is_array(found) else []


def objects(value: JsonValue, *names: str) -> Iterator[tuple[int, JsonObject]]:
    """Yield index and value of the objects in the array at the end of the names."""
    for index, each in enumerate(items(value, *names)):
        if is_object(each):
            yield index, each
