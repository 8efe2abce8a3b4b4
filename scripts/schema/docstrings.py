"""Docstrings of the generated classes, made from facts of the schema."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator

from scripts.schema.shapes import (
    Alias,
    HalfTagged,
    ListOf,
    Merged,
    Named,
    OpenObject,
    Schema,
    Shape,
    Structure,
    TaggedUnion,
    Untagged,
)

WIDTH = 116  # of a line inside a class
MOST_USES = 3


class Docstrings:
    """Docstrings of one schema; what is not in `stable` is marked as unstable."""

    def __init__(self, schema: Schema, stable: Schema) -> None:
        self.schema = schema
        self.stable = stable
        self.roles: dict[str, list[str]] = defaultdict(list)
        for call in schema.calls:
            self.roles[call.params].append(f"Parameters of `{call.name}`.")
            if call.result is not None:
                self.roles[call.result].append(f"Result of `{call.name}`.")
        for shape in schema.shapes.values():
            for name, role in _roles(shape):
                self.roles[name].append(role)
        self.uses = _uses(schema)

    def of(self, structure: Structure) -> str:
        """Return the docstring of a class, including its quotes."""
        text = " ".join(self._sentences(structure))
        wrapped = textwrap.wrap(f'"""{text}', WIDTH)
        return "\n".join(wrapped) + ('"""' if len(wrapped) == 1 else '\n"""')

    def _sentences(self, structure: Structure) -> Iterator[str]:
        roles = self.roles[structure.name]
        uses = [f"`{use}`" for use in self.uses[structure.name]]
        if roles:
            yield from roles
        elif uses:
            more = " and elsewhere" if len(uses) > MOST_USES else ""
            yield f"Used in {', '.join(uses[:MOST_USES])}{more}."
        else:
            yield f"`{structure.definition}` of the schema."
        if any(field.patch and field.nullable for field in structure.fields):
            yield "An absent field keeps what was there, null clears it."
        if structure.name not in self.stable.shapes:
            yield "Unstable."


def _roles(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield the members of a union, each with a sentence about its role."""
    match shape:
        case TaggedUnion(name, tag, members, other):
            for value, member in members.items():
                yield member, f"The `{name}` whose `{tag}` is `{value}`."
            if other is not None:
                yield other, f"Fields that an unknown `{name}` must have."
        case HalfTagged(name, tag, members, absent):
            for value, member in members.items():
                yield member, f"The `{name}` whose `{tag}` is `{value}`."
            yield absent, f"The `{name}` without a `{tag}`."
        case Untagged(name, members, lists):
            for key, member in members.items():
                yield member, f"An item of `{name}` with `{key}`." if lists else f"The `{name}` with `{key}`."
        case Merged(name, structure):
            yield structure, f"Any known `{name}`; a field says which."
        case OpenObject(name, structure):
            yield structure, f"Fields that a `{name}` must have; other fields are kept."
        case Alias(name, Named(target)):
            yield target, f"Also called `{name}`."
        case Structure(name, parent=str(parent)):
            yield parent, f"Parent of `{name}`."
        case _:
            pass


def _uses(schema: Schema) -> dict[str, list[str]]:
    """Return the fields that contain each class, directly or in a list."""
    uses: dict[str, list[str]] = defaultdict(list)
    for shape in schema.shapes.values():
        if isinstance(shape, Structure) and shape.parent is None:
            for field in shape.fields:
                type_ = field.type.item if isinstance(field.type, ListOf) else field.type
                if isinstance(type_, Named):
                    uses[schema.roots.get(type_.name, type_.name)].append(f"{shape.name}.{field.wire}")
    return uses
