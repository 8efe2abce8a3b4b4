"""Find the members of a message that the schema of the protocol does not know.

They are not wrong: readers ignore them, and a later version may define them. `_meta` and methods that begin with `_`
are free for extensions, and nothing in them is unknown.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct, inspect

from duologue.schema import v1, v2
from duologue.schema.base import JsonObject
from duologue.schema.lenient_errors import Path, is_array, is_object, path_text
from duologue.schema.unions import KeyedListUnion, OpenUnion, TaggedUnion, WireUnion
from duologue.trace.frames import TracedFrame

MAX_FOUND = 20
"""Unknown members of one frame that are named."""

_ENVELOPE = {"jsonrpc", "id", "method", "params", "result", "error"}
_PARTS = {"request": "params", "notification": "params", "response": "result", "error": "error"}


NameKind: TypeAlias = Literal["field", "method", "value"]
_Found: TypeAlias = tuple[Path, NameKind]


class _Shape(NamedTuple):
    """Type of a value: objects of these classes or of a union, a list of items, a map of values."""

    structs: tuple[type[Struct], ...] = ()
    union: type[WireUnion] | None = None
    item: _Shape | None = None
    values: _Shape | None = None


class UnknownName(NamedTuple):
    """A name that the schema does not know: of a field, of a method, or the value that says what an object is."""

    path: str
    kind: NameKind


def unknown_fields(frame: TracedFrame) -> list[str]:
    """Return the JSON paths of members, methods and kinds of updates that the schema does not know, at most 20."""
    return [unknown.path for unknown in unknown_names(frame)]


def unknown_names(frame: TracedFrame) -> list[UnknownName]:
    """Return the members, methods and kinds of objects that the schema does not know, at most 20."""
    if frame.kind not in _PARTS or not isinstance(frame.entry.frame, Raw):
        return []
    found: list[_Found] = []
    try:
        message: JsonObject = msgspec.json.decode(frame.entry.frame, type=dict[str, Any])
        found.extend(((None, name), "field") for name in message if name not in _ENVELOPE)
        if frame.model is v1.InitializeRequest:
            of_both = [_unknown_in(model, message, "params") for model in (v1.InitializeRequest, v2.InitializeRequest)]
            found += [each for each in of_both[0] if each in of_both[1]]  # it may offer both versions
        elif frame.model is not None:
            found += _unknown_in(frame.model, message, _PARTS[frame.kind])
        elif "method" in message and not frame.method.startswith("_"):
            found.append(((None, "method"), "method"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    return [UnknownName(path_text(path), kind) for path, kind in found[:MAX_FOUND]]


def _unknown_in(model: Any, message: JsonObject, part: str) -> list[_Found]:
    found: list[_Found] = []
    _check(_shape_of(model), message.get(part), (None, part), found)
    return found


def _check(shape: _Shape, value: Any, path: Path, found: list[_Found]) -> None:
    if is_array(value):
        item = shape.item
        if shape.union is not None and issubclass(shape.union, KeyedListUnion):
            item = _Shape((shape.union.member_of(value),)) if shape.union.member_of(value) else None
        for index, each in enumerate(value) if item is not None else ():
            if len(found) < MAX_FOUND:
                _check(item or _Shape(), each, (path, index), found)
    elif is_object(value) and shape.values is not None:
        for name, each in value.items():
            _check(shape.values, each, (path, name), found)
    elif is_object(value):
        _check_object(shape, value, path, found)


def _check_object(shape: _Shape, value: JsonObject, path: Path, found: list[_Found]) -> None:
    struct = _struct_of(shape, value)
    if isinstance(struct, str):
        if not str(value[struct]).startswith("_"):
            found.append(((path, struct), "value"))
    elif struct is not None:
        members = _members(struct)
        for name, each in value.items():
            if name not in members:
                found.append(((path, name), "field"))
            elif (member := members[name]) is not None:
                _check(member, each, (path, name), found)


def _struct_of(shape: _Shape, value: JsonObject) -> type[Struct] | str | None:
    """Return the class of an object; the name of its tag if that has an unknown value; None if all is allowed."""
    if shape.union is not None:
        if issubclass(shape.union, OpenUnion):
            return None
        member: type[Struct] | None = shape.union.member_of(value)
        if member is not None or not issubclass(shape.union, TaggedUnion):
            return member
        return shape.union.tag if isinstance(value.get(shape.union.tag), str) else None
    if len(shape.structs) < 2:
        return next(iter(shape.structs), None)
    tag = shape.structs[0].__struct_config__.tag_field or ""
    known = {struct.__struct_config__.tag: struct for struct in shape.structs}
    return known.get(value[tag], tag) if isinstance(value.get(tag), str) else None


@cache
def _members(struct: type[Struct]) -> dict[str, _Shape | None]:
    """Return the members of a class by their names on the wire; None for one that contains no objects to check."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    tag = struct.__struct_config__.tag_field
    members: dict[str, _Shape | None] = {} if tag is None else {tag: None}
    for field in info.fields:
        shape = _shape(field.type)
        members[field.encode_name] = None if shape == _Shape() else shape
    return members | {"_meta": None}


@cache
def _shape_of(type_: Any) -> _Shape:
    return _shape(inspect.type_info(type_))


def _shape(node: inspect.Type) -> _Shape:
    match node:
        case inspect.Metadata():
            return _shape(node.type)
        case inspect.UnionType():
            shapes = [_shape(each) for each in node.types]
            return _Shape(
                tuple(struct for shape in shapes for struct in shape.structs),
                next((shape.union for shape in shapes if shape.union is not None), None),
                next((shape.item for shape in shapes if shape.item is not None), None),
                next((shape.values for shape in shapes if shape.values is not None), None),
            )
        case inspect.StructType(cls=cls):
            return _Shape((cls,))
        case inspect.CustomType(cls=cls) if issubclass(cls, WireUnion):
            return _Shape(union=cls)
        case inspect.ListType():
            item = _shape(node.item_type)
            return _Shape() if item == _Shape() else _Shape(item=item)
        case inspect.DictType():
            values = _shape(node.value_type)
            return _Shape() if values == _Shape() else _Shape(values=values)
        case _:
            return _Shape()
