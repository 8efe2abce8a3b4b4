"""One session as its agent sees it: directories, settings, state, and the client it talks to."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from duologue.agent.persistence import SavedState, SessionPersistence
from duologue.agent.session_title import SessionTitle
from duologue.agent.settings import S
from duologue.agent.turns.prompt_queue import PromptQueue
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation, McpServer, SessionParams
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
from duologue.local.open_directories import OpenDirectories
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.values import ClientCapabilities, PermissionOption
from duologue.runtime.tasks import TaskScope

if TYPE_CHECKING:
    from duologue.agent.agent import Agent
    from duologue.agent.background_task import BackgroundTaskHandle, TaskWork
    from duologue.agent.turn import Turn
    from duologue.mcp.servers import McpServers

_log = logging.getLogger("duologue.agent")

CLOSE_GRACE = 1.0
"""Seconds that work between turns gets to clean up when its session is closed."""

GONE_GRACE = 0.2
"""Seconds for the same when the client is gone: the whole agent has two seconds to end."""


class Session(Generic[S]):
    """One conversation with a client. The agent creates it; handlers receive it as `turn.session`.

    Attributes:
        id: The session id on the wire.
        cwd: The session's working directory.
        setup: The parameters with which the client opened the session.
        settings: The current values of the settings.
        state: A JSON object of your own; stored with the session if sessions are stored.
        available_commands: The slash commands that the client is offered; change them with `set_commands`.
        tasks: Runs work that continues between turns, as `session.tasks.start(work())`; it ends with the session.
    """

    def __init__(
        self,
        session_id: str,
        setup: SessionParams,
        agent: Agent[S],
        client: ClientProxy,
        persistence: SessionPersistence,
        saved: SavedState,
    ) -> None:
        self.id = session_id
        self.setup = setup
        self.cwd = Path(setup.cwd)
        self.settings = agent._settings_type(saved.settings)
        self.state: JsonObject = saved.state
        self.tasks = TaskScope()
        self.available_commands = [command for command, _ in agent._commands.values()]
        self._client = client
        self._remembered: dict[str, PermissionOption] = {}
        """The "always" answers of the user, by what each covers."""
        self._finished_compactions: set[str] = set()
        self._cancellable: dict[str, Callable[[], Awaitable[None]]] = {}
        """Cancels one running tool call or terminal, by its id."""
        self._background: list[BackgroundWork] = []
        self._background_tasks: dict[str, BackgroundTaskHandle] = {}
        self._permission_timeout, self._debug = agent._permission_timeout, agent._debug
        self._cleanup_tasks = TaskScope()
        """Runs what must still be done after a turn has ended: releasing terminals, final updates."""
        self._prompts = PromptQueue(
            self.tasks,
            self._persist_end if persistence.is_stored else None,
            lambda: GONE_GRACE if client.is_gone else agent._cancel_timeout,
        )
        self._directories = OpenDirectories(setup.roots)
        self._persistence, self._is_stored = persistence, persistence.is_stored
        self._open_sessions = agent._open_sessions
        self._closing = asyncio.Lock()
        self._is_closed = False
        self._title = SessionTitle(saved.title, agent._auto_title)
        self._mcp: McpServers | None = None
        self._announced = asyncio.Event()
        self._buffered_updates: list[Update] = []
        if persistence.is_stored:
            persistence.begin_with(self._saved_state)

    def __repr__(self) -> str:
        return f"<Session {self.id!r} in {self.cwd}>"

    def new_id(self, kind: str) -> str:
        """Return a new random id that begins with `kind`: `call_…`, `msg_…`."""
        return f"{kind}_{os.urandom(8).hex()}"

    @property
    def title(self) -> str | None:
        """The session's title, if it has one; `turn.set_title` changes it."""
        return self._title.text

    @property
    def client_info(self) -> Implementation | None:
        """Name and version of the client, if it sent them."""
        return self._client.info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """Capabilities that the client advertised."""
        return self._client.capabilities

    # --- MCP servers

    @property
    def has_mcp(self) -> bool:
        """True if the session's MCP servers are connected: the agent uses them and the extra `mcp` is installed."""
        return self._mcp is not None

    @property
    def mcp(self) -> McpServers:
        """The session's MCP servers.

        Raises:
            RuntimeError: The agent does not use MCP servers.
        """
        if self._mcp is None:
            raise RuntimeError(
                "this agent does not use MCP servers; create it with `Agent(…, mcp=True)` and install `duologue[mcp]`"
            )
        return self._mcp

    async def _start_mcp(self, agent_info: Implementation, own: Sequence[McpServer]) -> None:
        """Start the MCP servers of this session and the agent's own; calls to them wait until they are ready."""
        from duologue.agent.elicitation import ElicitationForwarder
        from duologue.mcp.servers import McpServers

        named = {server.name for server in self.setup.mcp_servers}
        can_elicit = self.client_capabilities.forms or self.client_capabilities.urls
        self._mcp = McpServers(
            [*self.setup.mcp_servers, *(each for each in own if each.name not in named)],
            send=self._client.mcp_message if self._client.carries_mcp else None,
            cwd=self.setup.cwd,
            client=agent_info,
            user=ElicitationForwarder(self._client, self.id) if can_elicit else None,
        )
        await self._mcp.__aenter__()

    async def _report_unused_mcp(self, reason: str) -> None:
        """Report once that this session's MCP servers are not connected: in a notice, or in the log."""
        names = ", ".join(server.name for server in self.setup.mcp_servers)
        if self.client_capabilities.notices:
            title = "MCP servers are not connected"
            await self._send(NoticeUpdate(severity="warning", title=title, description=f"{names}: {reason}"))
        else:
            _log.warning("session %s: MCP servers are not connected (%s): %s", self.id, names, reason)

    def _on_mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None:
        """Pass on a message that the client's MCP server sent during a request of this session."""
        if self._mcp is not None:
            self._mcp.on_message(server_id, request_id, method, params)

    # --- updates

    async def update(self, update: Update) -> None:
        """Send an update to the client, in a turn or between turns, and store it if sessions are stored.

        Updates of a session that is not announced yet are buffered. The final status of a tool call is sent once it is
        stored.

        Raises:
            StoreError: The update could not be stored and was not sent.
        """
        if isinstance(update, InfoUpdate) and update.title is not UNSET:
            if not self._title.set_by_agent(update.title):
                return
            self.save()
        if self._is_stored:
            self._persistence.append(update)
            if isinstance(update, ToolCallUpdate) and update.status in FINAL_STATUSES:
                await self._persistence.commit()
        await self._send(update)

    async def update_subagent(self, session_id: str, update: Update) -> None:
        """Send an update of a subagent's session, if the client shows subagents (unstable)."""
        if self.client_capabilities.subagents:
            await self._client.update(session_id, update)

    async def _send_final_update(self, update: Update) -> None:
        """Send an update during cancellation without waiting for a slow client."""
        self._persistence.append(update)
        try:
            await asyncio.shield(self._cleanup_tasks.start(self._commit_and_send(update)))
        except StoreError as error:
            _log.debug("session %s: a final update was not stored: %s", self.id, error)

    async def _commit_and_send(self, update: Update) -> None:
        try:
            await self._persistence.commit()
        finally:
            self._cleanup_tasks.start(self._send_if_connected(update))
            await asyncio.sleep(0)  # from here on the update is queued, however slow the client is

    async def _send_if_connected(self, update: Update) -> None:
        with suppress(ConnectionLost):
            await self._send(update)

    async def _send(self, update: Update) -> None:
        if self._announced.is_set():
            await self._client.update(self.id, update)
        else:
            self._buffered_updates.append(update)

    async def _mark_announced(self) -> None:
        """Mark the session as announced and send the buffered updates."""
        try:
            while self._buffered_updates:
                await self._send_buffered(self._buffered_updates.pop(0))
        finally:
            self._announced.set()

    async def _send_buffered(self, update: Update) -> None:
        try:
            await self._client.update(self.id, update)
        except EncodeError as error:  # the code that made the update has returned
            _log.error("session %s: an update could not be sent: %s", self.id, error)

    # --- commands, settings, background work

    async def set_commands(self, commands: list[AvailableCommand]) -> None:
        """Offer these slash commands to the client, instead of those before."""
        self.available_commands = commands
        if self._announced.is_set():
            await self.update(CommandsUpdate(commands=commands))

    async def set_option(self, **values: str | bool) -> None:
        """Change settings from the agent's side; the client is notified once, after all of them.

        Raises:
            InvalidParams: A setting or value does not exist.
        """
        changed = [key for key, value in values.items() if self.settings.change(key, value)]
        if changed:
            await self._send_settings(changed)

    async def _send_settings(self, changed: list[str]) -> None:
        """Send changed settings: the mode for clients that know only modes, and the complete list."""
        described = self.settings.describe()
        for setting in described:
            if setting.setting_id in changed and setting.category == "mode":
                await self._send_mode(str(setting.value))
        await self.update(SettingsUpdate(settings=described))
        self.save()

    async def _send_mode(self, mode_id: str) -> None:
        await self.update(ModeUpdate(mode_id=mode_id))

    @asynccontextmanager
    async def background(self, kind: str, work_id: str) -> AsyncGenerator[None]:
        """Report background work while the block runs. Clients of protocol version 1 do not see it.

        Args:
            kind: `terminal`, `tool_call` or `subagent`.
            work_id: Id of the terminal, tool call or subagent.
        """
        work = BackgroundWork(kind=kind, work_id=work_id)
        self._background.append(work)
        try:
            await self._client.work_in_background(self.id, list(self._background))
            yield
        finally:
            self._background.remove(work)
            with suppress(ConnectionLost):
                await self._client.work_in_background(self.id, list(self._background))

    async def run_in_background(self, title: str, work: TaskWork, *, kind: str = "task") -> BackgroundTaskHandle:
        """Run `work(task)` as a background task that goes on between turns, and that the client sees and can stop.

        It is completed when `work` returns, perhaps a summary; it failed if `work` raises an exception (unstable).
        """
        from duologue.agent.background_task import BackgroundTaskHandle

        return await BackgroundTaskHandle(self, title)._start(work, kind)

    # --- requests to the client

    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Notify the client that a URL elicitation (`turn.elicit_url`) is complete."""
        await self._client.complete_elicitation(elicitation_id)

    async def call_extension(self, name: str, params: Any, result: Any = dict[str, Any]) -> Any:
        """Call a custom method (`_…`) of the client and decode its response as the type `result`.

        Raises:
            MethodNotFound: The name does not begin with an underscore, or the client has no such method.
            RequestError: The client answered with an error.
        """
        return await self._client.call_extension(name, params, result)

    async def notify_extension(self, name: str, params: Any) -> None:
        """Send a custom notification (`_…`) to the client.

        Raises:
            MethodNotFound: The name does not begin with an underscore.
        """
        await self._client.notify_extension(name, params)

    async def _set_user_title(self, title: str) -> None:
        """Set the title that the user chose; the agent no longer changes it."""
        self._title.set_by_user(title)
        self._persistence.append(InfoUpdate(title=title))
        await self._send(InfoUpdate(title=title))

    # --- persistence

    def save(self) -> None:
        """Queue the current settings and state for storing; `commit` waits until they are stored."""
        if self._is_stored:
            self._persistence.save(self._saved_state)

    @property
    def _saved_state(self) -> SavedState:
        return SavedState(settings=self.settings.values, state=self.state, title=self._title.by_agent)

    async def commit(self) -> None:
        """Wait until every update sent so far is stored."""
        await self._persistence.commit()

    def history(self) -> AsyncIterator[Update]:
        """Iterate over the stored updates that the next prompt builds on, without refused turns.

        Message chunks are merged, tool calls are in their final state. Empty if sessions are not stored.
        """
        return self._persistence.history()

    async def _begin_turn(self, turn: Turn[Any]) -> None:
        """Store the prompt, and make a title from the first one."""
        self._persistence.begin_turn(turn.prompt, turn.message_id)
        if (title := self._title.from_prompt(turn.prompt)) is not None:
            await self.update(InfoUpdate(title=title))

    async def _persist_end(self, reason: str) -> None:
        # A turn that ended because the client is gone is stored as interrupted, not as cancelled.
        was_interrupted = reason == "cancelled" and self._client.is_gone
        try:
            self.save()
        finally:
            await self._persistence.end_turn(None if was_interrupted else reason)

    async def _aclose(self) -> None:
        """End all work of the session and release its resources. A second call does nothing."""
        async with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                await self._end_work(GONE_GRACE if self._client.is_gone else CLOSE_GRACE)
            finally:
                self._directories.close()
                await self._release()

    async def _end_work(self, grace: float) -> None:
        await self._prompts.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._cleanup_tasks.settle()
        await self._cleanup_tasks.cancel(grace)
        await self.tasks.cancel(grace)
        if self._mcp is not None:
            await self._mcp.aclose()

    async def _release(self) -> None:
        try:
            self.save()
        except Exception as error:
            _log.error("session %s: the state could not be stored: %s", self.id, error)
        try:
            await self._persistence.aclose()
        except StoreError as error:
            _log.error("session %s: the last updates could not be stored: %s", self.id, error)
        if self._open_sessions.get(self.id) is self:
            del self._open_sessions[self.id]
