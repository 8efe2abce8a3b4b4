"""An MCP server made of Python functions, and the transports over which a client offers it to an agent.

    over ACP    `OfferedServers` handles the requests `mcp/message` of an agent that supports MCP over ACP
    HTTP        `transports.serve_http`: a URL on loopback and a token, for agents that support HTTP
    stdio       `transports.serve_stdio`: a command that connects to this process, for all others

The first needs no SDK. Only MCP 2026-07-28 is carried over ACP, which has no handshake: every request names its version
and the caller's capabilities in its `_meta`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import AcpMcpServer
from duologue.errors import (
    InvalidParams,
    McpLimitReached,
    McpServerUnavailable,
    MethodNotFound,
    RequestError,
    UnsupportedProtocolVersion,
)

VERSION = "2026-07-28"
"""The one version of MCP that is carried over ACP."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"

MAX_ACTIVE = 64
"""Active calls of one agent; a model makes a handful."""


class ToolServer:
    """Functions of this program as the tools of an MCP server.

    Args:
        functions: The functions that models may call; see `FunctionTool`.
        name: The name of the server for agents.
        version: The version of the program behind it.
        instructions: Instructions for the model about all the tools.
        is_read_only: The tools change nothing, so that clients need not ask before a call.

    Raises:
        ValueError: Two functions have the same name.
    """

    def __init__(
        self,
        functions: Iterable[Callable[..., Any]],
        *,
        name: str = "tools",
        version: str = "1",
        instructions: str | None = None,
        is_read_only: bool = False,
    ) -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        from duologue.mcp.tool_server.function_tool import FunctionTool  # most clients offer no tools

        self._tools: dict[str, FunctionTool] = {}
        for tool in map(FunctionTool, functions):
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name!r}")
            if is_read_only:
                tool.definition["annotations"] = {"readOnlyHint": True}
            self._tools[tool.name] = tool

    @property
    def definitions(self) -> list[JsonObject]:
        """The entries of `tools/list`."""
        return [tool.definition for tool in self._tools.values()]

    async def call(self, tool: str, arguments: JsonObject) -> JsonObject:
        """Return the result of `tools/call`.

        Raises:
            InvalidParams: There is no such tool.
        """
        if tool not in self._tools:
            raise InvalidParams(f"no tool is called {tool!r}")
        return await self._tools[tool](arguments)

    async def answer(self, method: str, params: JsonObject | None) -> JsonObject:
        """Handle one request of MCP 2026-07-28; return `{"result": …}` or `{"error": …}`."""
        try:
            result = await self._answer(method, params or {})
        except RequestError as error:
            inner: JsonObject = {"code": error.code, "message": str(error)}
            return {"error": inner if error.data is None else {**inner, "data": error.data}}
        meta: JsonObject = {**result.get("_meta", {}), SERVER_INFO_KEY: {"name": self.name, "version": self.version}}
        return {"result": {"resultType": "complete", **result, "_meta": meta}}

    async def _answer(self, method: str, params: JsonObject) -> JsonObject:
        _check_envelope(params.get("_meta"))
        match method:
            case "server/discover":
                capabilities: JsonObject = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, **_UNCACHED}
                return (
                    capabilities if self.instructions is None else {**capabilities, "instructions": self.instructions}
                )
            case "tools/list":
                return {"tools": self.definitions, **_UNCACHED}
            case "tools/call":
                match params:
                    case {"name": str(name)}:
                        return await self.call(name, params.get("arguments") or {})
                    case _:
                        raise InvalidParams("$.name: the name of a tool is required")
            case _:
                raise MethodNotFound(f"no such method: {method}")


_UNCACHED: JsonObject = {"ttlMs": 0, "cacheScope": "private"}
"""Fields of a listing that forbid caching it."""


def _check_envelope(meta: Any) -> None:
    match meta:
        case {
            "io.modelcontextprotocol/clientCapabilities": dict(),
            "io.modelcontextprotocol/protocolVersion": str(version),
        }:
            if version != VERSION:
                data = {"supported": [VERSION], "requested": version}
                raise UnsupportedProtocolVersion(f"MCP {version} is not supported", data=data)
        case _:
            raise InvalidParams(f"$._meta: {VERSION_KEY} and {CAPABILITIES_KEY} are required")


class OfferedServers:
    """The servers that a client offers over one connection, each with a unique id."""

    def __init__(self, max_active: int = MAX_ACTIVE) -> None:
        self._servers: dict[str, ToolServer] = {}
        self._active: set[tuple[str, str]] = set()
        self._max_active = max_active

    def offer(self, server: ToolServer) -> AcpMcpServer:
        """Register a server and return its description for the agent."""
        server_id = f"mcp_{secrets.token_hex(8)}"
        self._servers[server_id] = server
        return AcpMcpServer(name=server.name, server_id=server_id)

    def withdraw(self, offered: AcpMcpServer) -> None:
        """Unregister a server; its active requests continue."""
        self._servers.pop(offered.server_id, None)

    async def answer(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        """Handle a request `mcp/message` of the agent. Cancelling this cancels the called function.

        Raises:
            McpServerUnavailable: There is no such server.
            McpLimitReached: Too many requests are active.
            InvalidParams: A request with this id is active.
        """
        call = (server_id, request_id)
        if server_id not in self._servers:
            raise McpServerUnavailable(f"no MCP server has the id {server_id!r}")
        if call in self._active:
            raise InvalidParams(f"request {request_id!r} is still active")
        if len(self._active) >= self._max_active:
            raise McpLimitReached(f"{self._max_active} requests are active already")
        self._active.add(call)
        try:
            return await self._servers[server_id].answer(method, params)
        finally:
            self._active.discard(call)
