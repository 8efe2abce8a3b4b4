"""Renderers of `methods.py`, `stable.py` and `__init__.py` of one version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scripts.schema import facts
from scripts.schema.render import quoted
from scripts.schema.shapes import (
    Alias,
    Call,
    Enumeration,
    Exactly,
    HalfTagged,
    Merged,
    Named,
    Schema,
    Shape,
    Structure,
    TaggedUnion,
)


def render_methods(schema: Schema, stable: Schema) -> str:
    """Return the text of `methods.py`."""
    stable_calls = {(call.name, call.constant) for call in stable.calls}
    types = sorted({name for call in schema.calls for name in (call.params, call.result) if name})
    names = sorted(["METHODS", "NOTIFICATIONS", *(call.constant for call in schema.calls)])
    lines = [
        f'"""The methods and notifications of protocol version {schema.version[1:]}, including unstable ones."""',
        "from __future__ import annotations",
        "from typing import Any, cast",
        "from duologue.schema.base import Method, Notification",
        f"from duologue.schema.{schema.version}.models import {', '.join(types)}",
        f"__all__ = [{', '.join(map(quoted, names))}]",
        *(_constant(schema, call, (call.name, call.constant) in stable_calls) for call in schema.calls),
        _table("METHODS", "Method[Any, Any]", (call for call in schema.calls if call.result)),
        '"""Every request by its name on the wire."""',
        _table("NOTIFICATIONS", "Notification[Any]", (call for call in schema.calls if not call.result)),
        '"""Every notification by its name on the wire."""',
    ]
    return "\n".join(lines) + "\n"


def _constant(schema: Schema, call: Call, stable: bool) -> str:
    kind = "Method" if call.result else "Notification"
    types = [call.params, *([call.result] if call.result else [])]
    arguments = [quoted(call.name), *(_as_type(schema, name) for name in types), f"side={quoted(call.side)}"]
    flags = [
        ("opens_session", call.name in facts.OPENS_SESSION),
        ("in_order", call.name in facts.IN_ORDER),
        ("ends_session", call.name in facts.ENDS_SESSION),
        ("urgent", call.name in facts.URGENT),
    ]
    arguments += [f"{name}=True" for name, is_set in flags if is_set]
    arguments += [] if stable else ["stable=False"]
    return f"{call.constant}: {kind}[{', '.join(types)}] = {kind}({', '.join(arguments)})"


def _as_type(schema: Schema, name: str) -> str:
    """Return the expression for a class; a union is a type for msgspec, but not for a type checker."""
    shape = schema.shapes[name]
    if isinstance(shape, Alias) and isinstance(shape.type, Named):
        shape = schema.shapes[shape.type.name]
    return name if isinstance(shape, Structure) else f"cast(Any, {name})"


def _table(name: str, of: str, calls: Iterable[Call]) -> str:
    constants = ", ".join(call.constant for call in calls)
    return f"{name}: dict[str, {of}] = {{m.name: m for m in ({constants})}}"


def render_stable(stable: Schema) -> str:
    """Return the text of `stable.py`."""
    shapes = stable.shapes.values()
    fields = {s.name: [f.wire for f in s.fields] for s in shapes if isinstance(s, Structure)}
    members = {s.name: list(s.members) for s in shapes if isinstance(s, TaggedUnion | HalfTagged)}
    for shape in shapes:
        if isinstance(shape, Merged):
            members[shape.name] = list(_discriminator_values(stable.shapes[shape.structure]))
    values = {s.name: list(s.values) for s in shapes if isinstance(s, Enumeration)}
    lines = [
        f'"""The stable parts of protocol version {stable.version[1:]}."""',
        "from __future__ import annotations",
        "from duologue.schema.stability import Stability",
        '__all__ = ["STABLE"]',
        "STABLE = Stability(",
        f"methods={_set(call.name for call in stable.calls)},",
        f"definitions={_set(stable.shapes)},",
        *_mapping("fields", fields),
        *_mapping("members", members),
        *_mapping("values", values),
        ")",
    ]
    return "\n".join(lines) + "\n"


def _discriminator_values(structure: Shape) -> Iterator[str]:
    assert isinstance(structure, Structure)
    for field in structure.fields:
        if field.wire == structure.discriminator and isinstance(field.type, Exactly):
            yield from field.type.values


def _mapping(name: str, entries: dict[str, list[str]]) -> Iterator[str]:
    yield f"{name}={{"
    for key, values in entries.items():
        yield f"{quoted(key)}: {_set(values)},"
    yield "},"


def _set(names: Iterable[str]) -> str:
    listed = ", ".join(map(quoted, names))
    return f"frozenset({{{listed}}})" if listed else "frozenset()"


def render_front(schema: Schema) -> str:
    """Return the text of `__init__.py`."""
    number = schema.version[1:]
    return f'''"""Protocol version {number} as generated from the official schema: classes, unions and method constants.

The meaning of messages, and their conversion between versions, do not belong here.
`protocol` and everything above may import it.
"""

from __future__ import annotations

from duologue.schema.{schema.version}.methods import *
from duologue.schema.{schema.version}.models import *
'''
