"""Access to untrusted JSON: a value of the wrong type reads as empty."""

from __future__ import annotations

from collections.abc import Iterable

from duologue.schema.base import JsonObject, JsonValue
from duologue.schema.legacy import DIALECT_KEY
from duologue.schema.lenient_errors import is_array, is_object


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


def replace(fields: JsonObject, key: str, words: dict[str, str]) -> bool:
    """Replace the value of a member by its entry in `words`; return True if there is one."""
    if string(fields, key) not in words:
        return False
    fields[key] = words[fields[key]]
    return True


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
    kept = as_object(meta.pop(DIALECT_KEY, None))
    if kept and not meta:
        del fields["_meta"]
    return kept
