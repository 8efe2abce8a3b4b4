"""The content of a schema as plain data, shared by the parser, the renderers and the tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True)
class Text:
    """A string."""

    min_length: int = 0


@dataclass(frozen=True)
class Integer:
    """An integer between two bounds, both inclusive."""

    low: int
    high: int


@dataclass(frozen=True)
class Number:
    """Any JSON number, perhaps between two bounds."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Boolean:
    """True or false."""


@dataclass(frozen=True)
class Null:
    """Null, where it is a value of its own (a v1 request id)."""


@dataclass(frozen=True)
class Anything:
    """Any JSON, including null."""


@dataclass(frozen=True)
class AnyObject:
    """Any JSON object."""


@dataclass(frozen=True)
class Exactly:
    """One of these strings and no other."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class Named:
    """A reference to a shape."""

    name: str


@dataclass(frozen=True)
class ListOf:
    """An array."""

    item: Type
    min_items: int = 0


@dataclass(frozen=True)
class MapOf:
    """An object used as a map from strings."""

    value: Type


@dataclass(frozen=True)
class Either:
    """One of several types that differ in their JSON type."""

    types: tuple[Type, ...]


Type: TypeAlias = (
    Text | Integer | Number | Boolean | Null | Anything | AnyObject | Exactly | Named | ListOf | MapOf | Either
)


@dataclass(frozen=True)
class Field:
    """A property of an object.

    Attributes:
        mark: Letters `E`, `S`, `N`: how a decoder tolerates invalid values.
        patch: Whether absent and null differ: absent keeps the value, null clears it.
        default: The schema's own default, or None.
    """

    wire: str
    type: Type
    required: bool
    nullable: bool
    mark: str = ""
    patch: bool = False
    default: Any = None


@dataclass(frozen=True)
class Alias:
    """Another name for a type."""

    name: str
    type: Type


@dataclass(frozen=True)
class Enumeration:
    """Known strings; unknown ones are allowed."""

    name: str
    values: tuple[str, ...]
    open: bool


Scope: TypeAlias = Literal["", "any", "one"]


@dataclass(frozen=True)
class Structure:
    """An object with named fields: one class.

    Attributes:
        definition: The definition of the schema it comes from.
        tag: The discriminator, as name and value.
        parent: The structure that has the same fields without the tag.
        scope: Whether `any` or exactly `one` of a session and a request must be set.
        discriminator: A field whose unknown values make the whole object unknown.
    """

    name: str
    definition: str
    fields: tuple[Field, ...]
    tag: tuple[str, str] | None = None
    parent: str | None = None
    scope: Scope = ""
    discriminator: str | None = None


@dataclass(frozen=True)
class TaggedUnion:
    """Objects discriminated by a tag.

    Attributes:
        members: Tag value to structure.
        other: The structure that an unknown member must match, if any.
        open: Whether the schema itself allows unknown members.
    """

    name: str
    tag: str
    members: dict[str, str]
    other: str | None = None
    open: bool = False


@dataclass(frozen=True)
class HalfTagged:
    """Like a tagged union, but one member has no tag; see `duologue.schema.unions.TaggedUnion`."""

    name: str
    tag: str
    members: dict[str, str]
    absent: str
    unknown: str | None = None
    required_field: str | None = None
    open: bool = False


@dataclass(frozen=True)
class Untagged:
    """Objects discriminated by the fields they have, or (`lists`) arrays of such objects."""

    name: str
    members: dict[str, str]
    lists: bool = False
    min_items: int = 0


@dataclass(frozen=True)
class Merged:
    """A union of objects that became one structure with the tag as a field; unknown tags become `Other`."""

    name: str
    structure: str


@dataclass(frozen=True)
class OpenObject:
    """An object whose unknown fields are kept."""

    name: str
    structure: str


Shape: TypeAlias = Alias | Enumeration | Structure | TaggedUnion | HalfTagged | Untagged | Merged | OpenObject


@dataclass(frozen=True)
class Call:
    """A method or a notification."""

    name: str
    constant: str
    side: str
    params: str
    result: str | None


@dataclass
class Schema:
    """One schema file.

    Attributes:
        shapes: Every shape by name.
        roots: The definitions of the file, and the shape of each.
        absorbed: Definitions without a shape of their own, and the shape that contains them.
        envelopes: Definitions of JSON-RPC messages, which are not generated.
    """

    version: str
    shapes: dict[str, Shape] = field(default_factory=dict[str, "Shape"])
    roots: dict[str, str] = field(default_factory=dict[str, str])
    absorbed: dict[str, str] = field(default_factory=dict[str, str])
    envelopes: list[str] = field(default_factory=list[str])
    calls: list[Call] = field(default_factory=list[Call])
