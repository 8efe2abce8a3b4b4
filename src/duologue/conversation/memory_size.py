"""The memory that a value takes, including everything it contains."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import Any

from msgspec import UNSET, Struct, structs

_LEAVES = frozenset({str, bytes, int, float, bool})
_ARRAYS = frozenset({list, tuple})


def memory_size(value: object) -> int:
    """Estimate the bytes of a value of structs, dicts, lists and scalars; shared parts count each time."""
    total = getsizeof(value)
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        inner_values: Sequence[Any] = ()
        if isinstance(each, Struct):
            inner_values = [field for field in structs.astuple(each) if field is not None and field is not UNSET]
        elif type(each) is dict:
            inner_values = [*each.keys(), *each.values()]
        elif type(each) in _ARRAYS:
            inner_values = each
        total += sum(map(getsizeof, inner_values))
        waiting += [inner for inner in inner_values if inner and type(inner) not in _LEAVES]
    return total
