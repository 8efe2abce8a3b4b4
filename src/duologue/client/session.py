"""A session on the client side: its prompts, its events, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from duologue.client.new_sessions import CLOSE_SECONDS
from duologue.client.prompt import Attachment, build_prompt
from duologue.client.prompt_runner import PromptRunner
from duologue.client.session_controls import SessionControls
from duologue.client.steering import PulledSteering, run_id_in
from duologue.client.subscribers import EventSubscribers
from duologue.client.supervisor import UserSettings, reopen
from duologue.client.turn import ClientTurn
from duologue.conversation.content import Content, JsonObject
from duologue.conversation.items import ToolCall
from duologue.conversation.session_setup import SessionParams
from duologue.conversation.updates import (
    BackgroundTaskUpdate,
    InfoUpdate,
    Location,
    MessageChunk,
    MessageUpdate,
    Role,
    SubagentUpdate,
    ToolCallUpdate,
    Update,
    UsageUpdate,
)
from duologue.errors import ConnectionLost, InvalidParams, MethodNotFound, ResourceNotFound, SessionLost
from duologue.events import TEXT_EVENTS, Event, LocationChanged, event_of
from duologue.protocol.shared.agent_proxy import AgentProxy
from duologue.protocol.values import SessionOpened
from duologue.sanitize import safe_markdown, shorten

if TYPE_CHECKING:
    from duologue.client.agent import RemoteAgent
    from duologue.client.agent_sessions import AwaitableSession
    from duologue.client.new_sessions import BufferedEvents

T = TypeVar("T")


class ClientSession(SessionControls):
    """One conversation with an agent.

    Attributes:
        id: Id of the session, chosen by the agent.
        agent: The agent of the session.
        cwd: Working directory of the session.
        location: File and line that the agent reported last as the place it works on.
        is_open: False after the session was closed or lost.
        lost_reason: Why the agent, which was started again, no longer has the session; `None` if it has.
        late_updates: Number of updates of a turn that arrived after its end.
    """

    def __init__(self, agent: RemoteAgent, session_id: str, params: SessionParams) -> None:
        self.id = session_id
        self.agent = agent
        super().__init__(agent._max_transcript_bytes)
        self.cwd = Path(params.cwd)
        self.location: Location | None = None
        self.is_open = True
        self.lost_reason: str | None = None
        self.late_updates = 0
        self._parent: ClientSession | None = None
        """The session whose subagent works in this one."""
        self._params = params
        self._is_replaying = False
        """True while a reopened session receives again what it received before."""
        self._has_replayed = False
        self._generation = agent._supervisor.generation
        self._reopening: asyncio.Task[None] | None = None
        self._run_id: str | None = None
        """Id of the running turn, as an agent announces it that wants it with each text sent into the turn."""
        self._pulled_steering = PulledSteering()
        self._user_settings = UserSettings(self)
        self._subscribers = EventSubscribers()
        self._prompts = PromptRunner(self)
        self._buffered: BufferedEvents | None = None
        """The events of a session that was opened in advance and is not used yet."""

    def _apply_opened(self, state: SessionOpened) -> None:
        """Apply the response that opened the session; what it leaves out may have arrived in updates before."""
        self.transcript.settings = list(state.settings) or self.transcript.settings
        self.transcript.modes = state.modes or self.transcript.modes
        self.transcript.commands = list(state.commands) or self.transcript.commands
        self._models = state.models
        self._generation = self.agent._supervisor.generation

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- state

    @property
    def _is_current(self) -> bool:
        """True if the session is open on the current connection."""
        return self.is_open and self._generation == self.agent._supervisor.generation

    @property
    def is_busy(self) -> bool:
        """True while a turn runs."""
        return self._prompts.running is not None

    @property
    def is_cancelling(self) -> bool:
        """True while a cancelled turn has not ended."""
        turn = self._prompts.running
        return turn is not None and turn.is_cancelling

    @property
    def is_interrupted(self) -> bool:
        """True if the agent was lost during the last turn."""
        return self._prompts.is_interrupted

    @property
    def children(self) -> dict[str, ClientSession]:
        """Sessions that the agent itself opened for subagents of this one, by id (unstable)."""
        return {each.id: each for each in self.agent._request_handler.sessions.values() if each._parent is self}

    @property
    def state(self) -> str:
        """Activity of the session: `idle`, `running`, `requires_action`, or another word that the agent sent."""
        reported = self.transcript.state
        if reported is not None:
            return reported.state
        return "running" if self.is_busy else "idle"

    # --- prompting

    def prompt(
        self,
        prompt: str | Content | Iterable[str | Content],
        *,
        files: Iterable[Attachment] = (),
        images: Iterable[str | Path] = (),
        audio: Iterable[str | Path] = (),
        meta: JsonObject | None = None,
        timeout: float | None = None,
    ) -> ClientTurn:
        """Send a prompt: `async with` its turn to read the events, or `await` it for the end.

        Prompts wait for the end of the running turn, in order.

        Args:
            prompt: Text, or content blocks.
            files: Files, directories or selections: embedded if the agent supports it, linked otherwise.
            images: Image files to embed.
            audio: Audio files to embed.
            meta: Sent to the agent in `_meta`.
            timeout: Seconds after which the turn is cancelled and fails with `TurnTimeout`.

        Raises:
            InvalidParams: The agent does not support such content, or the session is closed.
            SessionLost: The agent was started again and no longer has the session.
        """
        self._must_be_open()
        blocks = build_prompt(
            prompt, files=files, images=images, audio=audio, cwd=self.cwd, capabilities=self.agent.capabilities
        )
        return ClientTurn(self, self._prompts, blocks, meta, timeout)

    def _must_be_open(self) -> None:
        if self.lost_reason is not None:
            raise SessionLost(self.lost_reason)
        if not self.is_open:
            raise InvalidParams("this session is closed")

    async def ask(
        self, prompt: str, *, files: Iterable[Attachment] = (), check: bool = True, timeout: float | None = None
    ) -> str:
        """Send a prompt and return the agent's answer as plain text.

        Args:
            prompt: Text of the prompt.
            files: Files, directories or selections: embedded if the agent supports it, linked otherwise.
            check: Raise an error if the turn was refused, cut off, cancelled, or denied a permission.
            timeout: Seconds after which the turn is cancelled.

        Raises:
            TurnIncomplete: The answer is not complete, see `check`; the error has the text so far.
            TurnTimeout: The agent did not answer in time; the error has the text so far.
        """
        turn = await self.prompt(prompt, files=files, timeout=timeout)
        if check:
            turn.check()
        return turn.text

    def __repr__(self) -> str:
        title = "" if self.title is None else f" {shorten(self.title, 60)!r}"
        return f"<ClientSession {self.id!r}{title} in {self.cwd}, {self.state if self.is_open else 'closed'}>"

    def _repr_markdown_(self) -> str:
        """Return the conversation, as a notebook shows it."""
        shown = [item for item in self.transcript.messages if item.role != "thought"]
        return "\n\n".join(f"**{item.role}**\n\n{safe_markdown(item.text)}" for item in shown) or f"`{self!r}`"

    def _note_denied(self, what: str) -> None:
        """Add an action that was not permitted to the result of the running turn."""
        if (turn := self._prompts.running) is not None:
            turn._result.add_denied(what)

    async def cancel(self) -> None:
        """Cancel the running turn, which still ends with its stop reason, and withdraw the queued prompts.

        This does not wait for the end, as `turn.cancel()` does; it comes within `connect(cancel_timeout=…)`. Pending
        permission requests are answered with "cancelled" first. Open tool calls are shown as `cancelled` unless the
        agent ends them otherwise.
        """
        turn = self._prompts.running
        is_first = turn is not None and not turn.is_cancelling
        await self._prompts.cancel()
        if turn is not None and is_first:
            self.agent._tasks.start(turn._end_cancelled())

    def fork(self) -> AwaitableSession:
        """Open a new session that begins with the history of this one, with the same options (unstable).

        Raises:
            MethodNotFound: The agent does not support forking.
        """
        return self.agent._fork_session(self.id, self._params)

    # --- after a lost agent was started again

    def _request(self, send: Callable[[AgentProxy], Awaitable[T]]) -> Coroutine[Any, Any, T]:
        return self.agent._supervisor.request(send, self)

    async def _ensure_open(self) -> None:
        """Reopen the session if the agent was started again.

        Raises:
            SessionLost: The agent cannot reopen it.
        """
        while self._generation != self.agent._supervisor.generation:
            if self._reopening is None or self._reopening.done():
                self._reopening = self.agent._tasks.start(self._reopen())
            # A caller that is cancelled must not leave a session that is half open.
            await asyncio.shield(self._reopening)

    async def _reopen(self) -> None:
        self._must_be_open()
        await self._lose_work()
        try:
            await reopen(self)
        except SessionLost as error:
            self.lost_reason, self.is_open = str(error), False
            await self._end()
            raise

    # --- events

    def watch(self, watcher: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event, in and between turns; call the returned function to stop."""
        return self._subscribers.watch(watcher)

    def events(self) -> AsyncIterator[Event]:
        """Yield every event from now on, in and between turns, until the session is closed or the agent is lost."""
        return self._subscribers.events()

    def _on_text(self, role: Role, message_id: str | None, text: str, raw: bytes) -> None:
        """Do what `_on_update` does for plain text of the agent, which most updates are."""
        if self._is_replaying:
            self._has_replayed = True
            return
        self.transcript.append_text(role, message_id, text)
        turn = self._prompts.running
        is_late = turn is None and self._count_late()
        event = TEXT_EVENTS[role](text=text, message_id=message_id, raw=raw, is_late=is_late)
        if self._subscribers.receivers:
            self._subscribers.publish(event)
        if turn is not None:
            if role == "agent":
                turn._add_text(message_id, text)
            if turn._has_reader:
                turn._enqueue(event)

    def _count_late(self) -> bool:
        """Count an update that arrived after its turn; return False if it may arrive while no turn runs."""
        # Only version 1 ties updates to a prompt: in version 2 an agent may work between prompts.
        is_late = self._prompts.has_run and self.agent.version == 1
        self.late_updates += is_late
        return is_late

    def _on_update(self, update: Update, raw: bytes) -> None:
        """Apply an update to the transcript and publish its event, without waiting for any reader."""
        if self._is_replaying and not update.is_state:
            self._has_replayed = True
            return
        self._apply_update(update, raw)

    def _apply_permission_request(self, tool: ToolCallUpdate, raw: bytes) -> ToolCall:
        """Apply the tool call of a permission request and return it as it is now."""
        self._apply_update(tool, raw)
        known = self.transcript.tool_call(tool.tool_call_id)
        assert known is not None, "applying the update has added it"
        return known

    def _apply_update(self, update: Update, raw: bytes) -> None:
        is_users = isinstance(update, MessageChunk | MessageUpdate) and update.role == "user"
        is_echo = is_users and self.is_busy
        changed = None if is_echo else self.transcript.apply(update)  # the transcript has the prompt already
        if update.meta or isinstance(update, UsageUpdate):
            self._usage_counter.add_update(update, is_in_turn=self.is_busy)
        is_late = update.is_of_turn and self._prompts.running is None and self._count_late()
        self._publish(event_of(update, changed, raw, is_late))
        if type(update) is SubagentUpdate:
            self.agent._request_handler.add_child(self, update.session_id)
        elif type(update) is InfoUpdate:
            self._run_id = run_id_in(self.agent._steering, update, self._run_id)
            if (turn := self._prompts.running) is not None:
                turn._on_steerable()
        if isinstance(update, ToolCallUpdate) and isinstance(update.locations, list) and update.locations:
            self.location = location = update.locations[-1]
            self._publish(
                LocationChanged(
                    path=location.path, line=location.line, tool_call_id=update.tool_call_id, raw=raw, is_late=is_late
                )
            )

    async def _lose_work(self) -> None:
        """End the children and the background tasks, which an agent that was started again does not have."""
        await self._end_children()
        for task in self.background_tasks:
            if not task.is_over:
                self._apply_update(BackgroundTaskUpdate(task_id=task.task_id, state="lost"), b"")

    def _publish(self, event: Event) -> None:
        """Pass an event to the subscribers and to the running turn."""
        if self._subscribers.receivers:
            self._subscribers.publish(event)
        if (turn := self._prompts.running) is not None:
            turn._on_event(event)

    # --- closing

    async def aclose(self) -> None:
        """Close the session, also at the agent if it supports that and responds. A second call does nothing."""
        if not self.is_open:
            return
        self.is_open = False
        try:
            if not self.agent.is_closed and self._generation == self.agent._supervisor.generation:
                await self._close_at_agent()
        # An unknown session is as good as closed, and there are agents that advertise closing and do not support it.
        except (ResourceNotFound, MethodNotFound, ConnectionLost, TimeoutError):
            pass
        finally:
            await self._end()

    async def _end(self) -> None:
        """Accept nothing more of this session and its children; their events end."""
        self.is_open = False
        if self._buffered is not None:
            self._buffered.release()
        self._close_subscribers()
        await self.agent._request_handler.remove(self.id)
        await self._end_children()

    async def _end_children(self) -> None:
        for child in self.children.values():
            await child._end()

    async def _close_at_agent(self) -> None:
        for turn in self._prompts.abandoned_turns():
            await turn._cancel_unread()
        seconds = self.agent._cancel_timeout
        # An agent that ignored the end of a turn so long is not waited for as long again.
        is_ignored = self._prompts.is_cancel_ignored
        async with asyncio.timeout(min(CLOSE_SECONDS, seconds / 2) if is_ignored else max(CLOSE_SECONDS, seconds)):
            if self.is_busy:
                await self.cancel()
            if self.agent.capabilities.close:
                await self.agent._proxy.close_session(self.id)

    def _close_subscribers(self) -> None:
        """End the event streams: there will be no further events."""
        self._subscribers.close()
