"""Fields of message classes, with the message classes that each may contain.

`msgspec.structs.fields` evaluates every annotation, which takes long when an agent starts. Here only the names in an
annotation are looked up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from msgspec import NODEFAULT, Struct

from duologue.schema.unions import WireUnion

_PUNCTUATION = str.maketrans("|[](),", "      ")


class Field(Struct, frozen=True):
    """One field of a message class: its name, its name on the wire, its default and the classes in its annotation."""

    name: str
    wire_name: str
    default: Any
    classes: tuple[type[Struct], ...]

    @property
    def is_required(self) -> bool:
        """True if the field has no default."""
        return self.default is NODEFAULT


def fields_of(kind: type[Struct]) -> Iterator[Field]:
    """Yield the fields of a message class."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    required = (NODEFAULT,) * (len(names) - len(defaults))
    classes = _classes_by_field(kind)
    for name, wire_name, default in zip(names, kind.__struct_encode_fields__, (*required, *defaults), strict=True):
        yield Field(name, wire_name, default, classes[name])


def _classes_by_field(kind: type[Struct]) -> dict[str, tuple[type[Struct], ...]]:
    found: dict[str, tuple[type[Struct], ...]] = {}
    for base in reversed(kind.__mro__):
        annotations: dict[str, str] = vars(base).get("__annotations__", {}) if issubclass(base, Struct) else {}
        for name, annotation in annotations.items():
            found[name] = _classes_named(annotation, base.__module__)
    return found


@cache
def _classes_named(annotation: str, module: str) -> tuple[type[Struct], ...]:
    """Return the message classes that an annotation names, perhaps as the name of another module and theirs."""
    names = annotation.translate(_PUNCTUATION).split()
    return tuple(kind for name in names for kind in classes_in(_value_of(name, module)))


def _value_of(name: str, module: str) -> Any:
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def classes_in(kind: Any) -> Iterator[type[Struct]]:
    """Yield the message classes in a type."""
    parts: tuple[Any, ...] = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield kind
    elif isinstance(kind, type) and issubclass(kind, WireUnion):
        parts = kind.members
    for part in parts:
        yield from classes_in(part)
