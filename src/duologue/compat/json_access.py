"""Access to untrusted JSON: a value of the wrong type reads as empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from duologue.schema.base import JsonObject, JsonValue
from duologue.schema.legacy import DIALECT_KEY
from duologue.schema.lenient_errors import is_array, is_object

Edit: TypeAlias = Callable[[JsonObject], bool]
"""Changes an object if it applies to it; returns True if it did."""


def as_object(value: JsonValue) -> JsonObject:
    """Return the value if it is an object; otherwise a new empty one."""
    return value if is_object(value) else {}


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects in a list, in order; other items are left out."""
    return list(filter(is_object, value)) if is_array(value) else []


def string(fields: JsonObject, key: str) -> str:
    """Return a member if it is a string; otherwise an empty string."""
    value: JsonValue = fields.get(key)
    return value if isinstance(value, str) else ""


def move(source: JsonObject, old: str, target: JsonObject, new: str) -> bool:
    """Move a member unless its new name exists; return True if it was moved."""
    if old not in source or new in target:
        return False
    target[new] = source.pop(old)
    return True


def rename(fields: JsonObject, old: str, new: str) -> bool:
    """Rename a member unless its new name exists; return True if it was renamed."""
    return move(fields, old, fields, new)


def renaming(**names: str) -> Edit:
    """Return an edit that renames members, each given as `old="new"`."""
    return lambda fields: any_changed(rename(fields, old, new) for old, new in names.items())


def replacing(key: str, values: Mapping[Any, str | int]) -> Edit:
    """Return an edit that replaces the value of a member by its entry in `values`."""

    def edit(fields: JsonObject) -> bool:
        value: JsonValue = fields.get(key)
        if not isinstance(value, str | int) or value not in values:
            return False
        fields[key] = values[value]
        return True

    return edit


def any_changed(changes: Iterable[bool]) -> bool:
    """Make all these changes; return True if any of them happened. `any` would stop at the first."""
    return sum(changes) > 0


def keep_in_meta(fields: JsonObject, **values: JsonValue) -> None:
    """Store these values in `_meta`, in addition to what is stored there."""
    meta = as_object(fields.get("_meta"))
    fields["_meta"] = {**meta, DIALECT_KEY: {**as_object(meta.get(DIALECT_KEY)), **values}}


def take_from_meta(fields: JsonObject) -> JsonObject:
    """Remove what `keep_in_meta` stored and return it; `_meta` is removed if nothing else is in it."""
    meta = as_object(fields.get("_meta"))
    stored = as_object(meta.pop(DIALECT_KEY, None))
    if stored and not meta:
        del fields["_meta"]
    return stored
