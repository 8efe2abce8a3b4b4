"""Lenient decoding of messages that the strict decoder rejected.

It reads parsed JSON by the same annotations, and tolerates exactly what the schema marks (`Model.__marks__`): `E` an
invalid value is read as absent, `S` invalid items of a list are dropped, `N` null is read as empty. An unknown union
member becomes an `Other`, and former names are accepted (`FORMER_NAMES`). Everything else is rejected with its path,
`$.prompt[0].text: expected str, got int`. Readers are built once per type, on first use, from `msgspec.inspect`.
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

# Bounds that annotations of the schema never have; a reader that ignored them would tolerate too much.
_FOREIGN_BOUNDS = ("gt", "lt", "multiple_of", "max_length", "pattern", "tz")

FORMER_NAMES = {("CurrentModeUpdate", "currentModeId"): "modeId"}
"""Required members that had another name in the documentation of 2025, by class and present name."""


class UnknownType(TypeError):
    """A type that the schema never uses, in a user's own class."""


@cache
def reader_for(type_: Any) -> Reader:
    """Return a reader for any type that a generated class may use.

    Raises:
        UnknownType: The schema never uses the type, or one inside it. A nested one may be found only while reading.
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
            return _wire_union(cls)
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
            return lambda value, path, defaulted: value
        case _:
            raise UnknownType(node)


# --- containers


def _list(item_reader: Reader, low: int, skip: bool) -> Reader:
    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> list[Any]:
        items: list[Any] = []
        for index, item in enumerate(array(value, path)):
            before = len(defaulted)
            try:
                items.append(item_reader(item, (path, index), defaulted))
            except Rejected as rejected:
                if not skip:
                    raise
                defaulted[before:] = [Defaulted(path_text(rejected.path), f"{rejected.problem}; item dropped")]
        if len(items) < low:
            raise Rejected(path, f"needs at least {low} item")
        return items

    return read


def _dict(node: inspect.DictType) -> Reader:
    if isinstance(node.value_type, inspect.AnyType):
        return exact(dict)
    value_reader = _reader(node.value_type)

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> dict[str, Any]:
        return {key: value_reader(item, (path, key), defaulted) for key, item in json_object(value, path).items()}

    return read


class _Slot(NamedTuple):
    name: str
    wire: str
    reader: Reader
    required: bool
    mark: str
    empty: type
    """The value of a required list or map whose invalid value is tolerated."""


@cache
def _struct(cls: type[Struct]) -> Reader:
    config = cls.__struct_config__
    discriminator: str | None = getattr(cls, "__discriminator__", None)

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> Any:
        fields = json_object(value, path)
        if discriminator is not None and _is_unknown(cls, discriminator, fields):
            return Other(fields[discriminator], fields)
        if config.tag_field in fields and fields[config.tag_field] != config.tag:
            raise Rejected((path, config.tag_field), f"expected {config.tag!r}")
        found = _fields(cls, fields, path, defaulted)
        try:
            return cls(**found)
        except ValueError as error:
            raise Rejected(path, str(error)) from None

    return read


@cache
def _slots(cls: type[Struct]) -> list[_Slot]:
    """Return the fields of a class; built on first use, because classes may refer to each other."""
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


def _fields(cls: type[Struct], fields: JsonObject, path: Path, defaulted: list[Defaulted]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for slot in _slots(cls):
        name = slot.wire
        if name not in fields:
            if not slot.required:
                continue
            name = FORMER_NAMES.get((cls.__name__, name), name)
            if name not in fields:
                raise Rejected((path, slot.wire), "missing")
            defaulted.append(Defaulted(path_text((path, name)), f"read as {slot.wire}"))
        value = fields[name]
        if value is None and "N" in slot.mark:
            found[slot.name] = slot.empty()
            continue
        before = len(defaulted)
        try:
            found[slot.name] = slot.reader(value, (path, name), defaulted)
        except Rejected as rejected:
            if "E" not in slot.mark:
                raise
            defaulted[before:] = [Defaulted(path_text(rejected.path), f"{rejected.problem}; read as absent")]
            if slot.required:
                found[slot.name] = slot.empty()
    return found


def _is_unknown(cls: type[Struct], discriminator: str, fields: JsonObject) -> bool:
    """Return True for an unknown member of a merged union."""
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
        return lambda value, path, defaulted: None if value is None else reader(value, path, defaulted)
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

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> Any:
        reader = readers.get(type(cast("object", value)))
        if reader is None:
            raise Rejected(path, mismatch(expected, value))
        return reader(value, path, defaulted)

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
    required_field: str | None = None,
    other: type[Model] | None = None,
) -> Reader:
    readers = {cls.__struct_config__.tag: _struct(cls) for cls in members}

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> Any:
        fields = json_object(value, path)
        tag = fields.get(tag_field)
        if isinstance(tag, str) and tag in readers:
            found = readers[tag](fields, path, defaulted)
            return Other(tag, fields) if type(found) is Other else found
        if tag is None and absent is not None:
            return _struct(absent)(fields, path, defaulted)
        if unknown is not None and (required_field is None or required_field in fields):
            return _struct(unknown)(fields, path, defaulted)
        if tag_field not in fields:
            raise Rejected((path, tag_field), "missing")
        if not isinstance(tag, str):
            raise Rejected((path, tag_field), mismatch("str", tag))
        if other is not None:
            _struct(other)(fields, path, [])
        return Other(tag, fields)

    return read


def _wire_union(cls: type[WireUnion]) -> Reader:
    if issubclass(cls, TaggedUnion):
        return _by_tag(
            cls.tag,
            list(cls.known),
            absent=cls.absent,
            unknown=cls.unknown,
            required_field=cls.required_field,
            other=cls.other,
        )
    if issubclass(cls, OpenUnion):
        return _open(cls)
    if issubclass(cls, KeyedListUnion):
        lists = {key: _list(_struct(member), cls.min_length, skip=False) for key, member in cls.by_key.items()}
        return _by_key(lists, of_first_item=True)
    assert issubclass(cls, KeyedUnion)
    return _by_key({key: _struct(member) for key, member in cls.by_key.items()})


def _open(cls: type[OpenUnion]) -> Reader:
    check = _struct(cls.shape)

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> JsonObject:
        check(value, path, defaulted)
        return json_object(value, path)

    return read


def _by_key(readers: dict[str, Reader], *, of_first_item: bool = False) -> Reader:
    """Return a reader that chooses the member by its key; without any key, the first member reports the error."""
    fallback = next(iter(readers.values()))

    def read(value: JsonValue, path: Path, defaulted: list[Defaulted]) -> Any:
        keyed = value
        if of_first_item:
            keyed = next(iter(array(value, path)), None)
        keys = keyed if is_object(keyed) else {}
        reader = next((reader for key, reader in readers.items() if key in keys), fallback)
        return reader(value, path, defaulted)

    return read
