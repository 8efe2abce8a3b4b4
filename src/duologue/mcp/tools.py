"""A tool of an MCP server as an async function, and the name and fingerprint it is known by."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable
from typing import Any, Protocol

import msgspec

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import HttpMcpServer, McpServer, SseMcpServer, StdioMcpServer
from duologue.mcp.results import McpResult

__all__ = ["Call", "McpTool", "OnProgress", "function_name"]

MAX_FUNCTION_NAME = 64
"""The longest name of a function that the large model APIs take."""

_DIGEST_CHARS = 8
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


class OnProgress(Protocol):
    """Told how far a call has come: of how much, and what it is doing, where the server says so."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class Call(Protocol):
    """How a tool reaches its server."""

    def __call__(self, server: str, tool: str, arguments: JsonObject) -> Awaitable[McpResult]: ...


class McpTool:
    """A tool of an MCP server: `await tool(path="a.txt")`.

    Attributes:
        name: Its name, unique on its server.
        server: The name of its server.
        title: A name for people, if it has one.
        description: What it does, in the server's words.
        input_schema: JSON Schema of its arguments.
        output_schema: JSON Schema of its structured content, if it promises any.
        annotations: The server's hints (`readOnlyHint` and others); not to be trusted for decisions.
        meta: What the server attached.
        function_name: A name that model APIs accept, unique over all servers of a session.
        fingerprint: Changes with anything that defines the tool. Remember permissions by it: a server that gives an
            approved name another meaning has a new tool, which nobody approved.
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
        # Frameworks that take plain functions look here.
        self.__name__ = self.function_name
        self.__doc__ = self.description

    async def __call__(self, /, **arguments: Any) -> McpResult:
        """Run it.

        Raises:
            McpServerUnavailable: Its server is not there, or ended before it answered.
            McpBackendFailed: Its server refused the call, or answered nonsense.
        """
        return await self._call(self.server, self.name, arguments)

    def __repr__(self) -> str:
        return f"<McpTool {self.name!r} of {self.server!r}>"


def function_name(server: str, tool: str) -> str:
    """Both names in one that model APIs accept; where that loses something, a digest keeps it unique."""
    plain = f"{server}__{tool}"
    safe = _FORBIDDEN.sub("_", plain)
    can_be_parted = "__" not in server and not server.endswith("_") and not tool.startswith("_")
    if safe == plain and len(safe) <= MAX_FUNCTION_NAME and can_be_parted:
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
