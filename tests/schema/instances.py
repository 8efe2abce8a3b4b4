"""Instances of the schemas, made from the generator's own model of them.

What is chosen (which member, which fields, which values) is up to a `Chooser`: hypothesis, a random number generator,
or one that takes everything there is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from scripts.schema.shapes import (
    Alias,
    AnyObject,
    Anything,
    Boolean,
    Either,
    Enumeration,
    Exactly,
    Field,
    HalfTagged,
    Integer,
    ListOf,
    MapOf,
    Merged,
    Named,
    Null,
    Number,
    OpenObject,
    Schema,
    Structure,
    TaggedUnion,
    Text,
    Type,
    Untagged,
)

T = TypeVar("T")

UNKNOWN = "_unknown"
ANYTHING: list[Any] = [None, True, 0, -3, 2**64 + 1, 1.5, "", "text", [], [1, None], {}, {"a": {"b": [False]}}]
TEXTS = ["", "a", "/tmp/x", "naïve", '\u2028\x00\\"\n', "🦆" * 3, "session"]


class Chooser(Protocol):
    """Makes the choices while an instance is built."""

    def pick(self, options: Sequence[T]) -> T: ...

    def often(self) -> bool: ...

    def rarely(self) -> bool: ...

    def adds_unknown_fields(self) -> bool: ...

    def integer(self, low: int, high: int) -> int: ...

    def text(self, low: int) -> str: ...

    def length(self, low: int) -> int: ...


class Everything:
    """Chooses every field, one item per list, the first member of each union, and no unusual values."""

    def pick(self, options: Sequence[T]) -> T:
        return options[0]

    def often(self) -> bool:
        return True

    def rarely(self) -> bool:
        return False

    def adds_unknown_fields(self) -> bool:
        return False

    def integer(self, low: int, high: int) -> int:
        return max(low, min(high, 7))

    def text(self, low: int) -> str:
        return "text"

    def length(self, low: int) -> int:
        return max(low, 1)


class Rotating(Everything):
    """Chooses every field, and at each choice the next option each time."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}
        self._left: dict[str, int] = {}

    @property
    def has_more(self) -> bool:
        """Whether an option was not chosen yet."""
        return any(left > 0 for left in self._left.values())

    def pick(self, options: Sequence[T]) -> T:
        key = repr(options)
        turn = self._turns[key] = self._turns.get(key, -1) + 1
        self._left[key] = self._left.get(key, len(options)) - 1
        return options[turn % len(options)]


class Sprinkled(Rotating):
    """Chooses like `Rotating`, and adds unknown fields at every level."""

    def adds_unknown_fields(self) -> bool:
        return True


class Least(Everything):
    """Chooses only what is required."""

    def often(self) -> bool:
        return False

    def length(self, low: int) -> int:
        return low


@dataclass
class AtRandom:
    """Quick random choices."""

    source: random.Random

    def pick(self, options: Sequence[T]) -> T:
        return self.source.choice(options)

    def often(self) -> bool:
        return self.source.random() < 0.6

    def rarely(self) -> bool:
        return self.source.random() < 0.1

    def adds_unknown_fields(self) -> bool:
        return self.rarely()

    def integer(self, low: int, high: int) -> int:
        return self.source.choice([low, high, self.source.randint(low, high)])

    def text(self, low: int) -> str:
        return self.source.choice(TEXTS[low:])

    def length(self, low: int) -> int:
        return self.source.randint(low, low + 2)


@dataclass
class Drawn:
    """Hypothesis decides, and finds the smallest case when something fails."""

    draw: st.DrawFn

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def often(self) -> bool:
        return self.draw(st.booleans())

    def rarely(self) -> bool:
        return self.draw(st.integers(0, 7)) == 7

    def adds_unknown_fields(self) -> bool:
        return self.rarely()

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def text(self, low: int) -> str:
        return self.draw(st.text(min_size=low, max_size=4))

    def length(self, low: int) -> int:
        return self.draw(st.integers(low, low + 2))


def varieties(schema: Schema, definition: str, chooser: Rotating | None = None) -> Iterator[Any]:
    """Full instances of a definition until every member of every union inside it was seen."""
    chooser = chooser or Rotating()
    yield Maker(schema, chooser).definition(definition)
    while chooser.has_more:
        yield Maker(schema, chooser).definition(definition)


@st.composite
def instances(draw: st.DrawFn, schema: Schema, definition: str) -> Any:
    """Return a strategy for valid instances of one definition."""
    return Maker(schema, Drawn(draw)).definition(definition)


@dataclass
class Maker:
    """Makes instances of one schema."""

    schema: Schema
    chooser: Chooser

    def definition(self, name: str) -> Any:
        """Return an instance of a definition of the schema; where our class has a tag, the definition has none."""
        shape = self.schema.shapes[self.schema.roots[name]]
        if isinstance(shape, Structure):
            return self._structure(shape)
        return self.shape(shape.name)

    def shape(self, name: str) -> Any:
        """Return an instance of a shape, including its tag."""
        match self.schema.shapes[self.schema.roots.get(name, name)]:
            case Alias(type=type_):
                return self.type(type_)
            case Enumeration(values=values, open=is_open):
                return UNKNOWN if is_open and self.chooser.rarely() else self.chooser.pick(values)
            case Structure() as structure:
                return self.tagged(structure)
            case TaggedUnion() | HalfTagged() as union:
                return self._union(union)
            case Untagged(members=members, lists=lists, min_items=low):
                structure = self._named(self.chooser.pick(list(members.values())))
                if not lists:
                    return self._structure(structure)
                return [self._structure(structure) for _ in range(self.chooser.length(low))]
            case Merged(structure=name):
                return self._structure(self._named(name))
            case OpenObject(structure=name):
                return self._structure(self._named(name))

    def type(self, type_: Type) -> Any:
        """Return an instance of a type."""
        match type_:
            case Text(low):
                return self.chooser.text(low)
            case Integer(low, high):
                return self.chooser.integer(low, high)
            case Number(low, high):
                return self.chooser.pick([x for x in (1, 0.25, 0, 3.5, -7, 10**20) if _within(x, low, high)])
            case Boolean():
                return self.chooser.pick([True, False])
            case Null():
                return None
            case Anything():
                return self.chooser.pick(ANYTHING[2:])
            case AnyObject():
                return {"key": self.chooser.pick(ANYTHING)} if self.chooser.often() else {}
            case Exactly(values):
                return self.chooser.pick(values)
            case Named(name):
                return self.shape(name)
            case ListOf(item, low):
                return [self.type(item) for _ in range(self.chooser.length(low))]
            case MapOf(value):
                return {f"key {number}": self.type(value) for number in range(self.chooser.length(0))}
            case Either(types):
                return self.type(self.chooser.pick(types))

    def tagged(self, structure: Structure) -> dict[str, Any]:
        """Return an instance of a structure, including its tag."""
        return dict([structure.tag] if structure.tag else [], **self._structure(structure))

    def _union(self, union: TaggedUnion | HalfTagged) -> Any:
        if union.open and self.chooser.rarely():
            check = union.other if isinstance(union, TaggedUnion) else None
            rest = self._structure(self._named(check)) if check else {}
            return {union.tag: UNKNOWN, **rest, "more": self.chooser.pick(ANYTHING)}
        names = list(union.members.values())
        if isinstance(union, HalfTagged):
            names.append(union.absent)
        return self.tagged(self._named(self.chooser.pick(names)))

    def _structure(self, structure: Structure) -> dict[str, Any]:
        found = {field.wire: self._value(field) for field in structure.fields if self._is_wanted(field)}
        if structure.scope:
            self._choose_scope(structure, found)
        if self.chooser.adds_unknown_fields():
            found["zzUnknown"] = {"deep": [1, None]}
        return found

    def _is_wanted(self, field: Field) -> bool:
        return field.required or self.chooser.often()

    def _value(self, field: Field) -> Any:
        return None if field.nullable and self.chooser.rarely() else self.type(field.type)

    def _choose_scope(self, structure: Structure, found: dict[str, Any]) -> None:
        for wire in ("sessionId", "toolCallId", "requestId"):
            found.pop(wire, None)
        if self.chooser.pick([True, False]):
            found["sessionId"] = self.chooser.text(0)
        else:
            found["requestId"] = self.type(Named("RequestId"))

    def _named(self, name: str) -> Structure:
        shape = self.schema.shapes[name]
        assert isinstance(shape, Structure)
        return shape


def _within(number: float, low: float | None, high: float | None) -> bool:
    return (low is None or number >= low) and (high is None or number <= high)
