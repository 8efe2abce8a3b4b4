"""The expected result of decoding a message, derived from the schema rather than from our classes.

`Oracle.read` returns the normal form: unknown fields, meaningless nulls and defaults are dropped, and what the schema
marks is tolerated. For anything else it raises `Bad` with the path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duologue.schema.lenient_errors import is_object
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


class Bad(Exception):
    """Not to be forgiven; the message is the path."""


@dataclass
class Oracle:
    """Reads one schema."""

    schema: Schema

    def definition(self, name: str, value: Any) -> Any:
        """Return the normal form of a definition; a class that belongs to a tagged union always writes its tag."""
        shape = self.schema.shapes[self.schema.roots[name]]
        return self._structure(shape, value, "$") if isinstance(shape, Structure) else self.shape(name, value, "$")

    def shape(self, name: str, value: Any, path: str) -> Any:
        match self.schema.shapes[self.schema.roots.get(name, name)]:
            case Alias(type=type_):
                return self.read(type_, value, path)
            case Enumeration():
                return self.read(Text(), value, path)
            case Structure() as structure:
                return self._structure(structure, value, path)
            case TaggedUnion() as union:
                return self._tagged(union, value, path)
            case HalfTagged() as union:
                return self._half_tagged(union, value, path)
            case Untagged() as union:
                return self._untagged(union, value, path)
            case Merged(structure=name):
                return self._structure(self._named(name), value, path)
            case OpenObject(structure=name):
                self._structure(self._named(name), value, path)
                return value

    def read(self, type_: Type, value: Any, path: str, *, skip: bool = False) -> Any:
        match type_:
            case Named(name):
                return self.shape(name, value, path)
            case ListOf(item, low):
                return self._list(item, low, value, path, skip)
            case MapOf(inner):
                _demand(type(value) is dict, path)
                return {key: self.read(inner, item, path + _step(key)) for key, item in value.items()}
            case Either(types):
                return self._either(types, value, path)
            case _:
                _demand(_fits(type_, value), path)
                return value

    def _either(self, types: tuple[Type, ...], value: Any, path: str) -> Any:
        for type_ in types:
            try:
                return self.read(type_, value, path)
            except Bad as bad:
                if isinstance(type_, ListOf) and type(value) is list:
                    raise bad
        raise Bad(path)

    def _list(self, item: Type, low: int, value: Any, path: str, skip: bool) -> list[Any]:
        _demand(type(value) is list, path)
        found: list[Any] = []
        for index, entry in enumerate(value):
            try:
                found.append(self.read(item, entry, f"{path}[{index}]"))
            except Bad:
                if not skip:
                    raise
        _demand(len(found) >= low, path)
        return found

    # --- objects

    def _structure(self, structure: Structure, value: Any, path: str) -> Any:
        _demand(type(value) is dict, path)
        found: dict[str, Any] = {}
        if structure.discriminator and self._is_unknown(structure, value):
            return value
        if structure.tag:
            tag, constant = structure.tag
            _demand(value.get(tag, constant) == constant, f"{path}.{tag}")
            found[tag] = constant
        for field in structure.fields:
            if field.wire in value:
                self._field(field, value[field.wire], f"{path}.{field.wire}", found)
            else:
                _demand(not field.required, f"{path}.{field.wire}")
        if structure.scope:
            scopes = [value.get("sessionId") is not None, self._names_request(value)]
            _demand(sum(scopes) == 1 if structure.scope == "one" else any(scopes), path)
        return found

    def _field(self, field: Field, value: Any, path: str, found: dict[str, Any]) -> None:
        empty: Any = {} if isinstance(field.type, MapOf) else []
        if value is None and "N" in field.mark:
            value = empty
        elif value is None and (field.nullable or (isinstance(field.type, Anything) and not field.required)):
            if field.patch:
                found[field.wire] = None
            return
        try:
            normal = self.read(field.type, value, path, skip="S" in field.mark)
        except Bad:
            if "E" not in field.mark:
                raise
            if not field.required:
                return
            normal = empty
        if field.required or not self._is_default(field, normal):
            found[field.wire] = normal

    def _is_default(self, field: Field, normal: Any) -> bool:
        if field.nullable or field.patch:
            return False
        if isinstance(field.type, ListOf | MapOf):
            return not normal
        if isinstance(field.default, dict):
            return bool(normal == {})
        return field.default is not None and bool(normal == field.default)

    def _is_unknown(self, structure: Structure, value: dict[str, Any]) -> bool:
        [kind] = [field.type for field in structure.fields if field.wire == structure.discriminator]
        given = value.get(structure.discriminator or "")
        return isinstance(given, str) and isinstance(kind, Exactly) and given not in kind.values

    def _names_request(self, value: dict[str, Any]) -> bool:
        """Return True if a request is named; in v1 null is a request id, so its presence counts."""
        return "requestId" in value and (self.schema.version == "v1" or value["requestId"] is not None)

    # --- unions

    def _tagged(self, union: TaggedUnion, value: Any, path: str) -> Any:
        _demand(type(value) is dict, path)
        tag = value.get(union.tag)
        _demand(isinstance(tag, str), f"{path}.{union.tag}")
        if tag in union.members:
            return self._member(union.tag, union.members[tag], value, path)
        if union.other:
            self._structure(self._named(union.other), value, path)
        return value

    def _member(self, tag: str, name: str, value: dict[str, Any], path: str) -> Any:
        found = self._structure(self._named(name), value, path)
        return value if found is value else {tag: value[tag], **found}

    def _half_tagged(self, union: HalfTagged, value: Any, path: str) -> Any:
        _demand(type(value) is dict, path)
        tag = value.get(union.tag)
        if isinstance(tag, str) and tag in union.members:
            return self._member(union.tag, union.members[tag], value, path)
        if tag is None:
            return self._structure(self._named(union.absent), value, path)
        if union.unknown and (union.required_field is None or union.required_field in value):
            return self._structure(self._named(union.unknown), value, path)
        _demand(isinstance(tag, str), f"{path}.{union.tag}")
        return value

    def _untagged(self, union: Untagged, value: Any, path: str) -> Any:
        if union.lists:
            _demand(type(value) is list, path)
            name = self._by_key(union, value[0] if value else None)
            return self._list(Named(name), union.min_items, value, path, skip=False)
        _demand(type(value) is dict, path)
        return self._structure(self._named(self._by_key(union, value)), value, path)

    def _by_key(self, union: Untagged, value: Any) -> str:
        keys = value if is_object(value) else {}
        return next((name for key, name in union.members.items() if key in keys), next(iter(union.members.values())))

    def _named(self, name: str) -> Structure:
        shape = self.schema.shapes[name]
        assert isinstance(shape, Structure)
        return shape


def _step(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{key!r}]"


def _demand(is_met: bool, path: str) -> None:
    if not is_met:
        raise Bad(path)


def _fits(type_: Type, value: Any) -> bool:
    match type_:
        case Text(low):
            return isinstance(value, str) and len(value) >= low
        case Integer(low, high):
            return type(value) is int and low <= value <= high
        case Number(low, high):
            in_range = type(value) in (int, float) and (low is None or low <= value) and (high is None or value <= high)
            return bool(in_range)
        case Boolean():
            return isinstance(value, bool)
        case Null():
            return value is None
        case AnyObject():
            return isinstance(value, dict)
        case Exactly(values):
            return value in values
        case _:
            return True
