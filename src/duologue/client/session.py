"""A session as its client sees it: what was said, what can be set, and prompts to send."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from duologue.client.calling_task import CallingTask, current_calling_task
from duologue.client.prompt import Attachment, build_prompt
from duologue.client.session_controls import SessionControls
from duologue.client.session_state import check_can_cancel
from duologue.client.subscribers import EventSubscribers
from duologue.client.supervisor import STATES, UserSettings, reopen
from duologue.client.turn import ClientTurn
from duologue.conversation.content import Content, JsonObject
from duologue.conversation.items import ToolCall
from duologue.conversation.session_setup import SessionParams
from duologue.conversation.updates import (
    Location,
    MessageChunk,
    MessageUpdate,
    PlanUpdate,
    ToolCallUpdate,
    Update,
)
from duologue.errors import ConnectionLost, InvalidParams, MethodNotFound, ResourceNotFound, SessionLost
from duologue.events import Event, LocationChanged, event_of
from duologue.protocol.interfaces import AgentProxy
from duologue.protocol.values import SessionOpened

if TYPE_CHECKING:
    from duologue.client.agent import RemoteAgent

__all__ = ["ClientSession"]

T = TypeVar("T")


class ClientSession(SessionControls):
    """One conversation with an agent.

    Attributes:
        id: The agent's name for it.
        agent: Whose it is.
        setup: What it was opened with.
        following: Where the agent works, last it said.
        is_interrupted: The agent was lost in the middle of a turn.
        is_replaying: The agent tells what it said before; it was heard already.
        has_replayed: It has done so.
        is_prompted: A prompt was sent in it. What comes before is the past of a session that was loaded.
        chosen: What its user has set.
        lost: Why the agent does not know it any more, if that is so.
        late_updates: How many updates came after their turn had ended.
    """

    def __init__(self, agent: RemoteAgent, session_id: str, setup: SessionParams) -> None:
        super().__init__(agent.max_transcript_bytes)
        self.id = session_id
        self.agent = agent
        self.setup = setup
        self.cwd = Path(setup.cwd)
        self.following: Location | None = None
        self.is_open = True
        self.is_interrupted = False
        self._is_replaying = False
        self._is_prompted = False
        self._has_replayed = False
        self.lost: str | None = None
        self.late_updates = 0
        self._line = agent._generation
        self._returning: asyncio.Task[None] | None = None
        self._user_settings = UserSettings(self)
        self._turn: ClientTurn | None = None
        self._waiting: list[ClientTurn] = []
        self._queued = 0
        self._had_turn = False
        self._order = asyncio.Lock()
        self._audience = EventSubscribers()

    def _apply_opened(self, state: SessionOpened) -> None:
        """What the agent said of the session when it opened it; what it left out may have been told before."""
        self.transcript.settings = list(state.settings) or self.transcript.settings
        self.transcript.modes = state.modes or self.transcript.modes
        self.transcript.commands = list(state.commands) or self.transcript.commands
        self._models = state.models
        self._line = self.agent._generation

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- what is known

    @property
    def is_reached(self) -> bool:
        """It is open at the agent as it is reached now."""
        return self.is_open and self._line == self.agent._generation

    @property
    def is_busy(self) -> bool:
        """A turn is running."""
        return self._turn is not None

    @property
    def is_cancelling(self) -> bool:
        """The agent was asked to end the turn that runs, and has not yet."""
        return self._turn is not None and self._turn.is_cancelling

    @property
    def state(self) -> str:
        """What the session is doing: `idle`, `running`, `requires_action`, or a newer word the agent has for it."""
        told = self.transcript.state
        if told is not None:
            return told.state
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
    ) -> ClientTurn:
        """A turn with this prompt: `async with` it to see its events, or `await` it for the end.

        Prompts sent while another runs wait for it, in order.

        Args:
            prompt: Text, or blocks of content.
            files: Files, directories or selections; embedded if the agent takes it, linked otherwise.
            images: Pictures to send along.
            audio: Sound to send along.
            meta: Attached for the agent.

        Raises:
            InvalidParams: The agent does not take such content, or the session is closed.
        """
        self._must_be_open()
        blocks = build_prompt(
            prompt, files=files, images=images, audio=audio, cwd=self.cwd, features=self.agent.capabilities
        )
        return ClientTurn(self, blocks, meta)

    def _must_be_open(self) -> None:
        if self.lost is not None:
            raise SessionLost(self.lost)
        if not self.is_open:
            raise InvalidParams("this session is closed")

    async def ask(self, prompt: str, *, files: Iterable[Attachment] = ()) -> str:
        """What the agent answers, as plain text."""
        return (await self.prompt(prompt, files=files)).text

    async def cancel(self) -> None:
        """Ask the agent to stop this turn; the prompt still ends with its stop reason.

        Permission questions still open are answered "cancelled" first, and tool calls still open are shown as
        `cancelled` unless the agent ends them otherwise; prompts that wait are never sent.
        """
        for turn in list(self._waiting):
            self._withdraw(turn)
        await self._cancel_running()

    async def _cancel_running(self) -> None:
        """Ask the agent to stop this turn; the prompts that wait for its end are sent then."""
        if self._turn is not None:
            self._turn.is_cancelling = True
        # protocol/v1/prompt-turn, Cancellation: the client MUST answer the permission requests still pending.
        self.agent._request_handler.cancel_questions(self.id)
        if self._turn is not None and not self._turn._is_sent:
            self._turn._abandon()  # the agent is being started again or logged in to, and has not heard of it
            return
        if self._turn is not None:
            # The same chapter: the client SHOULD mark the open tool calls now; the agent may still end them otherwise.
            self._close_tool_calls(self._turn, "cancelled")
        await self.agent._proxy.cancel(self.id)

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Cancel one tool call and nothing else.

        Raises:
            MethodNotFound: The agent has not said that this one can be cancelled (`tool_call.can_cancel`).
        """
        check_can_cancel("tool call", tool_call_id, self.transcript.tool_call(tool_call_id))
        await self._request(lambda proxy: proxy.cancel_tool_call(self.id, tool_call_id))

    async def cancel_terminal(self, terminal_id: str) -> None:
        """End one command that the agent runs.

        Raises:
            MethodNotFound: The agent has not said that this one can be cancelled (`terminal.can_cancel`).
        """
        check_can_cancel("terminal", terminal_id, self.transcript.terminal(terminal_id))
        await self._request(lambda proxy: proxy.cancel_terminal(self.id, terminal_id))

    def _start_turn(self, turn: ClientTurn) -> asyncio.Task[None]:
        """Begin a turn in a task of the connection; the one that the same caller has left is cancelled."""
        before = [other for other in (self._turn, *self._waiting) if other is not None]
        self._waiting.append(turn)
        return self.agent._tasks.start(self._run_turn(turn, before, current_calling_task()))

    @property
    def _has_queued_prompt(self) -> bool:
        """Return True if a prompt waits for the running turn, which its caller has not left, to end."""
        return self._queued > 0

    def _abandoned_turns(self) -> list[ClientTurn]:
        """Return the turns that the current task has stopped reading, although they have not ended."""
        caller = current_calling_task()
        return [turn for turn in (self._turn, *self._waiting) if turn is not None and turn._is_abandoned_by(caller)]

    def _withdraw(self, turn: ClientTurn) -> bool:
        """Take back a turn that has not been sent; whether it had not."""
        if turn not in self._waiting:
            return False
        self._waiting.remove(turn)
        turn._abandon()
        return True

    async def _run_turn(self, turn: ClientTurn, before: list[ClientTurn], caller: CallingTask) -> None:
        # Only now: a task that was given an iterator of one of them, and was started first, has begun to read it.
        for other in before:
            if other._is_abandoned_by(caller):
                self.agent._tasks.start(other._leave())
        self._queued += 1
        try:
            if self.agent.connection.is_paused:
                for other in before:
                    other._relieve()
            await self._order.acquire()
        finally:
            self._queued -= 1
        try:
            self._waiting.remove(turn)
            turn.since = self.transcript.position
            message_id = f"prompt-{secrets.token_hex(8)}"  # two prompts in a row are two messages
            for block in turn.prompt:
                self.transcript.apply(MessageChunk(role="user", content=block, message_id=message_id))
            self._turn, self._had_turn = turn, True
            try:
                await turn._run()
            finally:
                self._turn = None
                self._after_turn(turn)
                turn._count_unread(None)
        finally:
            self._order.release()

    def _after_turn(self, turn: ClientTurn) -> None:
        """What an agent left open is closed, for everybody to see, and what it refused is marked.

        A call left open in a turn that ended like any other may have worked: its status stays.
        """
        self.is_interrupted = isinstance(turn.error, ConnectionLost)
        self.agent._request_handler.cancel_questions(self.id)
        ended = "cancelled" if turn.stop_reason == "cancelled" else "failed" if turn.stop_reason is None else None
        self._close_tool_calls(turn, ended)
        if turn.stop_reason == "refusal":
            self.transcript.mark_refused(turn.since)

    def _close_tool_calls(self, turn: ClientTurn, ended: str | None) -> None:
        going_on = [work.work_id for work in self.background if work.kind == "tool_call"]
        for call in self.transcript.close_tool_calls(turn.since, ended, but=going_on):
            event = event_of(ToolCallUpdate(tool_call_id=call.tool_call_id), call)
            self._audience.publish(event)
            turn._record(event)
            turn._enqueue_nowait(event)

    async def fork(self, setup: SessionParams | None = None) -> ClientSession:
        """Another session that begins with all that was said in this one."""
        return await self.agent.fork_session(self.id, setup or self.setup)

    # --- an agent that was lost and came back

    async def _request(self, ask: Callable[[AgentProxy], Awaitable[T]]) -> T:
        """Ask the agent about this session."""
        self._must_be_open()
        return await self.agent._request(ask, self)

    async def _ensure_open(self) -> None:
        """Be open at the agent as it is reached now.

        Raises:
            SessionLost: That cannot be.
        """
        while self._line != self.agent._generation:
            if self._returning is None or self._returning.done():
                self._returning = self.agent._tasks.start(self._reopen())
            # Whoever gives up waiting leaves a session that is half open: that is brought to its end.
            await asyncio.shield(self._returning)

    async def _reopen(self) -> None:
        self._must_be_open()
        try:
            await reopen(self)
        except SessionLost as error:
            self.lost, self.is_open = str(error), False
            self._close_subscribers()
            await self.agent._forget(self)
            raise

    # --- watching

    def watch(self, watcher: Callable[[Event], None]) -> Callable[[], None]:
        """Be told of every event, in and between turns; call what is returned to stop."""
        return self._audience.watch(watcher)

    def events(self) -> AsyncIterator[Event]:
        """Every event from now on, in and between turns, until the session is closed or the agent is gone for good."""
        return self._audience.events()

    def _on_update(self, update: Update, raw: bytes) -> None:
        """Fold one update in and show it: to the turn that runs, and to those who watch. It waits for none of them."""
        if self._is_replaying and not isinstance(update, STATES):
            self._has_replayed = True
            return
        turn = self._turn
        if turn is not None and type(update) is MessageChunk and update.role != "user":
            # Most of what an agent ever says takes the short way.
            self.transcript.apply(update)
            event = event_of(update, None, raw)
            self._audience.publish(event)
            turn._record(event)
            if turn._has_reader:
                turn._enqueue_nowait(event)
            return
        self._fold(update, raw)

    def _apply_permission_request(self, tool: ToolCallUpdate, raw: bytes) -> ToolCall:
        """Fold in what a question says of its tool call; the tool call as it stands now."""
        self._fold(tool, raw)
        known = self.transcript.tool_call(tool.tool_call_id)
        assert known is not None, "folding it in made it"
        return known

    def _fold(self, update: Update, raw: bytes) -> None:
        is_echo = self._turn is not None and isinstance(update, MessageChunk | MessageUpdate) and update.role == "user"
        changed = None if is_echo else self.transcript.apply(update)  # what we sent is in the transcript already
        is_of_a_turn = isinstance(update, MessageChunk | ToolCallUpdate | PlanUpdate)
        # Only version 1 ties what an agent says to a prompt: later it may work whenever it likes.
        is_late = self._turn is None and self._had_turn and is_of_a_turn and self.agent.version == 1
        self.late_updates += is_late
        self._publish(event_of(update, changed, raw, is_late))
        if isinstance(update, ToolCallUpdate) and isinstance(update.locations, list) and update.locations:
            self.following = place = update.locations[-1]
            self._publish(
                LocationChanged(
                    path=place.path, line=place.line, tool_call_id=update.tool_call_id, raw=raw, is_late=is_late
                )
            )

    def _publish(self, event: Event) -> None:
        """Let everybody know who watches, and the turn that runs."""
        self._audience.publish(event)
        if self._turn is not None:
            self._turn._record(event)
            self._turn._enqueue_nowait(event)

    # --- the end

    async def aclose(self) -> None:
        """Close the session at the agent, where it can do that. A second call does nothing."""
        if not self.is_open:
            return
        self.is_open = False
        try:
            if not self.agent.is_closed and self._line == self.agent._generation:
                await self._leave()
        # Gone already is as good as closed, and there are agents that offer to close and cannot.
        except (ResourceNotFound, MethodNotFound, ConnectionLost):
            pass
        finally:
            self._close_subscribers()
            await self.agent._forget(self)

    async def _leave(self) -> None:
        for turn in self._abandoned_turns():
            await turn._leave()
        if self._turn is not None:
            await self.cancel()
        if self.agent.capabilities.close:
            await self.agent._proxy.close_session(self.id)

    def _close_subscribers(self) -> None:
        """Nothing more will be heard: whoever reads the events has read them all."""
        self._audience.close()
