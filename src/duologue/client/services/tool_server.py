"""Tools that the client offers to an agent: Python functions, and the user's MCP servers.

Functions are offered to each session as one more MCP server, in the best way that its agent supports:

    over ACP    agents that support MCP on the ACP connection itself
    HTTP        agents that connect to URLs: one on loopback, with a token
    stdio       all others: a command that connects back to this process
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import structs

from duologue.conversation.session_setup import McpServer, StdioMcpServer
from duologue.errors import InvalidParams, StartError
from duologue.mcp.tool_server.server import OfferedServers, ToolServer
from duologue.protocol.values import AgentCapabilities
from duologue.runtime.tasks import TaskScope

Tools: TypeAlias = Iterable[Callable[..., Any]] | ToolServer
"""Functions that agents may call; as a `ToolServer`, with a name and instructions."""

NAME = "editor"
"""Default name of the MCP server."""

END_SECONDS = 5.0
"""Time for running calls to end when the connection ends."""

_log = logging.getLogger("duologue.client")


def as_tool_server(tools: Tools) -> ToolServer | None:
    """Return the functions as a server; `None` if there are none.

    Raises:
        TypeError: A function cannot be a tool; see `duologue.mcp.tool_server.function_tool`.
        ValueError: Two functions have the same name.
    """
    if isinstance(tools, ToolServer):
        return tools
    functions = list(tools)
    return ToolServer(functions, name=NAME) if functions else None


@asynccontextmanager
async def offered_tool_server(
    tools: ToolServer, capabilities: AgentCapabilities, offered: OfferedServers, is_near: bool = True
) -> AsyncGenerator[McpServer]:
    """Serve the tools in the best way that an agent supports, and yield the server to name in its sessions.

    Args:
        tools: The functions.
        capabilities: Capabilities of the agent.
        offered: Servers that the agent reaches over its ACP connection.
        is_near: The agent runs on this machine.

    Raises:
        StartError: The agent supports none of these ways, or this machine does not.
    """
    if capabilities.mcp_acp:
        named = offered.offer(tools)
        try:
            yield named
        finally:
            offered.withdraw(named)
        return
    if not is_near:
        raise StartError("tools for an agent on another machine need MCP over ACP, which this agent does not support")
    ready: asyncio.Future[McpServer] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()
    tasks = TaskScope()
    # In a task of its own, so that an exception of the caller is not wrapped in an exception group.
    serving = tasks.start(_serve(tools, capabilities, ready, leave))
    try:
        yield await ready
    finally:
        leave.set()
        await asyncio.wait({serving}, timeout=END_SECONDS)
        await tasks.cancel(END_SECONDS)


async def _serve(
    tools: ToolServer, capabilities: AgentCapabilities, ready: asyncio.Future[McpServer], leave: asyncio.Event
) -> None:
    try:
        async with _open_server(tools, capabilities) as server:
            if not ready.done():
                ready.set_result(server)
            await leave.wait()
    except Exception as error:
        if ready.done():
            _log.exception("the server of `connect(tools=…)` failed; the agent can no longer call the tools")
        else:
            ready.set_exception(error)


def _open_server(tools: ToolServer, capabilities: AgentCapabilities) -> AbstractAsyncContextManager[McpServer]:
    if not capabilities.mcp_http and not capabilities.mcp_stdio:
        raise StartError("tools cannot be offered to this agent: it supports no MCP servers")
    try:
        from duologue.mcp.tool_server.transports import serve_http, serve_stdio
    except ImportError as error:
        raise StartError(f"tools for this agent need the official MCP SDK, install duologue[mcp]: {error}") from error
    if capabilities.mcp_http:
        return serve_http(tools)
    if not hasattr(socket, "AF_UNIX"):
        raise StartError("this agent supports MCP servers only as commands, which needs Unix sockets on this machine")
    return serve_stdio(tools)


def with_absolute_command(server: StdioMcpServer) -> StdioMcpServer:
    """Return the server with the absolute path of its command, found on our PATH, which may differ from the agent's.

    An absolute path is left as it is: the agent may run on another machine.

    Raises:
        InvalidParams: The command does not exist.
    """
    if Path(server.command).is_absolute():
        return server
    found = shutil.which(server.command)
    if found is None:
        raise InvalidParams(f"the MCP server {server.name!r}: no such command: {server.command!r}")
    return structs.replace(server, command=str(Path(found).absolute()))
