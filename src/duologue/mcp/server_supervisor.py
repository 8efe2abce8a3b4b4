"""One MCP server of a session, through all its lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import McpServer
from duologue.errors import McpServerUnavailable, StartError
from duologue.mcp.options import ConnectOptions
from duologue.mcp.tools import Call, McpTool

if TYPE_CHECKING:
    from duologue.mcp.connection import McpConnection

    Connect: TypeAlias = Callable[[McpServer, ConnectOptions, float], AbstractAsyncContextManager[McpConnection]]

__all__ = ["State", "SupervisedServer", "SupervisorOptions"]

State: TypeAlias = Literal["starting", "ready", "restarting", "failed", "closed"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SupervisorOptions:
    """How the servers of a session are looked after.

    Attributes:
        reach: What they are reached with.
        start_timeout: Seconds for one to start.
        restart_pauses: Seconds before each restart; there are no more restarts than these.
        slots: Taken by each while it starts.
        on_change: Told the name of a server whose state or tools have changed.
        call: How its tools are called.
    """

    reach: ConnectOptions
    start_timeout: float
    restart_pauses: Sequence[float]
    slots: asyncio.Semaphore
    on_change: Callable[[str], None]
    call: Call


class SupervisedServer:
    """A server from its first start to its end. `run()` is its life; to end it call `close()`, then cancel it.

    Attributes:
        state: See the table in `servers.py`.
        error: Why it failed, or died last.
        tools: What it offers, as last listed.
    """

    def __init__(self, config: McpServer, supervision: SupervisorOptions) -> None:
        self.state: State = "starting"
        self.error: str | None = None
        self.tools: list[McpTool] = []
        self._config = config
        self._supervision = supervision
        self._link: McpConnection | None = None
        self._was_ready = False
        self._is_closing = False
        self._settled = asyncio.Event()

    async def run(self) -> None:
        """Start it, and again when it dies, until it has failed."""
        try:
            self.error = await self._live()
            # One that never started would not start the next time either.
            for pause in self._supervision.restart_pauses if self._was_ready else ():
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
        """Start it no more. The SDK may swallow a cancellation that comes while it ends a connection by itself."""
        self._is_closing = True

    async def settled(self) -> None:
        """Wait until it is ready, or will never be."""
        await self._settled.wait()

    async def link(self) -> McpConnection:
        """The connection to it, once there is one.

        Raises:
            McpServerUnavailable: There will be none.
        """
        while self._link is None or self._link.is_over:
            if self.state in ("failed", "closed"):
                reason = f": {self.error}" if self.error else ""
                raise McpServerUnavailable(f"MCP server {self._config.name!r} is {self.state}{reason}")
            if self._link is not None:
                self._settled.clear()  # It is over, but nobody had time to say so yet.
            await self._settled.wait()
        return self._link

    async def _live(self) -> str:
        """Start it and stay with it to its end; returns why it ended."""
        supervision = self._supervision
        try:
            connect = await _load_sdk()
            async with AsyncExitStack() as stack:
                async with supervision.slots:
                    connection = connect(self._config, supervision.reach, supervision.start_timeout)
                    self._link = link = await stack.enter_async_context(connection)
                self._was_ready = True
                self._show_tools(link.tools)
                self._become("ready")
                try:
                    if not self._is_closing:
                        await self._follow(link)
                finally:
                    self._link = None
                    self._become("restarting")
                return link.failure
        except StartError as error:
            return str(error)

    async def _follow(self, link: McpConnection) -> None:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(link.listen())
            while await link.change():
                if await link.refresh():
                    self._show_tools(link.tools)
                    self._tell()
            listening.cancel()

    def _show_tools(self, definitions: list[JsonObject]) -> None:
        self.tools = [McpTool(self._config, definition, self._supervision.call) for definition in definitions]

    def _become(self, state: State) -> None:
        self.state = state
        if state == "restarting":
            self._settled.clear()
        else:
            self._settled.set()
        self._tell()

    def _tell(self) -> None:
        try:
            self._supervision.on_change(self._config.name)
        except Exception:
            log.exception("the callback for a changed MCP server failed")


async def _load_sdk() -> Connect:
    # It takes a second or two to load, and the event loop must not stand still meanwhile.
    try:
        await asyncio.to_thread(import_module, "duologue.mcp.connection")
    except ImportError as error:
        raise StartError(f"MCP needs the official SDK, install duologue[mcp]: {error}") from error
    from duologue.mcp.connection import connect

    return connect
