"""Conversion of one struct into another that has most of its fields.

The structs of `conversation` and `protocol.values` name their fields as the wire does wherever both mean the same, so
that converting one is copying what both have.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def convert_fields(source: Struct, target: type[T], **changes: Any) -> T:
    """Build a `target` from the fields that it has in common with `source`; `changes` replace and complete them."""
    fields = {name: getattr(source, name) for name in _common_fields(type(source), target)}
    return target(**{**fields, **changes})


@cache
def _common_fields(source: type[Struct], target: type[Struct]) -> tuple[str, ...]:
    return tuple(name for name in source.__struct_fields__ if name in target.__struct_fields__)
