"""Capabilities of the two sides, to the wire and back, by the tables in `protocol.values`."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from duologue.protocol.background_tasks import declares_tasks, with_tasks_declared
from duologue.protocol.values import (
    AGENT_CAPABILITIES,
    CLIENT_CAPABILITIES,
    IMPLIED,
    AgentCapabilities,
    Capability,
    ClientCapabilities,
)
from duologue.schema.base import JsonObject, JsonValue, Model
from duologue.schema.fields import fields_of
from duologue.schema.lenient_errors import is_object

C = TypeVar("C", AgentCapabilities, ClientCapabilities)
M = TypeVar("M", bound=Struct)


_TABLES: dict[type[AgentCapabilities | ClientCapabilities], tuple[Capability, ...]] = {
    AgentCapabilities: AGENT_CAPABILITIES,
    ClientCapabilities: CLIENT_CAPABILITIES,
}


def capabilities_to_wire(capabilities: AgentCapabilities | ClientCapabilities, target: type[M], version: int) -> M:
    """Build the capabilities object of one version; what it cannot advertise is left out."""
    meta = capabilities.meta
    if isinstance(capabilities, ClientCapabilities) and capabilities.background_tasks:
        meta = with_tasks_declared(meta)
    tree: JsonObject = {} if meta is None else {"_meta": meta}
    for row in _TABLES[type(capabilities)]:
        if row[version] not in ("", IMPLIED) and getattr(capabilities, row.name):
            path, _, value = row[version].partition("=")
            *parents, last = path.split(".")
            parent = tree
            for name in parents:
                parent = parent.setdefault(name, {})
            parent.setdefault(last, True if value == "true" else {})
    return _build(target, tree)


def _build(kind: type[M], tree: JsonObject) -> M:
    """Build a message from its JSON; unlike `msgspec.convert`, without compiling every class it could contain."""
    fields = {field.wire_name: field for field in fields_of(kind)}
    values: JsonObject = {}
    for name, value in tree.items():
        field = fields[name]
        values[field.name] = _build(field.classes[0], value) if field.classes else value
    return kind(**values)


def capabilities_from_wire(wire: Model, target: type[C], version: int) -> C:
    """Read the capabilities object of one version; what it cannot advertise has its default."""
    tree: JsonObject = msgspec.to_builtins(wire)
    flags = {row.name: is_advertised(tree, row[version]) for row in _TABLES[target] if row[version]}
    if target is ClientCapabilities:
        flags["background_tasks"] = declares_tasks(tree.get("_meta"))
    return target(**flags, meta=tree.get("_meta"))


def is_advertised(tree: JsonObject, cell: str) -> bool:
    """Return True if a capabilities object advertises the capability of a cell; it may have any shape."""
    if cell == IMPLIED:
        return True
    found: JsonValue = tree
    for name in cell.partition("=")[0].split("."):
        found = found.get(name)
        if not is_object(found):
            return found is True
    return True
