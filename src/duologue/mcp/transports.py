"""Open the streams to an MCP server: a child process, a URL, or the ACP connection to the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from httpx2 import AsyncClient, Auth, Timeout
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from duologue.conversation.session_setup import AcpMcpServer, HttpMcpServer, McpServer, SseMcpServer, StdioMcpServer
from duologue.errors import StartError
from duologue.mcp.acp_transport import acp_streams
from duologue.mcp.frame_streams import McpFrameReader, McpFrameWriter
from duologue.mcp.http_client import WebClient
from duologue.mcp.options import ConnectOptions
from duologue.mcp.stdio_streams import Incoming, Outgoing
from duologue.mcp.url_policy import check_url
from duologue.transports.process.child import ShutdownTimeouts
from duologue.transports.process.transport import ProcessTransport

SHUTDOWN = ShutdownTimeouts(after_close=1.5, after_terminate=1.5, after_kill=1.0)
"""A server and its children must end within five seconds; four leave a margin for a busy machine."""


@asynccontextmanager
async def open_streams(
    server: McpServer, options: ConnectOptions, on_rejection: Callable[[str], None]
) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """Open the streams to a server while the context lasts.

    Raises:
        StartError: The transport or URL is not allowed, or the process did not start.
    """
    match server:
        case StdioMcpServer():
            async with _process(server, options) as process:
                yield McpFrameReader(process), McpFrameWriter(process)
        case HttpMcpServer():
            await check_url(server.url, options.allow_hosts)
            limit = options.max_message_bytes
            async with _web_client(server, options, on_rejection) as web:
                async with streamable_http_client(server.url, http_client=web, max_sse_event_size=limit) as streams:
                    yield streams
        case SseMcpServer():
            await check_url(server.url, options.allow_hosts)
            web = _web_client(server, options, on_rejection)
            async with sse_client(server.url, httpx_client_factory=_factory_of(web)) as streams:
                yield streams
        case AcpMcpServer():
            if options.channel is None:
                raise StartError("the server runs in the client, which does not support MCP over ACP")
            async with acp_streams(server.server_id, options.channel) as streams:
                yield streams
        case _:
            raise StartError("unknown type of MCP server")


def _process(server: StdioMcpServer, options: ConnectOptions) -> ProcessTransport:
    return ProcessTransport(
        [server.command, *server.args],
        cwd=options.cwd,
        env=server.env,
        inherit_env=False,
        timeouts=SHUTDOWN,
        max_message_bytes=options.max_message_bytes,
    )


def _web_client(
    server: HttpMcpServer | SseMcpServer, options: ConnectOptions, on_rejection: Callable[[str], None]
) -> WebClient:
    return WebClient(
        server.headers,
        allow_hosts=options.allow_hosts,
        max_message_bytes=options.max_message_bytes,
        on_rejection=on_rejection,
    )


def _factory_of(web: WebClient) -> Callable[..., AsyncClient]:
    def factory(
        headers: dict[str, str] | None = None, timeout: Timeout | None = None, auth: Auth | None = None
    ) -> AsyncClient:
        return web

    return factory
