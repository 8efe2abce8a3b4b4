"""Serve a `ToolServer` to agents without MCP over ACP: at a URL on loopback, or as a command."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from duologue.conversation.session_setup import HttpMcpServer, StdioMcpServer
from duologue.errors import RequestError
from duologue.mcp.frame_streams import McpFrameReader, McpFrameWriter
from duologue.mcp.tool_server import stdio_entry
from duologue.mcp.tool_server.http import BearerOnly, serve_on_loopback
from duologue.mcp.tool_server.server import ToolServer
from duologue.transports.base import Transport
from duologue.transports.stdio.socket import SocketTransport


@asynccontextmanager
async def serve_http(tools: ToolServer) -> AsyncGenerator[HttpMcpServer]:
    """Serve the tools over streamable HTTP on loopback; yield the server's description for the agent.

    Requests need the token in their headers, and are rejected if they come from a web page.
    """
    token = secrets.token_urlsafe(32)
    # Browsers send an origin, and none is allowed; another host name would be a DNS rebinding attack.
    security = TransportSecuritySettings(allowed_hosts=["127.0.0.1:*"], allowed_origins=[])
    app = _sdk_server(tools).streamable_http_app(stateless_http=True, json_response=True, transport_security=security)
    async with serve_on_loopback(BearerOnly(app, token)) as base:
        yield HttpMcpServer(name=tools.name, url=f"{base}/mcp", headers={"Authorization": f"Bearer {token}"})


@asynccontextmanager
async def serve_stdio(tools: ToolServer) -> AsyncGenerator[StdioMcpServer]:
    """Serve the tools to a command that any agent can start; yield the server's description for the agent.

    The command connects to a socket that only this user can open. POSIX only.
    """
    with tempfile.TemporaryDirectory(prefix="duologue-") as directory:
        path = str(Path(directory) / "tools")
        with closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(path)
            listener.listen()
            listener.setblocking(False)
            async with asyncio.TaskGroup() as group:
                accepting = group.create_task(_accept(listener, _sdk_server(tools), group))
                args = ["-I", str(stdio_entry.__file__), path]
                try:
                    yield StdioMcpServer(name=tools.name, command=sys.executable, args=args)
                finally:
                    accepting.cancel()


class ToolServerRelay:
    """Serves the tools on a transport, such as this process's stdin and stdout.

    Args:
        tools: The tools.
    """

    def __init__(self, tools: ToolServer) -> None:
        self._server = _sdk_server(tools)

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it disconnects."""
        async with transport:
            await _run(self._server, transport)


async def _run(server: Server[Any], transport: Transport) -> None:
    await server.run(McpFrameReader(transport), McpFrameWriter(transport), server.create_initialization_options())


async def _accept(listener: socket.socket, server: Server[Any], group: asyncio.TaskGroup) -> None:
    loop = asyncio.get_running_loop()
    connections: set[asyncio.Task[None]] = set()
    try:
        while True:
            connection, _ = await loop.sock_accept(listener)
            task = group.create_task(_serve_connection(connection, server))
            connections.add(task)
            task.add_done_callback(connections.discard)
    finally:
        for task in connections:
            task.cancel()


async def _serve_connection(connection: socket.socket, server: Server[Any]) -> None:
    async with SocketTransport(connection, output_stall=None) as transport:
        await _run(server, transport)


def _sdk_server(tools: ToolServer) -> Server[Any]:
    async def list_tools(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult.model_validate({"tools": tools.definitions})

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            return CallToolResult.model_validate(await tools.call(params.name, params.arguments or {}))
        except RequestError as error:
            raise MCPError(error.code, str(error), error.data) from error

    return Server(
        tools.name,
        version=tools.version,
        instructions=tools.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
