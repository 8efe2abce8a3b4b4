"""Renderer of `models.py`: turns the shapes of one version into Python."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator

from scripts.schema.docstrings import Docstrings
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

INTEGERS = {
    (0, 2**16 - 1): "Uint16",
    (0, 2**32 - 1): "Uint32",
    (0, 2**64 - 1): "Uint64",
    (-(2**31), 2**31 - 1): "Int32",
    (-(2**63), 2**63 - 1): "Int64",
    (1, 2**16 - 1): "PositiveUint16",
    (1, 2**32 - 1): "PositiveUint32",
}

SCALARS: dict[Type, str] = {
    Number(): "Number",
    Number(0, 1): "Fraction",
    Boolean(): "bool",
    Null(): "None",
    Anything(): "JsonValue",
    AnyObject(): "JsonObject",
}


def python_name(wire: str) -> str:
    """Return the Python name of a field; `duologue.schema.base.wire_name` is the inverse."""
    name = "meta" if wire == "_meta" else re.sub(r"(?<!^)(?=[A-Z])", "_", wire).lower()
    return f"{name}_" if keyword.iskeyword(name) else name


SECRETS = {"EnvVariable", "HttpHeader"}
"""Classes whose values are usually keys and tokens."""


class ModelsRenderer:
    """Renderer of `models.py` of one version."""

    def __init__(self, schema: Schema, stable: Schema) -> None:
        self.schema = schema
        self.stable = stable
        self.shapes = list(schema.shapes.values())
        self.docstrings = Docstrings(schema, stable)

    def render(self) -> str:
        """Return the whole file."""
        structures = [shape for shape in self.shapes if isinstance(shape, Structure)]
        parts = [
            self._scalars(),
            *(self._structure(structure) for structure in _in_order_of_need(structures)),
            self._unions(),
        ]
        body = "\n\n".join(parts)
        return f"{self._head(body)}\n\n{body}"

    def _head(self, body: str) -> str:
        names = sorted(shape.name for shape in self.shapes)
        primitives = sorted(
            set(
                re.findall(
                    r"\b(?:Positive)?U?int\d\d\b|\bInt\d\d\b|\bNumber\b|\bFraction\b|\bcheck_\w+\b|\bsettle_defaults\b",
                    body,
                )
            )
        )
        choices = sorted(set(re.findall(r"\((TaggedUnion|KeyedUnion|KeyedListUnion|OpenUnion)\)", body)))
        lines = [
            f'"""The classes of protocol version {self.schema.version[1:]}, including unstable ones."""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias",
            "",
            "from msgspec import UNSET, Meta, UnsetType",
            "",
            "from duologue.schema.base import JsonObject, JsonValue, Marks, Model, Other, Secret",
            f"from duologue.schema.unions import {', '.join(choices)}",
            f"from duologue.schema.constraints import {', '.join(primitives)}",
            "",
            f"__all__ = [{', '.join(map(quoted, names))}]",
        ]
        return "\n".join(lines)

    # --- scalars and enumerations

    def _scalars(self) -> str:
        enumerations = [shape for shape in self.shapes if isinstance(shape, Enumeration)]
        lines = [
            f"{shape.name}: TypeAlias = {self._annotation(shape.type)}"
            for shape in self.shapes
            if isinstance(shape, Alias) and not isinstance(shape.type, Named)
        ]
        lines += ["", "if TYPE_CHECKING:"]
        for shape in enumerations:
            values = ", ".join(map(quoted, shape.values))
            lines.append(f"    {shape.name}: TypeAlias = Literal[{values}] | str")
        lines.append("else:")
        lines += [f"    {shape.name} = str" for shape in enumerations]
        return "\n".join(lines)

    # --- classes

    def _structure(self, structure: Structure) -> str:
        base = structure.parent or ("Secret" if structure.name in SECRETS else "Model")
        tag = f", tag_field={quoted(structure.tag[0])}, tag={quoted(structure.tag[1])}" if structure.tag else ""
        lines = [f"class {structure.name}({base}, frozen=True, kw_only=True{tag}):"]
        lines += textwrap.indent(self.docstrings.of(structure), "    ").split("\n")
        if structure.parent is None:
            lines += self._body(structure)
        return "\n".join(lines)

    def _body(self, structure: Structure) -> Iterator[str]:
        fields = structure.fields
        if structure.discriminator:
            yield ""
            yield f"    __discriminator__: ClassVar[str] = {quoted(structure.discriminator)}"
        marks = {field.wire: field.mark for field in fields if field.mark and field.wire != "_meta"}
        if marks:
            yield ""
            pairs = ", ".join(f"{quoted(wire)}: {quoted(mark)}" for wire, mark in marks.items())
            yield f"    __marks__: ClassVar[Marks] = {{{pairs}}}"
        if fields:
            yield ""
        stable = self._stable_fields(structure.name)
        for field in fields:
            name = python_name(field.wire)
            annotation = self._field(field)
            if re.search(rf"\b{name}\[", annotation):
                raise ValueError(f"{structure.name}.{name} hides the type it needs")
            note = "  # unstable" if stable is not None and field.wire not in stable else ""
            yield f"    {name}: {annotation}{note}"
        checks = list(_checks(structure))
        if checks:
            yield ""
            yield "    def __post_init__(self) -> None:"
            yield from (f"        {check}" for check in checks)

    def _stable_fields(self, name: str) -> set[str] | None:
        shape = self.stable.shapes.get(name)
        return {field.wire for field in shape.fields} if isinstance(shape, Structure) else None

    def _field(self, field: Field) -> str:
        annotation = self._annotation(field.type)
        if field.required:
            return annotation
        if isinstance(field.type, Anything):
            return f"{annotation} = {'UNSET' if field.patch else 'None'}"
        if field.patch:
            return f"{annotation} | {'None | ' if field.nullable else ''}UnsetType = UNSET"
        if field.nullable:
            return f"{annotation} | None = None"
        match field.type:
            case ListOf():
                return f"{annotation} = []"
            case MapOf():
                return f"{annotation} = {{}}"
            case Boolean() if field.default is False:
                return f"{annotation} = False"
            case Named(name) if isinstance(field.default, dict):
                return f"{annotation} = {name}()"
            case Named() if isinstance(field.default, str):
                return f"{annotation} = {quoted(field.default)}"
            case _ if field.default is None:
                return f"{annotation} | None = None"
            case _:
                raise ValueError(f"unknown default: {field}")

    def _annotation(self, type_: Type) -> str:
        match type_:
            case Named(name):
                return self.schema.roots.get(name, name)
            case ListOf(item, low):
                return _at_least(f"list[{self._annotation(item)}]", low)
            case MapOf(value):
                return f"dict[str, {self._annotation(value)}]"
            case Either(types):
                numbers = any(isinstance(member, Number) for member in types)
                members = [m for m in types if not (numbers and isinstance(m, Integer))]
                return " | ".join(self._annotation(member) for member in sorted(members, key=lambda m: m == Null()))
            case Exactly(values):
                return f"Literal[{', '.join(map(quoted, values))}]"
            case Text(low):
                return _at_least("str", low)
            case Integer(low, high):
                return INTEGERS[low, high]
            case _:
                return SCALARS[type_]

    # --- unions

    def _unions(self) -> str:
        checked: list[str] = []
        running: list[str] = []
        lines: list[str] = []
        for shape in self.shapes:
            match shape:
                case Alias(name, Named(target)):
                    lines.append(f"{name}: TypeAlias = {target}")
                case TaggedUnion() if len(shape.members) > 1:
                    members = " | ".join(shape.members.values())
                    checked.append(f"{shape.name}: TypeAlias = {members} | Other")
                    extra = f'Meta(extra={{"other": {shape.other}}})'
                    running.append(f"{shape.name} = " + (f"Annotated[{members}, {extra}]" if shape.other else members))
                case TaggedUnion() | HalfTagged():
                    checked.append(f"{shape.name}: TypeAlias = {' | '.join(_half_tagged_members(shape))}")
                    running += ["", *_by_tag(shape)]
                case Untagged(lists=True):
                    lists = " | ".join(f"list[{member}]" for member in shape.members.values())
                    checked.append(f"{shape.name}: TypeAlias = {lists}")
                    running += ["", *_by_key(shape)]
                case Untagged():
                    checked.append(f"{shape.name}: TypeAlias = {' | '.join(shape.members.values())}")
                    running += ["", *_by_key(shape)]
                case Merged():
                    checked.append(f"{shape.name}: TypeAlias = {shape.structure} | Other")
                    running.append(f"{shape.name} = {shape.structure}")
                case OpenObject():
                    checked.append(f"{shape.name}: TypeAlias = JsonObject")
                    running += ["", f"class {shape.name}(OpenUnion):", f"    shape = {shape.structure}"]
                case _:
                    pass
        lines += ["if TYPE_CHECKING:", *(f"    {line}" for line in checked), "else:"]
        lines += [f"    {line}".rstrip() for line in running]
        return "\n".join(lines) + "\n"


def _at_least(annotation: str, low: int) -> str:
    return f"Annotated[{annotation}, Meta(min_length={low})]" if low else annotation


def _half_tagged_members(shape: TaggedUnion | HalfTagged) -> Iterator[str]:
    yield from shape.members.values()
    if isinstance(shape, HalfTagged):
        yield shape.absent
    if isinstance(shape, TaggedUnion) or shape.unknown is None or shape.required_field:
        yield "Other"


def _by_tag(shape: TaggedUnion | HalfTagged) -> Iterator[str]:
    yield f"class {shape.name}(TaggedUnion):"
    yield f"    tag = {quoted(shape.tag)}"
    yield f"    known = ({', '.join(shape.members.values())},)"
    if isinstance(shape, TaggedUnion):
        if shape.other:
            yield f"    other = {shape.other}"
        return
    yield f"    absent = {shape.absent}"
    if shape.unknown:
        yield f"    unknown = {shape.unknown}"
    if shape.required_field:
        yield f"    required_field = {quoted(shape.required_field)}"


def _by_key(shape: Untagged) -> Iterator[str]:
    yield f"class {shape.name}({'KeyedListUnion' if shape.lists else 'KeyedUnion'}):"
    pairs = ", ".join(f"{quoted(key)}: {member}" for key, member in shape.members.items())
    yield f"    by_key = {{{pairs}}}"
    if shape.min_items:
        yield f"    min_length = {shape.min_items}"


def _checks(structure: Structure) -> Iterator[str]:
    """Yield the statements of `__post_init__`."""
    big = [python_name(f.wire) for f in structure.fields if f.type == Integer(0, 2**64 - 1)]
    if big:
        yield f"check_uint64({', '.join(f'self.{name}' for name in big)})"
    if structure.scope:
        yield f"check_{structure.scope}_scope(self.session_id, self.request_id)"
    if any(isinstance(field.default, dict) and isinstance(field.type, Named) for field in structure.fields):
        yield "settle_defaults(self)"


def _in_order_of_need(structures: Iterable[Structure]) -> Iterator[Structure]:
    """Sort parents and classes used as defaults to the front; otherwise keep the order of the schema."""
    by_name = {structure.name: structure for structure in structures}
    done: set[str] = set()

    def emit(structure: Structure) -> Iterator[Structure]:
        if structure.name in done:
            return
        done.add(structure.name)
        needed = [f.type.name for f in structure.fields if isinstance(f.type, Named) and isinstance(f.default, dict)]
        for name in [*needed, *([structure.parent] if structure.parent else [])]:
            yield from emit(by_name[name])
        yield structure

    for structure in by_name.values():
        yield from emit(structure)


def quoted(text: str) -> str:
    """Return a Python string literal."""
    return f'"{text}"'
