"""Plain JSON, looked at without trusting it: a place that is not what it should be reads as empty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeGuard

__all__ = [
    "KEPT_UNDER",
    "JsonObject",
    "JsonValue",
    "as_object",
    "bring_back",
    "keep",
    "move",
    "objects",
    "rename",
    "replace",
    "took_place",
    "word",
]

KEPT_UNDER = "seed-004"
"""The key in `_meta` that keeps what seed 004 has and today's schema has not."""

JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]


def _is_object(value: JsonValue) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)


def _is_list(value: JsonValue) -> TypeGuard[list[JsonValue]]:
    return isinstance(value, list)


def as_object(value: JsonValue) -> JsonObject:
    """The value itself if it is an object; otherwise an empty one that belongs to nobody."""
    return value if _is_object(value) else {}


def objects(value: JsonValue) -> list[JsonObject]:
    """The objects in a list, in their order; what else is in it is none of our business."""
    return list(filter(_is_object, value)) if _is_list(value) else []


def word(fields: JsonObject, key: str) -> str:
    """A member that is a string; otherwise an empty one."""
    value: JsonValue = fields.get(key)
    return value if isinstance(value, str) else ""


def move(source: JsonObject, old: str, target: JsonObject, new: str) -> bool:
    """Move a member, unless its new place is taken. True if it was moved."""
    if old not in source or new in target:
        return False
    target[new] = source.pop(old)
    return True


def rename(fields: JsonObject, old: str, new: str) -> bool:
    """Call a member by its other name, unless that name is taken. True if it was renamed."""
    return move(fields, old, fields, new)


def replace(fields: JsonObject, key: str, words: dict[str, str]) -> bool:
    """Say the value of a member in the other vocabulary. True if it is a word of it."""
    if word(fields, key) not in words:
        return False
    fields[key] = words[fields[key]]
    return True


def took_place(changes: Iterable[bool]) -> bool:
    """Whether any of these changes happened. All are made, where `any` would stop at the first."""
    return sum(changes) > 0


def keep(fields: JsonObject, **values: JsonValue) -> None:
    """Keep these values in `_meta`, beside what is kept there already."""
    meta = as_object(fields.get("_meta"))
    fields["_meta"] = {**meta, KEPT_UNDER: {**as_object(meta.get(KEPT_UNDER)), **values}}


def bring_back(fields: JsonObject) -> JsonObject:
    """Take what is kept in `_meta` out of it; `_meta` goes with it if nothing else is there."""
    meta = as_object(fields.get("_meta"))
    kept = as_object(meta.pop(KEPT_UNDER, None))
    if kept and not meta:
        del fields["_meta"]
    return kept
