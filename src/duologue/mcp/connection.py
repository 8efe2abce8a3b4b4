"""One live connection to an MCP server through the official SDK, whatever way it is reached."""

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

__all__ = ["McpConnection", "connect", "explain"]

MAX_PAGES = 1_000
"""Pages of a tool list that are read; a list that goes on is a loop."""

LISTEN_AGAIN_SECONDS = 5.0
"""Between two attempts to hear of changed tools; a proxy on the way cuts such a stream at any time."""

BINDING_ERRORS = {error.code for error in (McpLimitReached, McpServerUnavailable, McpBackendFailed)}

log = logging.getLogger(__name__)


class McpConnection:
    """A connection to one MCP server. `connect` makes it.

    Attributes:
        tools: The definitions of its tools, as last listed.
        is_over: Nothing more will come.
    """

    def __init__(self, server: McpServer, reach: ConnectOptions) -> None:
        self.tools: list[JsonObject] = []
        self._name = server.name
        self._server = server
        self._reach = reach
        # The SDK advertises forms and addresses alike; a user who cannot do one of them refuses it.
        self._questions = None if reach.user is None else ElicitationBridge(server.name, reach.user)
        self._client = Client(
            self._streams(),
            mode=LATEST_MODERN_VERSION if isinstance(server, AcpMcpServer) else "auto",
            cache=None,
            client_info=Implementation(name=reach.client.name, version=reach.client.version, title=reach.client.title),
            message_handler=self._hear,
            elicitation_callback=None if self._questions is None else self._questions.put,
        )
        self.is_over = False
        self._is_forgotten = False
        self._incoming: Incoming | None = None
        self._watched: Watched | None = None
        self._refusal: str | None = None
        self._tools_changed = False
        self._news = asyncio.Event()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Watched, Outgoing]]:
        async with open_streams(self._server, self._reach, self._note_refusal) as (incoming, outgoing):
            self._incoming = incoming
            self._watched = Watched(incoming, self._note_end)
            yield self._watched, outgoing

    async def list_tools(self) -> list[JsonObject]:
        """The definitions of its tools, all pages of them.

        Raises:
            StartError: The list is no list.
            MCPError: The server refuses to say.
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
        """List the tools again; True if there is anything new. If that fails, what was listed before still stands."""
        before = self.tools
        try:
            self.tools = await self.list_tools()
        except Exception as error:
            log.warning("MCP server %r does not list its tools again: %s", self._name, quote(explain(error)))
        return self.tools != before

    async def call(
        self, tool: str, arguments: JsonObject, *, timeout: float | None, on_progress: OnProgress | None
    ) -> McpResult:
        """Call a tool.

        Raises:
            McpServerUnavailable: The server ended before it answered.
            McpBackendFailed: The server refused the call, or answered nonsense, or did not answer in time.
        """
        try:
            async with self._questions or nullcontext():
                result = await self._client.call_tool(
                    tool, arguments, read_timeout_seconds=timeout, progress_callback=on_progress
                )
        except MCPError as error:
            raise self._read_error(error, timeout) from error
        except Exception as error:
            raise McpBackendFailed(f"MCP server {self._name!r}: {explain(error)}") from error
        return read_result(_whole(result))

    async def change(self) -> bool:
        """Wait for news: True when the tools have changed, False when the connection is over."""
        while not (self.is_over or self._tools_changed):
            self._news.clear()
            await self._news.wait()
        self._tools_changed = False
        return not self.is_over

    async def listen(self) -> None:
        """Hear of changed tools, where the server tells them only to those who ask."""
        capabilities = self._client.server_capabilities.tools
        is_modern = self._client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not is_modern or capabilities is None or not capabilities.list_changed:
            return
        while True:
            try:
                async with self._client.listen(tools_list_changed=True) as events:
                    self._note_change()  # Nobody was listening until now.
                    async for _ in events:
                        self._note_change()
            except (MCPError, SubscriptionLost) as error:
                log.debug("MCP server %r tells no more of its tools: %s", self._name, quote(error))
                if isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND:
                    return
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    @property
    def failure(self) -> str:
        """Why the connection is over."""
        if self._is_forgotten:
            return "it has forgotten this connection"
        if isinstance(self._incoming, McpFrameReader) and self._incoming.failure is not None:
            return str(self._incoming.failure)
        return self._refusal or "it closed the connection"

    def explain(self, error: Exception) -> str:
        """Why it failed to start or broke down, as far as anybody can tell."""
        if isinstance(self._incoming, McpFrameReader) and self._incoming.failure is not None:
            return str(self._incoming.failure)
        return f"{explain(error)} ({self._refusal})" if self._refusal is not None else explain(error)

    @property
    def last_words(self) -> str:
        """The end of its stderr, if it is a process."""
        return self._incoming.last_words if isinstance(self._incoming, McpFrameReader) else ""

    async def _ask_what_it_can(self) -> None:
        """A small server may answer calls and nothing else; it is asked, and may refuse."""
        session = self._client.session
        try:
            session.adopt(DiscoverResult.model_validate(await session.send_discover(LATEST_MODERN_VERSION)))
        except (MCPError, ValidationError, RuntimeError) as refusal:
            log.debug("MCP server %r does not say what it can: %s", self._name, quote(refusal))

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._note_change()
        elif isinstance(message, ElicitCompleteNotification) and self._questions is not None:
            await self._questions.completed(message.params.elicitation_id)

    def _note_change(self) -> None:
        self._tools_changed = True
        self._news.set()

    def _note_refusal(self, refusal: str) -> None:
        self._refusal = refusal
        if isinstance(self._server, SseMcpServer):
            # The SDK sends nothing more after one message that was not taken, and waits for its answer for ever.
            self._end()

    def _end(self) -> None:
        if self._watched is not None:
            self._watched.end()

    def _note_end(self) -> None:
        self.is_over = True
        self._news.set()

    def _read_error(self, error: MCPError, timeout: float | None) -> RequestError:
        if self.is_over:
            return McpServerUnavailable(f"MCP server {self._name!r} ended before it answered: {self.failure}")
        if error.code == INVALID_REQUEST and error.message == "Session terminated":
            # The SDK's words for a server that has forgotten us, which happens when it is restarted.
            self._is_forgotten = True
            self._end()
            return McpServerUnavailable(f"MCP server {self._name!r}: {self.failure}")
        if error.code == REQUEST_TIMEOUT and timeout is not None:
            return McpBackendFailed(f"MCP server {self._name!r} did not answer within {timeout:g} s")
        if error.code in BINDING_ERRORS:
            return error_for_code(error.code, error.message, error.data)
        refusal, self._refusal = self._refusal, None
        detail = f" ({refusal})" if refusal is not None else ""
        data = {"code": error.code, "message": error.message, "data": error.data}
        return McpBackendFailed(f"MCP server {self._name!r}: {error.message}{detail}", data=data)


@asynccontextmanager
async def connect(server: McpServer, reach: ConnectOptions, timeout: float) -> AsyncGenerator[McpConnection]:
    """A connection to a server that has shown its tools; it lasts as long as this context.

    Raises:
        StartError: There is none, or it broke down; the message says all that is known of it.
    """
    link = McpConnection(server, reach)
    try:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(timeout):
                    await stack.enter_async_context(link._client)
                    if isinstance(server, AcpMcpServer):
                        await link._ask_what_it_can()
                    link.tools = await link.list_tools()
            except TimeoutError:
                raise StartError(f"no answer within {timeout:g} s\n{link.last_words}".rstrip()) from None
            link._refusal = None
            yield link
    except Exception as error:
        raise StartError(link.explain(error)) from error


def _whole(result: CallToolResult) -> JsonObject:
    return whole_result(result.meta) or result.model_dump(by_alias=True, mode="json", exclude_none=True)


def explain(error: BaseException) -> str:
    """An error in a line or two, however deep the SDK has wrapped it."""
    return "; ".join(dict.fromkeys(map(_words, _leaves(error)))) or type(error).__name__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _words(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"what it says does not fit MCP: {first['msg']} at {'.'.join(map(str, first['loc']))}"
    text = str(error)
    return text if isinstance(error, DuologueError | MCPError) and text else f"{type(error).__name__}: {text}"
