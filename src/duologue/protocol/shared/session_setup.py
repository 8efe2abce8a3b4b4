"""Session parameters, MCP servers and listed sessions, to the wire and back: the same in every version.

Each function is given the package of one version's shapes, `duologue.schema.v1` or `duologue.schema.v2`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duologue.conversation import session_setup as s
from duologue.conversation.content import Content
from duologue.conversation.fields import convert_fields
from duologue.schema.base import JsonObject, Other

_SERVERS: dict[type[s.McpServer], str] = {
    s.StdioMcpServer: "McpServerStdio",
    s.HttpMcpServer: "McpServerHttp",
    s.SseMcpServer: "McpServerSse",
    s.AcpMcpServer: "McpServerAcp",
}
"""The class of each MCP server in the schemas."""


def implementation_from_wire(info: Any) -> s.Implementation | None:
    return None if info is None else convert_fields(info, s.Implementation)


def session_params_to_wire(
    schema: Any, params: s.SessionParams, blocks_to_wire: Callable[[list[Content]], list[Any]]
) -> dict[str, Any]:
    """Return the fields of every request that opens a session."""
    prompt = params.system_prompt
    return {
        "cwd": params.cwd,
        "mcp_servers": servers_to_wire(schema, params.mcp_servers),
        "additional_directories": params.additional_directories,
        "system_prompt": (
            None
            if prompt is None
            else convert_fields(prompt, schema.SystemPrompt, content=blocks_to_wire(prompt.content))
        ),
        "meta": params.meta,
    }


def session_params_from_wire(
    schema: Any, request: Any, blocks_from_wire: Callable[[list[Any]], list[Content]]
) -> s.SessionParams:
    """Read the fields of every request that opens a session."""
    prompt = request.system_prompt
    return s.SessionParams(
        cwd=request.cwd,
        additional_directories=request.additional_directories,
        mcp_servers=servers_from_wire(schema, request.mcp_servers),
        system_prompt=(
            None if prompt is None else convert_fields(prompt, s.SystemPrompt, content=blocks_from_wire(prompt.content))
        ),
        meta=request.meta,
    )


def servers_from_wire(schema: Any, servers: list[Any]) -> list[s.McpServer]:
    return [_server_from_wire(schema, server) for server in servers]


def servers_to_wire(schema: Any, servers: list[s.McpServer]) -> list[Any]:
    return [_server_to_wire(schema, server) for server in servers]


def _server_from_wire(schema: Any, server: Any) -> s.McpServer:
    if isinstance(server, Other):
        return s.UnknownMcpServer(name=str(server.get("name", "")), fields=dict(server))
    kind = next(kind for kind, name in _SERVERS.items() if name == type(server).__name__)
    fields = [name for name in ("env", "headers") if hasattr(server, name)]
    return convert_fields(server, kind, **{name: named_values_from_wire(getattr(server, name)) for name in fields})


def _server_to_wire(schema: Any, server: s.McpServer) -> Any:
    if isinstance(server, s.UnknownMcpServer):
        return Other(server.fields.get("type"), server.fields)
    if isinstance(server, s.SseMcpServer) and not hasattr(schema, "McpServerSse"):
        return Other("sse", _sse_fields(server))
    named = [("env", schema.EnvVariable), ("headers", schema.HttpHeader)]
    values = {name: named_values_to_wire(kind, getattr(server, name)) for name, kind in named if hasattr(server, name)}
    return convert_fields(server, getattr(schema, _SERVERS[type(server)]), **values)


def _sse_fields(server: s.SseMcpServer) -> JsonObject:
    """Write SSE, which version 2 removed, as an unknown type, so that the agent can reject it explicitly."""
    headers = [{"name": name, "value": value} for name, value in server.headers.items()]
    fields: JsonObject = {"type": "sse", "name": server.name, "url": server.url, "headers": headers}
    return fields if server.meta is None else {**fields, "_meta": server.meta}


def named_values_to_wire(kind: Any, values: dict[str, str]) -> list[Any]:
    """Write environment variables or headers as the list of name and value that the wire has."""
    return [kind(name=name, value=value) for name, value in values.items()]


def named_values_from_wire(values: list[Any]) -> dict[str, str]:
    return {each.name: each.value for each in values}


def session_info_to_wire(schema: Any, info: s.SessionInfo) -> Any:
    return convert_fields(info, schema.SessionInfo)


def session_info_from_wire(info: Any) -> s.SessionInfo:
    return convert_fields(info, s.SessionInfo, archived=bool(info.archived))
