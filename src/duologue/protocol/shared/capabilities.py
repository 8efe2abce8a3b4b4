"""Capabilities of the two sides: one table that says how each version of the protocol writes each capability.

A cell is the path inside the capabilities object and the value that advertises the capability there. Version 1 uses
`true` for some and an empty object for others; version 2 uses objects only. A capability without a cell cannot be
advertised in that version.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from duologue.protocol.values import AgentCapabilities, ClientCapabilities
from duologue.schema.base import JsonObject, JsonValue, Model
from duologue.schema.lenient_errors import is_object

C = TypeVar("C", AgentCapabilities, ClientCapabilities)
M = TypeVar("M", bound=Model)


class _Capability(NamedTuple):
    """A field of `AgentCapabilities` or `ClientCapabilities`, and its cell for each version."""

    name: str
    v1: str = ""
    v2: str = ""


_AGENT = (
    _Capability("load", "loadSession=true", "session={}"),
    _Capability("resume", "sessionCapabilities.resume={}", "session={}"),
    _Capability("list", "sessionCapabilities.list={}", "session={}"),
    _Capability("close", "sessionCapabilities.close={}", "session={}"),
    _Capability("delete", "sessionCapabilities.delete={}", "session.delete={}"),
    _Capability("fork", "sessionCapabilities.fork={}", "session.fork={}"),
    _Capability("archive", "sessionCapabilities.archive={}", "session.archive={}"),
    _Capability("status", "sessionCapabilities.status={}", "session.status={}"),
    _Capability("title", "sessionCapabilities.title={}", "session.title={}"),
    _Capability(
        "additional_directories", "sessionCapabilities.additionalDirectories={}", "session.additionalDirectories={}"
    ),
    _Capability("system_prompt", "sessionCapabilities.systemPrompt={}", "session.systemPrompt={}"),
    _Capability(
        "system_prompt_override",
        "sessionCapabilities.systemPrompt.mode.override={}",
        "session.systemPrompt.mode.override={}",
    ),
    _Capability("image", "promptCapabilities.image=true", "session.prompt.image={}"),
    _Capability("audio", "promptCapabilities.audio=true", "session.prompt.audio={}"),
    _Capability("embedded", "promptCapabilities.embeddedContext=true", "session.prompt.embeddedContext={}"),
    _Capability("mcp_stdio", "", "session.mcp.stdio={}"),
    _Capability("mcp_http", "mcpCapabilities.http=true", "session.mcp.http={}"),
    _Capability("mcp_sse", "mcpCapabilities.sse=true"),
    _Capability("mcp_acp", "mcpCapabilities.acp=true", "session.mcp.acp={}"),
    _Capability("logout", "auth.logout={}"),
    _Capability("login_status", "auth.status={}", "auth.status={}"),
    _Capability("providers", "providers={}", "providers={}"),
)
_CLIENT = (
    _Capability("reads_files", "fs.readTextFile=true"),
    _Capability("writes_files", "fs.writeTextFile=true"),
    _Capability("terminals", "terminal=true"),
    _Capability("boolean_settings", "session.configOptions.boolean={}"),
    _Capability("notices", "session.notices={}"),
    _Capability("compaction", "session.compaction={}"),
    _Capability("named_plans", "plan={}"),
    _Capability("subagents", "subagents={}"),
    _Capability("forms", "elicitation.form={}", "elicitation.form={}"),
    _Capability("urls", "elicitation.url={}", "elicitation.url={}"),
    _Capability("terminal_login", "auth.terminal=true", "auth.terminal={}"),
)
_TABLES: dict[type[AgentCapabilities | ClientCapabilities], tuple[_Capability, ...]] = {
    AgentCapabilities: _AGENT,
    ClientCapabilities: _CLIENT,
}


def capabilities_to_wire(capabilities: AgentCapabilities | ClientCapabilities, target: type[M], version: int) -> M:
    """Build the capabilities object of one version; what it cannot advertise is left out."""
    tree: JsonObject = {} if capabilities.meta is None else {"_meta": capabilities.meta}
    for row in _TABLES[type(capabilities)]:
        if row[version] and getattr(capabilities, row.name):
            path, _, value = row[version].partition("=")
            *parents, last = path.split(".")
            parent = tree
            for name in parents:
                parent = parent.setdefault(name, {})
            parent.setdefault(last, True if value == "true" else {})
    return msgspec.convert(tree, target)


def capabilities_from_wire(wire: Model, target: type[C], version: int) -> C:
    """Read the capabilities object of one version; what it cannot advertise has its default."""
    tree: JsonObject = msgspec.to_builtins(wire)
    return target(
        **{row.name: _is_advertised(tree, row[version]) for row in _TABLES[target] if row[version]},
        meta=tree.get("_meta"),
    )


def _is_advertised(tree: JsonObject, cell: str) -> bool:
    found: JsonValue = tree
    for name in cell.partition("=")[0].split("."):
        found = found.get(name)
        if not is_object(found):
            return found is True
    return True
