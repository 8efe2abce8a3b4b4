"""Rules for the MCP servers of requests that open a session."""

from __future__ import annotations

import re
from itertools import count

from duologue.compat.json_access import any_changed, as_object, objects
from duologue.compat.message import OpenMessage
from duologue.compat.rules import SESSION_OPENERS, Rule, params
from duologue.schema.base import JsonObject, JsonValue

HOST = re.compile(r"//(?:[^/?#]*@)?([^/?#:]+)")
"""The host alone: the rest of a URL may contain secrets."""


def _servers(message: OpenMessage) -> list[JsonObject]:
    return objects(message.fields.get("mcpServers"))


def list_pairs(fields: JsonObject, key: str) -> bool:
    """Replace an object of names and values by a list of pairs."""
    if not isinstance(fields.get(key), dict):
        return False
    fields[key] = [{"name": name, "value": value} for name, value in as_object(fields[key]).items()]
    return True


def map_pairs(fields: JsonObject, key: str) -> bool:
    """Replace a list of pairs by an object; of two values for one name the last one counts."""
    listed: JsonValue = fields.get(key)
    if not isinstance(listed, list):
        return False
    pairs = [(pair.get("name"), pair.get("value")) for pair in objects(fields[key])]
    fields[key] = {name: value for name, value in pairs if isinstance(name, str)}
    return True


def read_transport(message: OpenMessage) -> bool:
    """Replace `transport` by `type` on remote servers only, and add the lists that the seed leaves out."""
    servers = [server for server in _servers(message) if isinstance(server.get("transport"), str)]
    for server in servers:
        transport = server.pop("transport")
        if transport == "stdio":
            server.setdefault("args", [])
            server.setdefault("env", [])
        else:
            server.setdefault("type", transport)
            server.setdefault("headers", [])
    return bool(servers)


def write_transport(message: OpenMessage) -> bool:
    """Replace `type` by `transport`, on every server."""
    servers = [server for server in _servers(message) if "transport" not in server]
    for server in servers:
        server["transport"] = server.pop("type", "stdio")
    return bool(servers)


def read_pairs(message: OpenMessage) -> bool:
    """Replace environment and headers by lists."""
    return any_changed(list_pairs(server, key) for server in _servers(message) for key in ("env", "headers"))


def write_pairs(message: OpenMessage) -> bool:
    """Replace environment and headers by objects."""
    return any_changed(map_pairs(server, key) for server in _servers(message) for key in ("env", "headers"))


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


def read_stdio_type(message: OpenMessage) -> bool:
    """Remove the type of stdio servers, which v1 does not have."""
    servers = [server for server in _servers(message) if server.get("type") == "stdio"]
    for server in servers:
        del server["type"]
    return bool(servers)


def write_stdio_type(message: OpenMessage) -> bool:
    """Add the type of stdio servers."""
    servers = [server for server in _servers(message) if "type" not in server]
    for server in servers:
        server["type"] = "stdio"
    return bool(servers)


OPENING = params(*SESSION_OPENERS)

RULES = (
    Rule(
        "mcp-server-transport",
        ("seed-004",),
        "`transport` on every MCP server",
        "`type` on remote MCP servers, none on stdio",
        OPENING,
        read_transport,
        write_transport,
    ),
    Rule(
        "mcp-server-pairs",
        ("seed-004",),
        "`env` and `headers`: objects",
        "`env` and `headers`: lists of `name` and `value`",
        OPENING,
        read_pairs,
        write_pairs,
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
        read_stdio_type,
        write_stdio_type,
    ),
)
