"""Parser of the official JSON schemas: makes the shapes that the renderer turns into Python.

The official schemas use a small part of JSON Schema in a regular way: objects, string enumerations, and unions of
objects written as `anyOf` or `oneOf` with one constant property per member. Anything else is an error, not a guess: a
new construct of the schema needs a decision by a maintainer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from scripts.schema import facts
from scripts.schema.shapes import (
    Alias,
    Anything,
    Either,
    Enumeration,
    Exactly,
    Field,
    HalfTagged,
    Merged,
    Named,
    OpenObject,
    Schema,
    Scope,
    Structure,
    TaggedUnion,
    Untagged,
)
from scripts.schema.types import admits_null, calls, fields_of, is_reference, reference, type_of

Json: TypeAlias = dict[str, Any]

ENVELOPE = re.compile(r"(Agent|Client|Proxy)(Request|Response|Notification)")


class SchemaParser:
    """Parser of one schema file."""

    def __init__(self, version: str, document: Json) -> None:
        self.definitions: dict[str, Json] = document["$defs"]
        self.schema = Schema(version)
        self.patches = facts.PATCHES[version]
        self.tagged: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        """Definition -> (union, tag, value) of each tagged membership in a union without fields of its own."""
        self.alone: set[str] = set()
        """Definitions referred to outside of unions."""

    def parse(self) -> Schema:
        """Return all shapes and methods of the file."""
        self.schema.envelopes = [name for name in self.definitions if ENVELOPE.fullmatch(name)]
        ours = {name: body for name, body in self.definitions.items() if not ENVELOPE.fullmatch(name)}
        for name, body in ours.items():
            self._note_uses(name, body)
        for name, body in ours.items():
            if _is_union_of_objects(name, body):
                self._union(name, body)
        for name, body in ours.items():
            if name not in self.schema.roots and name not in self.schema.absorbed:
                self._plain(name, body)
        self.schema.calls = calls(self.definitions)
        return self.schema

    # --- uses of definitions

    def _note_uses(self, name: str, body: Json) -> None:
        union = _is_union_of_objects(name, body)
        for member in _members(body):
            if (tag := _constant(member)) is not None and "allOf" in member and union and not body.get("properties"):
                self.tagged[reference(member)].append((name, *tag))
            elif is_reference(member) and not union:
                self.alone.add(reference(member))
        for node in _walk(body.get("properties", {})):
            if "$ref" in node:
                self.alone.add(reference(node))
        for member in _members(body):
            for node in _walk(member.get("items", {})):
                if "$ref" in node:
                    self.alone.add(reference(node))

    # --- definitions that are not unions of objects

    def _plain(self, name: str, body: Json) -> None:
        match body:
            case {"type": "object", "additionalProperties": True, "properties": _}:
                shape = Structure(f"{name}Shape", name, self._fields(name, body))
                self._add(shape.name, shape)
                self._root(name, OpenObject(name, shape.name))
            case {"type": "object"}:
                self._structure(name, self._fields(name, body))
            case {"anyOf": members} | {"oneOf": members}:
                self._root(name, self._values(name, members, closed="oneOf" in body))
            case {"allOf": _}:
                self._root(name, Alias(name, Named(reference(body))))
            case _:
                self._root(name, Alias(name, type_of(body)))

    def _values(self, name: str, members: list[Json], *, closed: bool) -> Alias | Enumeration | Untagged:
        """Add a union of scalars, of constants, or of arrays."""
        constants = tuple(member["const"] for member in members if "const" in member)
        if constants and isinstance(constants[0], str):
            if len(members) == 1:
                return Alias(name, Exactly(constants))
            return Enumeration(name, constants, open=not closed)
        if constants:
            return Alias(name, type_of(members[-1]))
        if all(member.get("type") == "array" for member in members):
            items = [reference(member["items"]) for member in members]
            keys = self._distinctive_fields(items)
            return Untagged(name, dict(zip(keys, items, strict=True)), True, members[0].get("minItems", 0))
        if any(type_of(member) == Anything() for member in members if not is_reference(member)):
            for member in members:
                if is_reference(member):
                    self.alone.add(reference(member))
            return Alias(name, Anything())
        if len(members) == 1:
            return Alias(name, type_of(members[0]))
        return Alias(name, Either(tuple(type_of(member) for member in members)))

    def _structure(self, name: str, fields: tuple[Field, ...]) -> None:
        """Add the class or classes of a definition, depending on where it is used."""
        uses = self.tagged[name]
        if not uses:
            self._root(name, Structure(name, name, fields))
        elif len(uses) > 1:
            self._root(name, Structure(name, name, fields))
            for union, tag, value in uses:
                member = facts.MEMBERS[union, value]
                self._add(member, Structure(member, name, fields, (tag, value), parent=name))
        else:
            [(_, tag, value)] = uses
            if name in self.alone:
                alone = facts.UNTAGGED_NAMES[name]
                self._add(alone, Structure(alone, name, fields))
                self.schema.roots[name] = alone
                self._add(name, Structure(name, name, fields, (tag, value)))
            else:
                self._root(name, Structure(name, name, fields, (tag, value)))

    # --- unions of objects

    def _union(self, name: str, body: Json) -> None:
        if name in facts.MERGED:
            self._merged(name, body)
            return
        members = _members(body)
        tagged = [(constant, member) for member in members if (constant := _constant(member))]
        untagged = [member for member in members if not _constant(member) and not _is_other(member)]
        other = next((member for member in members if _is_other(member)), None)
        names = {value: self._member(name, body, member, (tag, value)) for (tag, value), member in tagged}
        if not tagged:
            alone = [self._member(name, body, member, None) for member in untagged]
            keys = self._distinctive_fields(alone)
            self._root(name, Untagged(name, dict(zip(keys, alone, strict=True))))
            return
        tag_field = tagged[0][0][0]
        if untagged:
            [absent] = [self._member(name, body, member, None) for member in untagged]
            unknown, required_field = facts.UNKNOWN_TAGS.get(name, (None, None))
            self._root(
                name, HalfTagged(name, tag_field, names, absent, unknown, required_field, open=other is not None)
            )
        else:
            check = self._other(name, body, other or {}, tag_field)
            self._root(name, TaggedUnion(name, tag_field, names, check, open=other is not None))

    def _member(self, union: str, body: Json, member: Json, tag: tuple[str, str] | None) -> str:
        """Return the class of one member; add it if the union adds fields to it or it has no definition."""
        own = bool(body.get("properties"))
        definition = reference(member) if "allOf" in member else None
        if definition and not own:
            return facts.MEMBERS.get((union, tag[1]), definition) if tag else definition
        title = tag[1] if tag else member["title"]
        name = facts.MEMBERS.get((union, title)) or definition
        if name is None:
            raise ValueError(f"{union}: no name for the member {title!r}")
        fields = self._fields(union, body)
        scope: Scope = ""
        if definition:
            fields, scope = self._joined(fields, definition)
            self.schema.absorbed[definition] = union
        fields = _ordered((*fields, *(f for f in self._fields(name, member) if not tag or f.wire != tag[0])))
        self._add(name, Structure(name, definition or union, fields, tag, scope=scope))
        return name

    def _joined(self, fields: tuple[Field, ...], definition: str) -> tuple[tuple[Field, ...], Scope]:
        """Return the fields of a union and of a member's definition; a choice of scopes becomes optional fields."""
        body = self.definitions[definition]
        joined = (*fields, *self._fields(definition, body))
        if not _members(body):
            return joined, ""
        return (*joined, *self._scopes(definition, body)), "one" if "oneOf" in body else "any"

    def _scopes(self, definition: str, body: Json) -> tuple[Field, ...]:
        found: list[Field] = []
        for member in _members(body):
            scope = reference(member)
            self.schema.absorbed[scope] = definition
            for field in self._fields(scope, self.definitions[scope]):
                nullable = admits_null(field.type, self.definitions)
                found.append(Field(field.wire, field.type, False, not nullable, field.mark, patch=nullable))
        return tuple(found)

    def _other(self, name: str, body: Json, other: Json, tag: str) -> str | None:
        """Return the structure that an unknown member must match, if there is one."""
        fields = (*self._fields(name, body), *(f for f in self._fields(name, other) if f.wire != tag))
        scope: Scope = ""
        if _members(other):
            fields = (*fields, *self._scopes(name, other))
            scope = "one" if "oneOf" in other else "any"
        if not scope and not any(field.required for field in fields):
            return None
        check = f"Other{name}"
        self._add(check, Structure(check, name, _ordered(fields), scope=scope))
        return check

    def _merged(self, name: str, body: Json) -> None:
        """Add one structure for a union: the tag becomes a field, the fields of all members become optional."""
        structure = facts.MERGED[name]
        values: list[str] = []
        found: dict[str, Field] = {}
        tag = ""
        for member in _members(body):
            if (constant := _constant(member)) is None:
                continue
            tag, value = constant
            values.append(value)
            definition = reference(member)
            self.schema.absorbed[definition] = name
            for field in self._absorbed(name, definition):
                if field.required:
                    raise ValueError(f"{definition}.{field.wire} is required: {name} can not be merged")
                found.setdefault(field.wire, field)
        fields = _ordered((Field(tag, Exactly(tuple(values)), True, False), *found.values()))
        self._add(structure, Structure(structure, name, fields, discriminator=tag))
        self._root(name, Merged(name, structure))
        for union, outer, value in self.tagged[name]:
            member_name = facts.MEMBERS[union, value]
            self._add(
                member_name,
                Structure(member_name, name, fields, (outer, value), parent=structure, discriminator=tag),
            )

    def _absorbed(self, union: str, definition: str) -> Iterator[Field]:
        """Return the fields of a member and, if that is a union itself, those of its members."""
        body = self.definitions[definition]
        constants = [constant for member in _members(body) if (constant := _constant(member))]
        for field in self._fields(definition, body):
            if constants and field.wire == constants[0][0]:
                enumeration = Enumeration("IdleStopReason", tuple(value for _, value in constants), open=True)
                self._add(enumeration.name, enumeration)
                field = Field(field.wire, Named(enumeration.name), False, True, field.mark)
            yield field
        for member in _members(body):
            if "allOf" in member:
                self.schema.absorbed[reference(member)] = union
                yield from self._fields(reference(member), self.definitions[reference(member)])

    # --- helpers

    def _fields(self, name: str, body: Json) -> tuple[Field, ...]:
        patches = self.patches.get(name, set[str]())
        return fields_of(body, {w for w in body.get("properties", {}) if w in patches or facts.ALL in patches})

    def _distinctive_fields(self, names: list[str]) -> list[str]:
        """Return, for each of these objects, the first required field that no other has."""
        required = [[f.wire for f in self._fields_of_shape(name) if f.required] for name in names]
        return [
            next(w for w in own if not any(w in others for others in required if others is not own)) for own in required
        ]

    def _fields_of_shape(self, name: str) -> tuple[Field, ...]:
        shape = self.schema.shapes.get(name)
        return shape.fields if isinstance(shape, Structure) else self._fields(name, self.definitions[name])

    def _root(self, name: str, shape: Any) -> None:
        self.schema.roots[name] = name
        self._add(name, shape)

    def _add(self, name: str, shape: Any) -> None:
        if self.schema.shapes.setdefault(name, shape) != shape:
            raise ValueError(f"two different shapes called {name}")


def _is_union_of_objects(name: str, body: Json) -> bool:
    members = _members(body)
    return (
        bool(members)
        and (len(members) > 1 or name in facts.MERGED)
        and any(
            _constant(member) is not None or member.get("type") == "object" or is_reference(member)
            for member in members
        )
        and all(member.get("type") == "object" or is_reference(member) for member in members)
        and not _is_member_definition(body)
    )


def _is_member_definition(body: Json) -> bool:
    """Return True for an object whose members only add fields to it (a scope, a stop reason)."""
    members = _members(body)
    own = body.get("properties", {})
    return bool(own) and (
        all(is_reference(member) for member in members)
        or any((constant := _constant(member)) and constant[0] in own for member in members)
    )


def _members(body: Json) -> list[Json]:
    members: list[Json] = body.get("anyOf") or body.get("oneOf") or []
    return members


def _constant(member: Json) -> tuple[str, str] | None:
    for name, body in member.get("properties", {}).items():
        if "const" in body:
            return name, body["const"]
    return None


def _is_other(member: Json) -> bool:
    return "not" in member


def _ordered(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Sort fields: required first, `_meta` last, which is also the order in which they are encoded."""
    return tuple(sorted(fields, key=lambda f: (f.wire == "_meta", not f.required)))


def _walk(node: Any) -> Iterator[Json]:
    if isinstance(node, dict):
        yield cast("Json", node)
        for value in cast("Json", node).values():
            yield from _walk(value)
    elif isinstance(node, list):
        for value in cast("list[Json]", node):
            yield from _walk(value)
