"""Rules for the MCP servers of requests that open a session."""

from __future__ import annotations

import re
from itertools import count

from duologue.compat.json_access import Edit, as_object, objects
from duologue.compat.message import OpenMessage
from duologue.compat.rules import SESSION_OPENERS, Rule, each, params
from duologue.schema.base import JsonObject

HOST = re.compile(r"//(?:[^/?#]*@)?([^/?#:]+)")
"""The host alone: the rest of a URL may contain secrets."""


def _servers(message: OpenMessage) -> list[JsonObject]:
    return objects(message.fields.get("mcpServers"))


def list_pairs(*keys: str) -> Edit:
    """Return an edit that replaces objects of names and values by lists of pairs."""

    def edit(fields: JsonObject) -> bool:
        found = [key for key in keys if isinstance(fields.get(key), dict)]
        for key in found:
            fields[key] = [{"name": name, "value": value} for name, value in as_object(fields[key]).items()]
        return bool(found)

    return edit


def map_pairs(*keys: str) -> Edit:
    """Return an edit that replaces lists of pairs by objects; of two values for one name the last one counts."""

    def edit(fields: JsonObject) -> bool:
        found = [key for key in keys if isinstance(fields.get(key), list)]
        for key in found:
            pairs = [(pair.get("name"), pair.get("value")) for pair in objects(fields[key])]
            fields[key] = {name: value for name, value in pairs if isinstance(name, str)}
        return bool(found)

    return edit


def read_transport(server: JsonObject) -> bool:
    """Replace `transport` by `type` on a remote server only, and add the lists that the seed leaves out."""
    if not isinstance(server.get("transport"), str):
        return False
    transport = server.pop("transport")
    missing: JsonObject = {"args": [], "env": []} if transport == "stdio" else {"type": transport, "headers": []}
    server.update({name: value for name, value in missing.items() if name not in server})
    return True


def write_transport(server: JsonObject) -> bool:
    """Replace `type` by `transport`."""
    if "transport" in server:
        return False
    server["transport"] = server.pop("type", "stdio")
    return True


def read_name(message: OpenMessage) -> bool:
    """Name a server without a name after its command or its host; names are unique."""
    servers = _servers(message)
    taken = {server.get("name") for server in servers if isinstance(server.get("name"), str)}
    nameless = [server for server in servers if "name" not in server]
    for server in nameless:
        name = _name_of(server)
        server["name"] = next(new for n in count(1) if (new := name if n == 1 else f"{name}-{n}") not in taken)
        taken.add(server["name"])
    return bool(nameless)


def _name_of(server: JsonObject) -> str:
    command, url = server.get("command"), server.get("url")
    if isinstance(command, str):
        return re.split(r"[/\\]", command)[-1] or "server"
    host = HOST.search(url) if isinstance(url, str) else None
    return host[1] if host else "server"


def read_stdio_type(server: JsonObject) -> bool:
    """Remove the type of a stdio server, which v1 does not have."""
    is_stdio = server.get("type") == "stdio"
    if is_stdio:
        del server["type"]
    return is_stdio


def write_stdio_type(server: JsonObject) -> bool:
    """Add the type of a stdio server."""
    if "type" in server:
        return False
    server["type"] = "stdio"
    return True


OPENING = params(*SESSION_OPENERS)

RULES = (
    Rule(
        "mcp-server-transport",
        ("seed-004",),
        "`transport` on every MCP server",
        "`type` on remote MCP servers, none on stdio",
        OPENING,
        each(_servers, read_transport),
        each(_servers, write_transport),
    ),
    Rule(
        "mcp-server-pairs",
        ("seed-004",),
        "`env` and `headers`: objects",
        "`env` and `headers`: lists of `name` and `value`",
        OPENING,
        each(_servers, list_pairs("env", "headers")),
        each(_servers, map_pairs("env", "headers")),
    ),
    Rule(
        "mcp-server-name",
        ("seed-004",),
        "no `name`",
        "`name`, made from the command or the host",
        OPENING,
        read_name,
    ),
    Rule(
        "mcp-server-stdio-type",
        ("seed-003",),
        '`type: "stdio"`',
        "no `type` on stdio",
        OPENING,
        each(_servers, read_stdio_type),
        each(_servers, write_stdio_type),
    ),
)
