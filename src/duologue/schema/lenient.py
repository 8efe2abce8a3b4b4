"""The forgiving reader: what happens to a message that the strict decoder refused.

It reads parsed JSON against the same annotations, and forgives exactly what the schema marks (`Model.__marks__`):
`E` a bad value reads as absent, `S` bad items of a list are dropped, `N` null reads as empty. A union member nobody
knows is kept as `Other`, and a former name counts (`FORMER_NAMES`). Everything else is refused with its path,
`$.prompt[0].text: expected str, got int`. Readers are built once per type, on first need, from `msgspec.inspect`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, cast

from msgspec import Struct, inspect

from duologue.schema.base import JsonObject, JsonValue, Model, Other
from duologue.schema.lenient_errors import (
    JSON_NAMES,
    Defaulted,
    Path,
    Reader,
    Rejected,
    array,
    is_object,
    json_object,
    mismatch,
    path_text,
)
from duologue.schema.lenient_scalars import exact, literal, number, string
from duologue.schema.unions import KeyedListUnion, KeyedUnion, OpenUnion, TaggedUnion, WireUnion

__all__ = ["UnknownType", "reader_for"]

# Bounds an annotation may carry but the schema never does; a reader that skipped them would forgive too much.
_FOREIGN_BOUNDS = ("gt", "lt", "multiple_of", "max_length", "pattern", "tz")

FORMER_NAMES = {("CurrentModeUpdate", "currentModeId"): "modeId"}
"""Required members that the documentation of 2025 spelled otherwise in its examples, by class and today's name."""


class UnknownType(TypeError):
    """A type of the user's own that is richer than the schema's."""


@cache
def reader_for(type_: Any) -> Reader:
    """A reader for any type a generated class may mention.

    Raises:
        UnknownType: The type, or one inside it, is none the schema has. A nested one may be met while reading.
    """
    return _reader(inspect.type_info(type_))


def _reader(node: inspect.Type, *, skip: bool = False, other: type[Model] | None = None) -> Reader:
    if any(getattr(node, bound, None) is not None for bound in _FOREIGN_BOUNDS):
        raise UnknownType(node)
    match node:
        case inspect.Metadata():
            extra: JsonObject = cast("Any", node).extra or {}
            if isinstance(node.type, inspect.IntType):
                return number(node.type, extra.get("le"))
            return _reader(node.type, skip=skip, other=extra.get("other"))
        case inspect.UnionType():
            return _union(node, skip, other)
        case inspect.StructType(cls=cls) if issubclass(cls, Model):
            return _struct(cls)
        case inspect.CustomType(cls=cls) if issubclass(cls, WireUnion):
            return _choice(cls)
        case inspect.ListType():
            return _list(_reader(node.item_type), node.min_length or 0, skip)
        case inspect.DictType(key_type=inspect.StrType()):
            return _dict(node)
        case _:
            return _scalar(node)


def _scalar(node: inspect.Type) -> Reader:
    match node:
        case inspect.StrType():
            return string(node)
        case inspect.IntType() | inspect.FloatType():
            return number(node)
        case inspect.BoolType():
            return exact(bool)
        case inspect.NoneType():
            return exact(type(None))
        case inspect.LiteralType(values=values) if all(isinstance(value, str) for value in values):
            return literal(values)
        case inspect.AnyType():
            return lambda value, path, mended: value
        case _:
            raise UnknownType(node)


# --- containers


def _list(item_reader: Reader, low: int, skip: bool) -> Reader:
    def read(value: JsonValue, path: Path, mended: list[Defaulted]) -> list[Any]:
        items: list[Any] = []
        for index, item in enumerate(array(value, path)):
            before = len(mended)
            try:
                items.append(item_reader(item, (path, index), mended))
            except Rejected as refused:
                if not skip:
                    raise
                mended[before:] = [Defaulted(path_text(refused.path), f"{refused.problem}; item dropped")]
        if len(items) < low:
            raise Rejected(path, f"needs at least {low} item")
        return items

    return read


def _dict(node: inspect.DictType) -> Reader:
    if isinstance(node.value_type, inspect.AnyType):
        return exact(dict)
    value_reader = _reader(node.value_type)

    def read(value: JsonValue, path: Path, mended: list[Defaulted]) -> dict[str, Any]:
        return {key: value_reader(item, (path, key), mended) for key, item in json_object(value, path).items()}

    return read


class _Slot(NamedTuple):
    name: str
    wire: str
    reader: Reader
    required: bool
    mark: str
    empty: type
    """What a required list or map reads as when its value is forgiven."""


@cache
def _struct(cls: type[Struct]) -> Reader:
    config = cls.__struct_config__
    discriminator: str | None = getattr(cls, "__discriminator__", None)

    def read(value: JsonValue, path: Path, mended: list[Defaulted]) -> Any:
        fields = json_object(value, path)
        if discriminator is not None and _is_unknown(cls, discriminator, fields):
            return Other(fields[discriminator], fields)
        if config.tag_field in fields and fields[config.tag_field] != config.tag:
            raise Rejected((path, config.tag_field), f"expected {config.tag!r}")
        found = _fields(cls, fields, path, mended)
        try:
            return cls(**found)
        except ValueError as error:
            raise Rejected(path, str(error)) from None

    return read


@cache
def _slots(cls: type[Struct]) -> list[_Slot]:
    """Built on first use, not with the reader: classes may refer to each other in a circle."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    marks = getattr(cls, "__marks__", {})
    slots: list[_Slot] = []
    for field in info.fields:
        wire = field.encode_name
        mark = "E" if wire == "_meta" else marks.get(wire, "")
        empty = dict if isinstance(field.type, inspect.DictType) else list
        slots.append(_Slot(field.name, wire, _reader(field.type, skip="S" in mark), field.required, mark, empty))
    return slots


def _fields(cls: type[Struct], fields: JsonObject, path: Path, mended: list[Defaulted]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for slot in _slots(cls):
        name = slot.wire
        if name not in fields:
            if not slot.required:
                continue
            name = FORMER_NAMES.get((cls.__name__, name), name)
            if name not in fields:
                raise Rejected((path, slot.wire), "missing")
            mended.append(Defaulted(path_text((path, name)), f"read as {slot.wire}"))
        value = fields[name]
        if value is None and "N" in slot.mark:
            found[slot.name] = slot.empty()
            continue
        before = len(mended)
        try:
            found[slot.name] = slot.reader(value, (path, name), mended)
        except Rejected as refused:
            if "E" not in slot.mark:
                raise
            mended[before:] = [Defaulted(path_text(refused.path), f"{refused.problem}; read as absent")]
            if slot.required:
                found[slot.name] = slot.empty()
    return found


def _is_unknown(cls: type[Struct], discriminator: str, fields: JsonObject) -> bool:
    """Is this a member of a merged union that nobody here knows?"""
    value = fields.get(discriminator)
    if not isinstance(value, str):
        return False
    [reader] = [slot.reader for slot in _slots(cls) if slot.wire == discriminator]
    try:
        reader(value, None, [])
    except Rejected:
        return True
    return False


# --- unions


def _union(node: inspect.UnionType, skip: bool, other: type[Model] | None) -> Reader:
    members = [member for member in node.types if not isinstance(member, inspect.NoneType)]
    structs = [member.cls for member in members if isinstance(member, inspect.StructType)]
    if len(structs) > 1:
        reader = _tagged(structs, other)
    elif len(members) == 1:
        reader = _reader(members[0], skip=skip, other=other)
    else:
        reader = _by_json_type(members)
    if node.includes_none:
        return lambda value, path, mended: None if value is None else reader(value, path, mended)
    return reader


def _by_json_type(members: list[inspect.Type]) -> Reader:
    kinds: dict[type, type] = {
        inspect.StrType: str,
        inspect.IntType: int,
        inspect.FloatType: float,
        inspect.BoolType: bool,
    }
    readers: dict[type, Reader] = {}
    for member in members:
        inner = member.type if isinstance(member, inspect.Metadata) else member
        readers[kinds.get(type(inner), list)] = _reader(member)
    if len(readers) < len(members):
        raise UnknownType(members)
    expected = "number" if set(readers) == {int, float} else " or ".join(JSON_NAMES[kind] for kind in readers)

    def read(value: JsonValue, path: Path, mended: list[Defaulted]) -> Any:
        reader = readers.get(type(cast("object", value)))
        if reader is None:
            raise Rejected(path, mismatch(expected, value))
        return reader(value, path, mended)

    return read


def _tagged(members: list[type[Struct]], other: type[Model] | None) -> Reader:
    tag_field = members[0].__struct_config__.tag_field
    assert tag_field is not None
    return _by_tag(tag_field, members, other=other)


def _by_tag(
    tag_field: str,
    members: list[type[Struct]],
    *,
    absent: type[Model] | None = None,
    unknown: type[Model] | None = None,
    sign: str | None = None,
    other: type[Model] | None = None,
) -> Reader:
    readers = {cls.__struct_config__.tag: _struct(cls) for cls in members}

    def read(value: JsonValue, path: Path, mended: list[Defaulted]) -> Any:
        fields = json_object(value, path)
        tag = fields.get(tag_field)
        if isinstance(tag, str) and tag in readers:
            found = readers[tag](fields, path, mended)
            return Other(tag, fields) if type(found) is Other else found
        if tag is None and absent is not None:
            return _struct(absent)(fields, path, mended)
        if unknown is not None and (sign is None or sign in fields):
            return _struct(unknown)(fields, path, mended)
        if tag_field not in fields:
            raise Rejected((path, tag_field), "missing")
        if not isinstance(tag, str):
            raise Rejected((path, tag_field), mismatch("str", tag))
        if other is not None:
            _struct(other)(fields, path, [])
        return Other(tag, fields)

    return read


def _choice(cls: type[WireUnion]) -> Reader:
    if issubclass(cls, TaggedUnion):
        return _by_tag(cls.tag, list(cls.known), absent=cls.absent, unknown=cls.unknown, sign=cls.sign, other=cls.other)
    if issubclass(cls, OpenUnion):
        return _open(cls)
    if issubclass(cls, KeyedListUnion):
        lists = {key: _list(_struct(member), cls.min_length, skip=False) for key, member in cls.by_key.items()}
        return _by_key(lists, of_first_item=True)
    assert issubclass(cls, KeyedUnion)
    return _by_key({key: _struct(member) for key, member in cls.by_key.items()})


def _open(cls: type[OpenUnion]) -> Reader:
    check = _struct(cls.shape)

    def read(value: JsonValue, path: Path, mended: list[Defaulted]) -> JsonObject:
        check(value, path, mended)
        return json_object(value, path)

    return read


def _by_key(readers: dict[str, Reader], *, of_first_item: bool = False) -> Reader:
    """The first member whose key is there; with no key at all the first member gets to complain."""
    fallback = next(iter(readers.values()))

    def read(value: JsonValue, path: Path, mended: list[Defaulted]) -> Any:
        telling = value
        if of_first_item:
            telling = next(iter(array(value, path)), None)
        keys = telling if is_object(telling) else {}
        reader = next((reader for key, reader in readers.items() if key in keys), fallback)
        return reader(value, path, mended)

    return read
