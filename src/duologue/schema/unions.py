"""Unions that msgspec cannot discriminate by a tag: these classes describe which member an object is.

At run time such a union is a class, a marker for the decoder; for a type checker it is the plain union of its members.
`isinstance(value, v1.McpServer)` is true for every member.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from duologue.schema.base import JsonObject, Model, Other
from duologue.schema.lenient_errors import is_array, is_object


class _WireUnionType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, getattr(cls, "members", ()))


class WireUnion(metaclass=_WireUnionType):
    """Base of the four kinds of unions."""

    members: ClassVar[tuple[type, ...]] = ()
    is_list: ClassVar[bool] = False
    """The union is a list, and `member_of` returns the type of its items."""

    @classmethod
    def member_of(cls, value: Any) -> Any:
        """Return the type that parsed JSON has by its tag or its keys, or None if that does not decide it."""
        return None


class TaggedUnion(WireUnion):
    """A union in which one member has no tag, or with one member only (msgspec would not require its tag).

    Attributes:
        tag: The name of the tag on the wire.
        known: The members that have the tag.
        absent: The member that an object without a tag is; None: there must be a tag.
        unknown: The member that an object with an unknown tag is; None: it becomes an `Other`.
        required_field: A field that an object must have to be `unknown`; without it, it becomes an `Other`.
        other: The fields that an object must have to become an `Other`.
        by_tag: The members by the value of their tag; `absent` by None.
    """

    tag: ClassVar[str]
    known: ClassVar[tuple[type[Model], ...]]
    absent: ClassVar[type[Model] | None] = None
    unknown: ClassVar[type[Model] | None] = None
    required_field: ClassVar[str | None] = None
    other: ClassVar[type[Model] | None] = None
    by_tag: ClassVar[dict[Any, type[Model] | None]]

    def __init_subclass__(cls) -> None:
        absent = () if cls.absent is None else (cls.absent,)
        cls.members = (*cls.known, *absent, Other)
        cls.by_tag = {None: cls.absent, **{member.__struct_config__.tag: member for member in cls.known}}

    @classmethod
    def member_of(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        tag: Any = cast("JsonObject", value).get(cls.tag)
        return cls.by_tag.get(tag) if tag is None or isinstance(tag, str) else None


class KeyedUnion(WireUnion):
    """A union without tags; the first of these fields that an object has decides."""

    by_key: ClassVar[dict[str, type[Model]]]

    def __init_subclass__(cls) -> None:
        cls.members = tuple(cls.by_key.values())

    @classmethod
    def member_of(cls, value: Any) -> Any:
        return next((cls.by_key[key] for key in cls.by_key if key in value), None) if is_object(value) else None


class KeyedListUnion(WireUnion):
    """A list whose items are all of one member; a field of the first item decides which."""

    by_key: ClassVar[dict[str, type[Model]]]
    min_length: ClassVar[int] = 0
    members: ClassVar[tuple[type, ...]] = (list,)
    is_list: ClassVar[bool] = True

    @classmethod
    def member_of(cls, value: Any) -> Any:
        if not is_array(value) or not value:
            return None
        first = value[0]
        if isinstance(first, dict) and len(value) >= cls.min_length:
            for key, member in cls.by_key.items():
                if key in first:
                    return member
        return None


class OpenUnion(WireUnion):
    """An object whose unknown fields matter: checked against `shape`, but kept as a dict."""

    shape: ClassVar[type[Model]]
    members: ClassVar[tuple[type, ...]] = (dict,)
