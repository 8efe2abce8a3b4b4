"""How much memory a value takes, with all that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import Any

from msgspec import UNSET, Struct, structs

__all__ = ["memory_size"]

_LEAVES = frozenset({str, bytes, int, float, bool})
_ARRAYS = frozenset({list, tuple})


def memory_size(value: object) -> int:
    """Estimate the bytes of a value of structs, dicts, lists and scalars; what it holds twice counts twice."""
    total = getsizeof(value)
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        held: Sequence[Any] = ()
        if isinstance(each, Struct):
            held = [field for field in structs.astuple(each) if field is not None and field is not UNSET]
        elif type(each) is dict:
            held = [*each.keys(), *each.values()]
        elif type(each) in _ARRAYS:
            held = each
        total += sum(map(getsizeof, held))
        waiting += [inner for inner in held if inner and type(inner) not in _LEAVES]
    return total
