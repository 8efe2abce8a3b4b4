"""A session as its agent sees it: a place to work, settings, and a client to talk to."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from duologue.agent.permission import Remembered
from duologue.agent.running import Prompts
from duologue.agent.settings import Settings
from duologue.conversation.content import JsonObject
from duologue.conversation.setup import Party, SessionSetup
from duologue.conversation.updates import (
    UNSET,
    Command,
    CommandsChanged,
    InfoChanged,
    ModeChanged,
    SettingsChanged,
    Update,
)
from duologue.dialects.contract import Editor
from duologue.local.files import Roots
from duologue.runtime.tasks import TaskScope

if TYPE_CHECKING:
    from duologue.agent.turn import Turn
    from duologue.mcp.servers import McpServers
    from duologue.store.base import SessionLog

__all__ = ["STATE_NAME", "Kept", "Session", "read_kept"]

S = TypeVar("S", bound=Settings)

STATE_NAME = "duologue"
"""Under which name a store keeps what belongs to the session itself."""

CLOSE_GRACE = 1.0
"""Seconds that work between turns gets to clean up when its session is closed."""


class Kept(msgspec.Struct):
    """What is kept of a session beside its updates."""

    settings: dict[str, str | bool] = {}
    state: JsonObject = {}


def read_kept(stored: bytes | None) -> Kept:
    """What was kept; nothing, if it cannot be read any more."""
    try:
        return Kept() if stored is None else msgspec.json.decode(stored, type=Kept)
    except msgspec.MsgspecError:
        return Kept()


class Session(Generic[S]):
    """One conversation.

    Attributes:
        id: Its name on the wire.
        cwd: Its directory.
        setup: What the client opened it with.
        settings: Their values now.
        state: Yours, plain JSON; kept with the session where sessions are kept.
        editor: The client; the turn's methods are the comfortable way to it.
        title: What the session is called, if it is.
        tasks: Runs work that goes on between turns, as `session.tasks.start(work())`; it ends with the session.
    """

    def __init__(
        self,
        session_id: str,
        setup: SessionSetup,
        settings: S,
        editor: Editor,
        *,
        log: SessionLog | None = None,
        state: JsonObject | None = None,
    ) -> None:
        self.id = session_id
        self.setup = setup
        self.cwd = Path(setup.cwd)
        self.settings = settings
        self.editor = editor
        self.state: JsonObject = state if state is not None else {}
        self.title: str | None = None
        self.log = log
        self.remembered = Remembered()
        self.tasks = TaskScope()
        self.prompts = Prompts(self.tasks)
        self.roots = Roots(setup.roots)
        self._mcp: McpServers | None = None
        self._commands: list[Command] = []

    def new_id(self, kind: str) -> str:
        """An id nobody has used or will guess: `call_…`, `msg_…`."""
        return f"{kind}_{secrets.token_hex(8)}"

    @property
    def mcp(self) -> McpServers:
        """The session's MCP servers.

        Raises:
            RuntimeError: The agent was not told to use them.
        """
        if self._mcp is None:
            raise RuntimeError("this agent does not use MCP servers; make it with `Agent(…, mcp=True)`")
        return self._mcp

    async def start_mcp(self, us: Party) -> None:
        """Start the servers this session was opened with; calls to them wait until they are ready."""
        from duologue.mcp.servers import McpServers

        self._mcp = McpServers(self.setup.mcp_servers, send=self.editor.mcp_message, cwd=self.setup.cwd, client=us)
        await self._mcp.__aenter__()

    # --- telling

    async def update(self, update: Update) -> None:
        """Tell the client something, in a turn or between turns; it is kept where sessions are kept."""
        if isinstance(update, InfoChanged) and update.title is not UNSET:
            self.title = update.title
        if self.log is not None:
            self.log.append(update)
        await self.editor.update(self.id, update)

    async def commands(self, commands: list[Command]) -> None:
        """Offer these slash commands from now on."""
        self._commands = commands
        await self.update(CommandsChanged(commands=commands))

    async def set(self, **values: str | bool) -> None:
        """Change settings from the agent's side; the client is told once, after all of them.

        Raises:
            InvalidParams: No such setting or value.
        """
        changed = [key for key, value in values.items() if self.settings.change(key, value)]
        if changed:
            await self.tell_settings(changed)

    async def tell_settings(self, changed: list[str]) -> None:
        """Bring the client up to date: modes for those who know modes, the complete list for the others."""
        described = self.settings.describe()
        for setting in described:
            if setting.setting_id in changed and setting.category == "mode":
                await self.tell_mode(str(setting.value))
        await self.update(SettingsChanged(settings=described))

    async def tell_mode(self, mode_id: str) -> None:
        """The session works in another mode now."""
        await self.update(ModeChanged(mode_id=mode_id))

    def on_mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        """What the client's MCP server says while a request of ours to it runs."""
        if self._mcp is not None:
            self._mcp.on_message(server_id, request_id, method, params)

    # --- keeping

    async def commit(self) -> None:
        """Until everything told so far is kept."""
        if self.log is not None:
            await self.log.commit()

    async def run(self, turn: Turn[Any], handler: Callable[[Turn[Any]], Awaitable[Any]]) -> str:
        """Handle a prompt when its turn comes; how it ended, once everything told in it is kept."""
        return await self.prompts.run(turn, lambda its: self._handle(its, handler), self._keep_end)

    async def _handle(self, turn: Turn[Any], handler: Callable[[Turn[Any]], Awaitable[Any]]) -> Any:
        if self.log is not None:
            self.log.begin_turn(turn.prompt)
        return await handler(turn)

    async def _keep_end(self, reason: str) -> None:
        if self.log is not None and self.log.turn:
            kept = Kept(settings=self.settings.values, state=self.state)
            self.log.save_state(STATE_NAME, msgspec.json.encode(kept))
            await self.log.end_turn(reason)

    async def aclose(self) -> None:
        """End the running work, that between turns too, and free what the session holds."""
        await self.prompts.end()
        await self.tasks.cancel(CLOSE_GRACE)
        if self._mcp is not None:
            await self._mcp.aclose()
        self.roots.close()
        if self.log is not None:
            await self.log.aclose()
