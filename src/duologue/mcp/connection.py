"""One connection to an MCP server through the official SDK, over any transport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import cast

from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    CallToolResult,
    DiscoverResult,
    ElicitCompleteNotification,
    Implementation,
    ToolListChangedNotification,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import AcpMcpServer, McpServer, SseMcpServer
from duologue.errors import (
    DuologueError,
    McpBackendFailed,
    McpLimitReached,
    McpServerUnavailable,
    RequestError,
    StartError,
    error_for_code,
)
from duologue.mcp.elicitation_bridge import ElicitationBridge
from duologue.mcp.frame_streams import McpFrameReader
from duologue.mcp.options import ConnectOptions
from duologue.mcp.results import McpResult, read_result
from duologue.mcp.stdio_streams import Incoming, Outgoing, Watched, whole_result
from duologue.mcp.tools import OnProgress
from duologue.mcp.transports import open_streams
from duologue.sanitize import quote

MAX_PAGES = 1_000
"""Pages of a tool list to read; a longer list is taken for a loop."""

LISTEN_AGAIN_SECONDS = 5.0
"""Seconds between two subscriptions to changes of the tools; a proxy may cut such a stream at any time."""

BINDING_ERRORS = {error.code for error in (McpLimitReached, McpServerUnavailable, McpBackendFailed)}

log = logging.getLogger(__name__)


class McpConnection:
    """A connection to one MCP server, created by `connect`.

    Attributes:
        tools: The definitions of the server's tools, as last listed.
        is_over: True once no further message can arrive.
    """

    def __init__(self, server: McpServer, options: ConnectOptions) -> None:
        self.tools: list[JsonObject] = []
        self._name = server.name
        self._server = server
        self._options = options
        # The SDK advertises forms and URLs together; a client that supports only one rejects the other.
        self._elicitations = None if options.user is None else ElicitationBridge(server.name, options.user)
        self._client = Client(
            self._streams(),
            mode=LATEST_MODERN_VERSION if isinstance(server, AcpMcpServer) else "auto",
            cache=None,
            client_info=Implementation(
                name=options.client.name, version=options.client.version, title=options.client.title
            ),
            message_handler=self._on_message,
            elicitation_callback=None if self._elicitations is None else self._elicitations.put,
        )
        self.is_over = False
        self._is_forgotten = False
        self._incoming: Incoming | None = None
        self._watched: Watched | None = None
        self._rejection: str | None = None
        self._tools_changed = False
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Watched, Outgoing]]:
        async with open_streams(self._server, self._options, self._note_rejection) as (incoming, outgoing):
            self._incoming = incoming
            self._watched = Watched(incoming, self._note_end)
            yield self._watched, outgoing

    async def list_tools(self) -> list[JsonObject]:
        """Return the definitions of the server's tools from all pages.

        Raises:
            StartError: The list does not end.
            MCPError: The server answered with an error.
        """
        tools: list[JsonObject] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self._client.list_tools(cursor=cursor)
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    return []
                raise
            tools += [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools]
            if not page.next_cursor:
                return tools
            cursor = page.next_cursor
        raise StartError(f"its list of tools has more than {MAX_PAGES} pages")

    async def refresh(self) -> bool:
        """List the tools again and return True if they changed; if that fails, keep those listed before."""
        before = self.tools
        try:
            self.tools = await self.list_tools()
        except Exception as error:
            log.warning("MCP server %r failed to list its tools again: %s", self._name, quote(explain(error)))
        return self.tools != before

    async def call(
        self, tool: str, arguments: JsonObject, *, timeout: float | None, on_progress: OnProgress | None
    ) -> McpResult:
        """Call a tool.

        Raises:
            McpServerUnavailable: The server ended before it answered.
            McpBackendFailed: The server answered with an error, an invalid result, or not in time.
        """
        try:
            async with self._elicitations or nullcontext():
                result = await self._client.call_tool(
                    tool, arguments, read_timeout_seconds=timeout, progress_callback=on_progress
                )
        except MCPError as error:
            raise self._read_error(error, timeout) from error
        except Exception as error:
            raise McpBackendFailed(f"MCP server {self._name!r}: {explain(error)}") from error
        return read_result(_whole(result))

    async def change(self) -> bool:
        """Wait for a change: return True if the tools have changed, False if the connection is over."""
        while not (self.is_over or self._tools_changed):
            self._changed.clear()
            await self._changed.wait()
        self._tools_changed = False
        return not self.is_over

    async def listen(self) -> None:
        """Subscribe to changes of the tools, if the server reports them only to subscribers."""
        capabilities = self._client.server_capabilities.tools
        is_modern = self._client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not is_modern or capabilities is None or not capabilities.list_changed:
            return
        while True:
            try:
                async with self._client.listen(tools_list_changed=True) as events:
                    self._note_change()  # the tools may have changed before the subscription
                    async for _ in events:
                        self._note_change()
            except (MCPError, SubscriptionLost) as error:
                log.debug("MCP server %r ended the subscription to its tools: %s", self._name, quote(error))
                if isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND:
                    return
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    @property
    def failure(self) -> str:
        """Why the connection is over."""
        if self._is_forgotten:
            return "it no longer knows this session"
        if isinstance(self._incoming, McpFrameReader) and self._incoming.failure is not None:
            return str(self._incoming.failure)
        return self._rejection or "it closed the connection"

    def explain(self, error: Exception) -> str:
        """Describe why the server failed, with everything that is known."""
        if isinstance(self._incoming, McpFrameReader) and self._incoming.failure is not None:
            return str(self._incoming.failure)
        return f"{explain(error)} ({self._rejection})" if self._rejection is not None else explain(error)

    @property
    def stderr_tail(self) -> str:
        """The end of the server's stderr, if it is a process."""
        return self._incoming.stderr_tail if isinstance(self._incoming, McpFrameReader) else ""

    async def _discover(self) -> None:
        """Ask the server for its capabilities; a small one may answer only calls of tools."""
        session = self._client.session
        try:
            session.adopt(DiscoverResult.model_validate(await session.send_discover(LATEST_MODERN_VERSION)))
        except (MCPError, ValidationError, RuntimeError) as error:
            log.debug("MCP server %r does not report its capabilities: %s", self._name, quote(error))

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._note_change()
        elif isinstance(message, ElicitCompleteNotification) and self._elicitations is not None:
            await self._elicitations.completed(message.params.elicitation_id)

    def _note_change(self) -> None:
        self._tools_changed = True
        self._changed.set()

    def _note_rejection(self, rejection: str) -> None:
        self._rejection = rejection
        if isinstance(self._server, SseMcpServer):
            # After one rejected message the SDK sends nothing further, and would wait for its response forever.
            self._end()

    def _end(self) -> None:
        if self._watched is not None:
            self._watched.end()

    def _note_end(self) -> None:
        self.is_over = True
        self._changed.set()

    def _read_error(self, error: MCPError, timeout: float | None) -> RequestError:
        if self.is_over:
            return McpServerUnavailable(f"MCP server {self._name!r} ended before it answered: {self.failure}")
        if error.code == INVALID_REQUEST and error.message == "Session terminated":
            # The SDK's message for a session that the server no longer knows, for example after its restart.
            self._is_forgotten = True
            self._end()
            return McpServerUnavailable(f"MCP server {self._name!r}: {self.failure}")
        if error.code == REQUEST_TIMEOUT and timeout is not None:
            return McpBackendFailed(f"MCP server {self._name!r} did not answer within {timeout:g} s")
        if error.code in BINDING_ERRORS:
            return error_for_code(error.code, error.message, error.data)
        rejection, self._rejection = self._rejection, None
        detail = f" ({rejection})" if rejection is not None else ""
        data = {"code": error.code, "message": error.message, "data": error.data}
        return McpBackendFailed(f"MCP server {self._name!r}: {error.message}{detail}", data=data)


@asynccontextmanager
async def connect(server: McpServer, options: ConnectOptions) -> AsyncGenerator[McpConnection]:
    """Connect to a server and list its tools; the connection lasts as long as this context.

    Raises:
        StartError: The server did not start, or failed later; the message says why.
    """
    connection, timeout = McpConnection(server, options), options.start_timeout
    try:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(timeout):
                    await stack.enter_async_context(connection._client)
                    if isinstance(server, AcpMcpServer):
                        await connection._discover()
                    connection.tools = await connection.list_tools()
            except TimeoutError:
                raise StartError(f"no answer within {timeout:g} s\n{connection.stderr_tail}".rstrip()) from None
            connection._rejection = None
            yield connection
    except Exception as error:
        raise StartError(connection.explain(error)) from error


def _whole(result: CallToolResult) -> JsonObject:
    return whole_result(result.meta) or result.model_dump(by_alias=True, mode="json", exclude_none=True)


def explain(error: BaseException) -> str:
    """Describe an error in a line or two, however deep the SDK has wrapped it."""
    return "; ".join(dict.fromkeys(map(_describe, _leaves(error)))) or type(error).__name__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _describe(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its message is not valid MCP: {first['msg']} at {'.'.join(map(str, first['loc']))}"
    text = str(error)
    return text if isinstance(error, DuologueError | MCPError) and text else f"{type(error).__name__}: {text}"
