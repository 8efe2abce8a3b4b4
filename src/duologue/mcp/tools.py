"""A tool of an MCP server as an async function, with a function name and a fingerprint."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable
from typing import Any, Protocol

import msgspec

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import HttpMcpServer, McpServer, SseMcpServer, StdioMcpServer
from duologue.mcp.results import McpResult

MAX_FUNCTION_NAME = 64
"""Longest function name that the large model APIs accept."""

_DIGEST_CHARS = 8
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


class OnProgress(Protocol):
    """Receives the progress of a call: the total and a message if the server sends them."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class Call(Protocol):
    """Calls a tool on its server."""

    def __call__(self, server: str, tool: str, arguments: JsonObject) -> Awaitable[McpResult]: ...


class McpTool:
    """A tool of an MCP server: `await tool(path="a.txt")`.

    Attributes:
        name: The name, unique on its server.
        server: The name of its server.
        title: The title for people, if there is one.
        description: The description that the server gave.
        input_schema: JSON Schema of the arguments.
        output_schema: JSON Schema of the structured content, if there is one.
        annotations: The server's hints (`readOnlyHint` and others); not to be trusted for decisions.
        meta: The `_meta` that the server attached.
        function_name: A name that model APIs accept, unique over all servers of a session.
        fingerprint: Changes with anything that defines the tool. Remember permissions by it, so that a tool that
            changes under an approved name needs a new approval.
    """

    def __init__(self, server: McpServer, definition: JsonObject, call: Call) -> None:
        self.server = server.name
        self.name: str = definition["name"]
        self.title: str | None = definition.get("title")
        self.description: str = definition.get("description") or ""
        self.input_schema: JsonObject = definition.get("inputSchema") or {"type": "object"}
        self.output_schema: JsonObject | None = definition.get("outputSchema")
        self.annotations: JsonObject = definition.get("annotations") or {}
        self.meta: JsonObject | None = definition.get("_meta")
        self.function_name = function_name(self.server, self.name)
        self.fingerprint = _fingerprint(server, definition)
        self._call = call
        # Frameworks that take plain functions read these.
        self.__name__ = self.function_name
        self.__doc__ = self.description

    async def __call__(self, /, **arguments: Any) -> McpResult:
        """Call the tool.

        Raises:
            McpServerUnavailable: The server is not available, or ended before it answered.
            McpBackendFailed: The server answered with an error or an invalid result.
        """
        return await self._call(self.server, self.name, arguments)

    def __repr__(self) -> str:
        return f"<McpTool {self.name!r} of {self.server!r}>"


def function_name(server: str, tool: str) -> str:
    """Return one name that model APIs accept; a digest keeps it unique where characters are lost."""
    plain = f"{server}__{tool}"
    safe = _FORBIDDEN.sub("_", plain)
    is_unambiguous = "__" not in server and not server.endswith("_") and not tool.startswith("_")
    if safe == plain and len(safe) <= MAX_FUNCTION_NAME and is_unambiguous:
        return safe
    digest = hashlib.sha256(msgspec.json.encode([server, tool])).hexdigest()[:_DIGEST_CHARS]
    return f"{safe[: MAX_FUNCTION_NAME - _DIGEST_CHARS - 1]}_{digest}"


def _fingerprint(server: McpServer, definition: JsonObject) -> str:
    identity: list[Any] = [type(server).__name__, server.name]
    if isinstance(server, StdioMcpServer):
        identity += [server.command, server.args]
    elif isinstance(server, HttpMcpServer | SseMcpServer):
        identity.append(server.url)
    return hashlib.sha256(msgspec.json.encode([identity, definition], order="sorted")).hexdigest()
