"""Tools that an agent gets from us: functions of this program, and the MCP servers of the user's configuration.

Functions reach each session as one more MCP server, in the best way its agent takes:

    over ACP    agents that carry MCP on the connection itself; nothing is opened for it
    HTTP        agents that take addresses: one on loopback, with a token
    stdio       all others: a command that leads back into this process
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

__all__ = ["Tools", "as_tool_server", "offered_tool_server", "with_absolute_command"]

Tools: TypeAlias = Iterable[Callable[..., Any]] | ToolServer
"""Functions that agents may call; as a `ToolServer`, with a name and instructions."""

NAME = "editor"
"""How agents know the server where nobody gives it a name."""

END_SECONDS = 5.0
"""For calls that are being answered when the connection ends."""

_log = logging.getLogger("duologue.client")


def as_tool_server(tools: Tools) -> ToolServer | None:
    """The functions as a server; none if there are none.

    Raises:
        TypeError: A function cannot be a tool; see `duologue.mcp.tool_server.function_tool`.
        ValueError: Two functions have one name.
    """
    if isinstance(tools, ToolServer):
        return tools
    functions = list(tools)
    return ToolServer(functions, name=NAME) if functions else None


@asynccontextmanager
async def offered_tool_server(
    tools: ToolServer, features: AgentCapabilities, offered: OfferedServers, is_near: bool = True
) -> AsyncGenerator[McpServer]:
    """Serve the tools in the best way an agent takes; yields how they are named to it.

    Args:
        tools: The functions.
        features: What the agent can do.
        offered: What is reached over its connection.
        is_near: Whether the agent is on this machine.

    Raises:
        StartError: They cannot be served in that way here.
    """
    if features.mcp_acp:
        named = offered.offer(tools)
        try:
            yield named
        finally:
            offered.withdraw(named)
        return
    if not is_near:
        raise StartError(
            "tools can be lent to an agent on another machine over ACP only, and this one does not take it"
        )
    ready: asyncio.Future[McpServer] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()
    tasks = TaskScope()
    # In a task of its own: what fails in the program around us must not reach it wrapped in a group.
    serving = tasks.start(_serve(tools, features, ready, leave))
    try:
        yield await ready
    finally:
        leave.set()
        await asyncio.wait({serving}, timeout=END_SECONDS)
        await tasks.cancel(END_SECONDS)


async def _serve(
    tools: ToolServer, features: AgentCapabilities, ready: asyncio.Future[McpServer], leave: asyncio.Event
) -> None:
    try:
        async with _way(tools, features) as server:
            if not ready.done():
                ready.set_result(server)
            await leave.wait()
    except Exception as error:
        if ready.done():
            _log.exception("the tools of this program are not served any more")
        else:
            ready.set_exception(error)


def _way(tools: ToolServer, features: AgentCapabilities) -> AbstractAsyncContextManager[McpServer]:
    if not features.mcp_http and not features.mcp_stdio:
        raise StartError("tools cannot be lent to this agent: it says that it takes no MCP servers")
    try:
        from duologue.mcp.tool_server.transports import serve_http, serve_stdio
    except ImportError as error:
        raise StartError(f"tools for this agent need the official MCP SDK, install duologue[mcp]: {error}") from error
    if features.mcp_http:
        return serve_http(tools)
    if not hasattr(socket, "AF_UNIX"):
        raise StartError("this agent takes MCP servers as commands only, and tools cannot be lent that way here")
    return serve_stdio(tools)


def with_absolute_command(server: StdioMcpServer) -> StdioMcpServer:
    """The server with the command's whole path, as found on our PATH; the agent's may be another.

    A path that is absolute already is the agent's business: it may run on another machine.

    Raises:
        InvalidParams: There is no such command.
    """
    if Path(server.command).is_absolute():
        return server
    found = shutil.which(server.command)
    if found is None:
        raise InvalidParams(f"the MCP server {server.name!r}: there is no command {server.command!r} here")
    return structs.replace(server, command=str(Path(found).absolute()))
