"""Conversion of one struct into another that has most of its fields.

The structs of `conversation` and `protocol.values` name their fields as the wire does wherever both mean the same, so
that converting one is copying what both have.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from msgspec import UNSET, Struct

T = TypeVar("T", bound=Struct)


def convert_fields(source: Struct, target: type[T], **changes: Any) -> T:
    """Build a `target` from the fields that it has in common with `source`; `changes` replace and complete them.

    An absent field stays absent, also if only one of the two tells absent (`UNSET`) and null (`None`) apart.
    """
    for name, absent in _common_fields(type(source), target):
        if name not in changes and (value := getattr(source, name)) is not absent:
            changes[name] = value
    return target(**changes)


def patched_fields(change: Struct, fresh: Struct) -> dict[str, Any]:
    """Return the fields that a patch sets, apart from `meta`; a cleared field gets the value that it has in `fresh`."""
    names = [name for name, _ in _common_fields(type(change), type(fresh)) if name != "meta"]
    values = {name: value for name in names if (value := getattr(change, name)) is not UNSET}
    return {name: getattr(fresh, name) if value is None else value for name, value in values.items()}


def set_fields(struct: Struct) -> dict[str, Any]:
    """Return the fields whose values differ from their defaults."""
    defaults = _defaults(type(struct))
    values = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return {name: value for name, value in values.items() if value != defaults[name] and value != []}


@cache
def _common_fields(source: type[Struct], target: type[Struct]) -> tuple[tuple[str, object], ...]:
    """Return each field that both have, and the value that means that it is absent in `source`."""
    defaults, own = _defaults(target), _defaults(source)
    return tuple(
        (name, None if own[name] is None and defaults[name] is UNSET else UNSET)
        for name in source.__struct_fields__
        if name in defaults
    )


def _defaults(kind: type[Struct]) -> dict[str, object]:
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    return {**dict.fromkeys(names, ...), **dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))}
