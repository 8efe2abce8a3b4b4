"""The ways to an MCP server: a process of ours, an address, or the connection to the client."""

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

__all__ = ["open_streams"]

LADDER = ShutdownTimeouts(after_close=1.5, after_terminate=1.5, after_kill=1.0)
"""A server and its children are to be gone within five seconds; four leave room for a busy machine."""


@asynccontextmanager
async def open_streams(
    server: McpServer, reach: ConnectOptions, on_refusal: Callable[[str], None]
) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """Both directions of a connection to a server, for as long as the context lasts.

    Raises:
        StartError: It cannot be reached in this way, or its process did not start.
    """
    match server:
        case StdioMcpServer():
            async with _process(server, reach) as process:
                yield McpFrameReader(process), McpFrameWriter(process)
        case HttpMcpServer():
            await check_url(server.url, reach.allow_hosts)
            limit = reach.max_message_bytes
            async with _web_client(server, reach, on_refusal) as web:
                async with streamable_http_client(server.url, http_client=web, max_sse_event_size=limit) as streams:
                    yield streams
        case SseMcpServer():
            await check_url(server.url, reach.allow_hosts)
            web = _web_client(server, reach, on_refusal)
            async with sse_client(server.url, httpx_client_factory=_handing_out(web)) as streams:
                yield streams
        case AcpMcpServer():
            if reach.carrier is None:
                raise StartError("it lives in the client, and nothing here carries MCP to the client")
            async with acp_streams(server.server_id, reach.carrier) as streams:
                yield streams
        case _:
            raise StartError("this version does not know how to reach it")


def _process(server: StdioMcpServer, reach: ConnectOptions) -> ProcessTransport:
    return ProcessTransport(
        [server.command, *server.args],
        cwd=reach.cwd,
        env=server.env,
        inherit_env=False,
        timeouts=LADDER,
        max_message_bytes=reach.max_message_bytes,
    )


def _web_client(
    server: HttpMcpServer | SseMcpServer, reach: ConnectOptions, on_refusal: Callable[[str], None]
) -> WebClient:
    return WebClient(
        server.headers,
        allow_hosts=reach.allow_hosts,
        max_message_bytes=reach.max_message_bytes,
        on_refusal=on_refusal,
    )


def _handing_out(web: WebClient) -> Callable[..., AsyncClient]:
    def hand_out(
        headers: dict[str, str] | None = None, timeout: Timeout | None = None, auth: Auth | None = None
    ) -> AsyncClient:
        return web

    return hand_out
