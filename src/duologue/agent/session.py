"""A session as its agent sees it: a place to work, settings, and a client to talk to."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duologue.agent.elicitation_forwarder import ElicitationForwarder
from duologue.agent.permissions import RememberedAnswers
from duologue.agent.persistence import SavedState, SessionPersistence
from duologue.agent.prompt_queue import PromptQueue
from duologue.agent.settings import Settings
from duologue.conversation.content import Content, JsonObject, text_of
from duologue.conversation.session_setup import Implementation, SessionParams
from duologue.conversation.updates import (
    UNSET,
    AvailableCommand,
    CommandsUpdate,
    InfoUpdate,
    ModeUpdate,
    NoticeUpdate,
    SettingsUpdate,
    ToolCallUpdate,
    Update,
)
from duologue.conversation.work_state import FINAL_STATUSES, BackgroundWork
from duologue.errors import ConnectionLost, EncodeError, StoreError
from duologue.local.files import Roots
from duologue.protocol.interfaces import ClientProxy
from duologue.runtime.tasks import TaskScope

if TYPE_CHECKING:
    from duologue.agent.agent import Agent
    from duologue.agent.turn import Turn
    from duologue.mcp.servers import McpServers

__all__ = ["Session"]

_log = logging.getLogger("duologue.agent")

S = TypeVar("S", bound=Settings)

"""What a tool call ends with."""

TITLE_CHARACTERS = 80
"""Of a prompt that becomes a title: one line of a list."""

CLOSE_GRACE = 1.0
"""Seconds that work between turns gets to clean up when its session is closed."""

GONE_GRACE = 0.2
"""The same when the client is gone, and the whole agent has two seconds to end."""


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
        errands: Runs what must still be done when a turn has ended, and soon is: releasing, last words.
    """

    def __init__(
        self,
        session_id: str,
        setup: SessionParams,
        agent: Agent[S],
        editor: ClientProxy,
        keeping: SessionPersistence,
        kept: SavedState,
    ) -> None:
        self.id = session_id
        self.setup = setup
        self.cwd = Path(setup.cwd)
        self.settings = agent.settings_type(kept.settings)
        self.editor = editor
        self.state: JsonObject = kept.state
        self.title: str | None = None
        self.remembered = RememberedAnswers()
        self.finished_compactions: set[str] = set()
        self.cancellable: dict[str, Callable[[], Awaitable[None]]] = {}
        """Tool calls and terminals that run and that the client may cancel alone, by their ids."""
        self._background: list[BackgroundWork] = []
        self.permission_timeout = agent.permission_timeout
        self.tasks = TaskScope()
        self.cleanup_tasks = TaskScope()
        self.prompts = PromptQueue(
            self.tasks, self._persist_end, lambda: GONE_GRACE if editor.is_gone else agent.cancel_timeout
        )
        self.roots = Roots(setup.roots)
        self.available_commands = [command for command, _ in agent.commands.values()]
        self._persistence = keeping
        self._open_sessions = agent.open_sessions
        self._closing = asyncio.Lock()
        self._is_closed = False
        self._own_title = kept.title
        self._is_titled_by_user = False
        self._titles = agent.titles
        self._needs_title = True
        self._mcp: McpServers | None = None
        self._announced = asyncio.Event()
        self._buffered_updates: list[Update] = []
        keeping.begin_with(self._saved_state)

    def new_id(self, kind: str) -> str:
        """An id nobody has used or will guess: `call_…`, `msg_…`."""
        return f"{kind}_{secrets.token_hex(8)}"

    @property
    def has_mcp(self) -> bool:
        """Whether the session's MCP servers are connected: the agent uses them, and the extra is installed."""
        return self._mcp is not None

    @property
    def mcp(self) -> McpServers:
        """The session's MCP servers.

        Raises:
            RuntimeError: The agent does not use them.
        """
        if self._mcp is None:
            raise RuntimeError(
                "this agent does not use MCP servers; make it with `Agent(…, mcp=True)` and install `duologue[mcp]`"
            )
        return self._mcp

    async def start_mcp(self, us: Implementation) -> None:
        """Start the servers this session was opened with; calls to them wait until they are ready."""
        from duologue.mcp.servers import McpServers

        can_ask = self.editor.features.forms or self.editor.features.urls
        self._mcp = McpServers(
            self.setup.mcp_servers,
            send=self.editor.mcp_message if self.editor.carries_mcp else None,
            cwd=self.setup.cwd,
            client=us,
            user=ElicitationForwarder(self.editor, self.id) if can_ask else None,
        )
        await self._mcp.__aenter__()

    async def leave_mcp(self, why: str) -> None:
        """Say once that the servers this session was opened with are not connected: in a notice, or in the log."""
        names = ", ".join(server.name for server in self.setup.mcp_servers)
        if self.editor.features.notices:
            title = "MCP servers are not connected"
            await self._send(NoticeUpdate(severity="warning", title=title, description=f"{names}: {why}"))
        else:
            _log.warning("session %s: MCP servers are not connected (%s): %s", self.id, names, why)

    # --- telling

    async def update(self, update: Update) -> None:
        """Tell the client something, in a turn or between turns; it is kept where sessions are kept.

        Before the client knows the session, it is told as soon as it does. That a tool call has ended is told once it
        is safe.

        Raises:
            StoreError: It could not be made safe, and was not told.
        """
        if isinstance(update, InfoUpdate) and update.title is not UNSET:
            if self._is_titled_by_user:
                return
            self._needs_title = False
            self.title = self._own_title = update.title
            self.save()
        self._persistence.append(update)
        if isinstance(update, ToolCallUpdate) and update.status in FINAL_STATUSES:
            await self._persistence.commit()
        await self._send(update)

    async def send_final_update(self, update: Update) -> None:
        """Like `update`, for work that is being cancelled: nothing keeps it from leaving, and nobody waits for it."""
        self._persistence.append(update)
        try:
            await asyncio.shield(self.cleanup_tasks.start(self._send_final_update(update)))
        except StoreError as error:
            _log.debug("last words were not kept: %s", error)

    async def _send_final_update(self, update: Update) -> None:
        try:
            await self._persistence.commit()
        finally:
            self.cleanup_tasks.start(self._send_ignoring_errors(update))
            await asyncio.sleep(0)  # from here on it stands in the queue, however slow the client is

    async def _send_ignoring_errors(self, update: Update) -> None:
        with suppress(ConnectionLost):
            await self._send(update)

    async def _send(self, update: Update) -> None:
        if self._announced.is_set():
            await self.editor.update(self.id, update)
        else:
            self._buffered_updates.append(update)

    @property
    def is_announced(self) -> bool:
        """The client has heard of it."""
        return self._announced.is_set()

    async def mark_announced(self) -> None:
        """The client knows the session now: tell what was to be told since it was opened."""
        try:
            while self._buffered_updates:
                await self._send_buffered(self._buffered_updates.pop(0))
        finally:
            self._announced.set()

    async def _send_buffered(self, update: Update) -> None:
        try:
            await self.editor.update(self.id, update)
        except EncodeError as error:  # whoever made it is not there any more to hear of it
            _log.error("session %s: an update could not be told: %s", self.id, error)

    async def commands(self, commands: list[AvailableCommand]) -> None:
        """Offer these slash commands from now on."""
        self.available_commands = commands
        if self._announced.is_set():
            await self.update(CommandsUpdate(commands=commands))

    async def set_option(self, **values: str | bool) -> None:
        """Change settings from the agent's side; the client is told once, after all of them.

        Raises:
            InvalidParams: No such setting or value.
        """
        changed = [key for key, value in values.items() if self.settings.change(key, value)]
        if changed:
            await self.send_settings(changed)

    async def send_settings(self, changed: list[str]) -> None:
        """Bring the client up to date: modes for those who know modes, the complete list for the others."""
        described = self.settings.describe()
        for setting in described:
            if setting.setting_id in changed and setting.category == "mode":
                await self.send_mode(str(setting.value))
        await self.update(SettingsUpdate(settings=described))
        self.save()

    async def send_mode(self, mode_id: str) -> None:
        """The session works in another mode now."""
        await self.update(ModeUpdate(mode_id=mode_id))

    @asynccontextmanager
    async def background(self, kind: str, work_id: str) -> AsyncGenerator[None]:
        """While the block runs, this goes on beside the turns: a `terminal`, a `tool_call` or a `subagent`, by its id.

        Clients of version 1 are not told.
        """
        work = BackgroundWork(kind=kind, work_id=work_id)
        self._background.append(work)
        try:
            await self.editor.work_in_background(self.id, list(self._background))
            yield
        finally:
            self._background.remove(work)
            with suppress(ConnectionLost):
                await self.editor.work_in_background(self.id, list(self._background))

    def on_mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        """What the client's MCP server says while a request of ours to it runs."""
        if self._mcp is not None:
            self._mcp.on_message(server_id, request_id, method, params)

    # --- the title

    def restore_title(self, title: str | None) -> None:
        """Take the title that the list shows. If it is not the one the agent gave, the user did."""
        self.title = title
        self._is_titled_by_user = title not in (None, self._own_title)
        self._needs_title = title is None

    async def _title_by(self, prompt: list[Content]) -> None:
        """Make the beginning of the first prompt the title of the session; the agent may give a better one."""
        words = " ".join(text_of(prompt)[: 10 * TITLE_CHARACTERS].split())
        if self._titles and self._needs_title and words:
            is_short = len(words) <= TITLE_CHARACTERS
            await self.update(InfoUpdate(title=words if is_short else words[: TITLE_CHARACTERS - 1].rstrip() + "…"))

    async def set_user_title(self, title: str) -> None:
        """The user gave the session this title; the agent does not change it any more."""
        self.title = title
        self._is_titled_by_user = True
        self._needs_title = False
        self._persistence.append(InfoUpdate(title=title))
        await self._send(InfoUpdate(title=title))

    # --- keeping

    def save(self) -> None:
        """Keep settings and state as they are now; `commit` says when that is safe."""
        self._persistence.save(self._saved_state)

    @property
    def _saved_state(self) -> SavedState:
        return SavedState(settings=self.settings.values, state=self.state, title=self._own_title)

    async def commit(self) -> None:
        """Until everything told so far is kept."""
        await self._persistence.commit()

    def history(self) -> AsyncIterator[Update]:
        """What was told in this session so far, less the turns that were refused: what the next prompt builds on.

        Pieces come joined, tool calls as they ended. Empty where sessions are not kept.
        """
        return self._persistence.history()

    async def run(
        self, turn: Turn[Any], handler: Callable[[Turn[Any]], Awaitable[Any]], begin: Callable[[], Awaitable[None]]
    ) -> str:
        """Handle a prompt when its turn comes and `begin` passes; how it ended, once everything told in it is kept."""

        async def handle(turn: Turn[Any]) -> Any:
            await self._announced.wait()
            await begin()
            self._persistence.begin_turn(turn.prompt, turn.message_id)
            await self._title_by(turn.prompt)
            try:
                return await handler(turn)
            finally:
                await turn.end_compactions()

        return await self.prompts.run(turn, handle)

    async def _persist_end(self, reason: str) -> None:
        # Nobody asked for the end of this turn; those who open the session again are to see that it was cut off.
        was_cut_off = reason == "cancelled" and self.editor.is_gone
        try:
            self.save()
        finally:
            await self._persistence.end_turn(None if was_cut_off else reason)

    async def aclose(self) -> None:
        """End the running work, that between turns too, and free what the session holds. Twice is as good as once."""
        async with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                await self._end_work(GONE_GRACE if self.editor.is_gone else CLOSE_GRACE)
            finally:
                self.roots.close()
                await self._let_go()

    async def _end_work(self, grace: float) -> None:
        await self.prompts.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.cleanup_tasks.settle()
        await self.cleanup_tasks.cancel(grace)
        await self.tasks.cancel(grace)
        if self._mcp is not None:
            await self._mcp.aclose()

    async def _let_go(self) -> None:
        try:
            self.save()
        except Exception as error:
            _log.error("the state of session %s could not be kept: %s", self.id, error)
        try:
            await self._persistence.aclose()
        except StoreError as error:
            _log.error("the last of session %s could not be kept: %s", self.id, error)
        if self._open_sessions.get(self.id) is self:
            del self._open_sessions[self.id]
