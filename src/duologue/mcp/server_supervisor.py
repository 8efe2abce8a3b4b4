"""Run one MCP server of a session, and restart it when it dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import McpServer
from duologue.errors import McpServerUnavailable, StartError
from duologue.mcp.options import ConnectOptions
from duologue.mcp.tools import McpTool

if TYPE_CHECKING:
    from duologue.mcp.connection import McpConnection

    Connect: TypeAlias = Callable[[McpServer, ConnectOptions], AbstractAsyncContextManager[McpConnection]]

State: TypeAlias = Literal["starting", "ready", "restarting", "failed", "closed"]

log = logging.getLogger(__name__)


class SupervisedServer:
    """A server from its first start to its end: `run()` runs it; to end it call `close()`, then cancel `run()`.

    Attributes:
        state: See the table in `servers.py`.
        error: Why it failed, or why it died last.
        tools: Its tools, as last listed.
    """

    def __init__(self, config: McpServer, options: ConnectOptions) -> None:
        self.state: State = "starting"
        self.error: str | None = None
        self.tools: list[McpTool] = []
        self._config = config
        self._options = options
        self._connection: McpConnection | None = None
        self._was_ready = False
        self._is_closing = False
        self._settled = asyncio.Event()

    async def run(self) -> None:
        """Start the server, and restart it when it dies, until it has failed."""
        try:
            self.error = await self._live()
            # A server that never started would not start the next time either.
            for pause in self._options.restart_pauses if self._was_ready else ():
                if self._is_closing:
                    return
                await asyncio.sleep(pause)
                self.error = await self._live()
            if not self._is_closing:
                self._become("failed")
        finally:
            if self.state != "failed":
                self._become("closed")

    def close(self) -> None:
        """Prevent further restarts: the SDK may swallow a cancellation that arrives while it ends a connection."""
        self._is_closing = True

    async def settled(self) -> None:
        """Wait until the server is ready or has failed."""
        await self._settled.wait()

    async def connection(self) -> McpConnection:
        """Wait for the connection to the server and return it.

        Raises:
            McpServerUnavailable: The server has failed or is closed.
        """
        while self._connection is None or self._connection.is_over:
            if self.state in ("failed", "closed"):
                reason = f": {self.error}" if self.error else ""
                raise McpServerUnavailable(f"MCP server {self._config.name!r} is {self.state}{reason}")
            if self._connection is not None:
                self._settled.clear()  # it is over, but `_live` has not noticed yet
            await self._settled.wait()
        return self._connection

    async def _live(self) -> str:
        """Run the server once, until it ends; return why it ended."""
        try:
            connect = await _load_sdk()
            async with AsyncExitStack() as stack:
                async with self._options.slots:
                    connection = await stack.enter_async_context(connect(self._config, self._options))
                    self._connection = connection
                self._was_ready = True
                self._show_tools(connection.tools)
                self._become("ready")
                try:
                    if not self._is_closing:
                        await self._follow(connection)
                finally:
                    self._connection = None
                    self._become("restarting")
                return connection.failure
        except StartError as error:
            return str(error)

    async def _follow(self, connection: McpConnection) -> None:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(connection.listen())
            while await connection.change():
                if await connection.refresh():
                    self._show_tools(connection.tools)
                    self._notify()
            listening.cancel()

    def _show_tools(self, definitions: list[JsonObject]) -> None:
        self.tools = [McpTool(self._config, definition, self._options.call) for definition in definitions]

    def _become(self, state: State) -> None:
        self.state = state
        if state == "restarting":
            self._settled.clear()
        else:
            self._settled.set()
        self._notify()

    def _notify(self) -> None:
        try:
            self._options.on_change(self._config.name)
        except Exception:
            log.exception("the callback for a changed MCP server failed")


async def _load_sdk() -> Connect:
    # The SDK takes a second or two to load, which must not block the event loop.
    try:
        await asyncio.to_thread(import_module, "duologue.mcp.connection")
    except ImportError as error:
        raise StartError(f"MCP needs the official SDK; install duologue[mcp]: {error}") from error
    from duologue.mcp.connection import connect

    return connect
