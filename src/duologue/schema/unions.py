"""Unions that msgspec cannot tell apart by a tag: which class an object belongs to is written down here as data.

At run time such a union is a class, a marker for the decoder; to a type checker it is the plain union of its members.
`isinstance(value, v1.McpServer)` is true for every member.
"""

from __future__ import annotations

from typing import ClassVar

from duologue.schema.base import Model, Other

__all__ = ["KeyedListUnion", "KeyedUnion", "OpenUnion", "TaggedUnion", "WireUnion"]


class _WireUnionType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, getattr(cls, "members", ()))


class WireUnion(metaclass=_WireUnionType):
    """What the four kinds of untagged unions have in common."""

    members: ClassVar[tuple[type, ...]] = ()


class TaggedUnion(WireUnion):
    """Some members carry a tag and one does not, or there is one member only (msgspec would not miss its tag).

    Attributes:
        tag: The name of the tag on the wire.
        known: The members that carry it.
        absent: Who is meant when there is no tag; None: there must be one.
        unknown: Who is meant by a tag nobody here knows; None keeps the object as `Other`.
        sign: A field that `unknown` must show, or the object is kept as `Other` as well.
        other: What an object kept as `Other` must look like.
    """

    tag: ClassVar[str]
    known: ClassVar[tuple[type[Model], ...]]
    absent: ClassVar[type[Model] | None] = None
    unknown: ClassVar[type[Model] | None] = None
    sign: ClassVar[str | None] = None
    other: ClassVar[type[Model] | None] = None

    def __init_subclass__(cls) -> None:
        absent = () if cls.absent is None else (cls.absent,)
        cls.members = (*cls.known, *absent, Other)


class KeyedUnion(WireUnion):
    """No member carries a tag; the first field that is present tells."""

    by_key: ClassVar[dict[str, type[Model]]]

    def __init_subclass__(cls) -> None:
        cls.members = tuple(cls.by_key.values())


class KeyedListUnion(WireUnion):
    """A list whose items are all of one kind; a field of the first one tells which."""

    by_key: ClassVar[dict[str, type[Model]]]
    min_length: ClassVar[int] = 0
    members: ClassVar[tuple[type, ...]] = (list,)


class OpenUnion(WireUnion):
    """An object whose unknown fields matter: checked against `shape`, but kept as the dict it came as."""

    shape: ClassVar[type[Model]]
    members: ClassVar[tuple[type, ...]] = (dict,)
