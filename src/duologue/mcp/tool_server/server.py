"""An MCP server made of plain Python functions, and the ways a client offers it to an agent.

    over ACP    `OfferedServers` answers the requests `mcp/message` of an agent that carries MCP
    HTTP        `serving.serve_http`: an address on loopback and a token, for agents that take addresses
    stdio       `serving.serve_stdio`: a command that leads back into this process, for all the others

The first needs no SDK. Only MCP 2026-07-28 travels over ACP, which knows no handshake: every request says in its
`_meta` which version it speaks and what the caller can do.
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
from duologue.mcp.tool_server.function_tool import FunctionTool

__all__ = ["OfferedServers", "ToolServer"]

VERSION = "2026-07-28"
"""The one version of MCP that is carried over ACP."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"

MAX_ACTIVE = 64
"""Calls an agent may have open at once; a model asks for a handful."""


class ToolServer:
    """Functions of this program as the tools of an MCP server.

    Args:
        functions: What models may call; see `FunctionTool`.
        name: How agents know the server.
        version: The version of the program behind it.
        instructions: What a model should know about the tools as a whole.

    Raises:
        ValueError: Two functions have one name.
    """

    def __init__(
        self,
        functions: Iterable[Callable[..., Any]],
        *,
        name: str = "tools",
        version: str = "1",
        instructions: str | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        self._tools: dict[str, FunctionTool] = {}
        for tool in map(FunctionTool, functions):
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name!r}")
            self._tools[tool.name] = tool

    @property
    def definitions(self) -> list[JsonObject]:
        """What `tools/list` says."""
        return [tool.definition for tool in self._tools.values()]

    async def call(self, tool: str, arguments: JsonObject) -> JsonObject:
        """What `tools/call` answers.

        Raises:
            InvalidParams: No such tool.
        """
        if tool not in self._tools:
            raise InvalidParams(f"no tool is called {tool!r}")
        return await self._tools[tool](arguments)

    async def answer(self, method: str, params: JsonObject | None) -> JsonObject:
        """Answer one request of MCP 2026-07-28, as `{"result": …}` or `{"error": …}`."""
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
                        raise InvalidParams("$.name: which tool?")
            case _:
                raise MethodNotFound(f"no such method: {method}")


_UNCACHED: JsonObject = {"ttlMs": 0, "cacheScope": "private"}
"""What a listing has to say about how long it holds: not at all."""


def _check_envelope(meta: Any) -> None:
    match meta:
        case {
            "io.modelcontextprotocol/clientCapabilities": dict(),
            "io.modelcontextprotocol/protocolVersion": str(said),
        }:
            if said != VERSION:
                data = {"supported": [VERSION], "requested": said}
                raise UnsupportedProtocolVersion(f"MCP {said} is not spoken here", data=data)
        case _:
            raise InvalidParams(f"$._meta: {VERSION_KEY} and {CAPABILITIES_KEY} are required")


class OfferedServers:
    """The servers a client offers over one connection, told apart by ids that are never used twice."""

    def __init__(self, max_active: int = MAX_ACTIVE) -> None:
        self._servers: dict[str, ToolServer] = {}
        self._active: set[tuple[str, str]] = set()
        self._max_active = max_active

    def offer(self, server: ToolServer) -> AcpMcpServer:
        """How the server is named to an agent."""
        server_id = f"mcp_{secrets.token_hex(8)}"
        self._servers[server_id] = server
        return AcpMcpServer(name=server.name, server_id=server_id)

    def withdraw(self, offered: AcpMcpServer) -> None:
        """Answer for it no more; what is being answered still is."""
        self._servers.pop(offered.server_id, None)

    async def answer(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        """Answer a request `mcp/message` of the agent. Cancelled, it cancels the function that is called.

        Raises:
            McpServerUnavailable: No such server is offered.
            McpLimitReached: Too many requests are being answered already.
            InvalidParams: One with this id is being answered already.
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
