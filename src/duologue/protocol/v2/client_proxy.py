"""Calls of an agent to a client of version 2, and the state of each session that it is sent.

Version 2 has no files and no terminals of the client; the agent uses its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from duologue.conversation.content import Content, JsonObject, TextContent
from duologue.conversation.message_ids import MessageIds
from duologue.conversation.session_setup import Implementation
from duologue.conversation.updates import (
    UNSET,
    BackgroundTaskUpdate,
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    PlanRemovedUpdate,
    PlanUpdate,
    Role,
    SettingsUpdate,
    StateUpdate,
    ToolCallUpdate,
    Update,
)
from duologue.conversation.work_state import BackgroundWork, Failure, TokenUsage
from duologue.errors import RequestError
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.shared.client_proxy import ClientProxy, nothing
from duologue.protocol.steering import STEERED_META
from duologue.protocol.v2.state_updates import state_to_wire
from duologue.protocol.v2.tools import permission_subject
from duologue.protocol.v2.updates import update_to_wire
from duologue.protocol.values import (
    ClientCapabilities,
    Elicitation,
    ElicitationAnswer,
    PermissionOption,
    PromptResult,
)
from duologue.runtime.connection import Connection
from duologue.runtime.text_template import PLACEHOLDER, TextTemplate
from duologue.schema import v2


class _StateTracker:
    """The state of a session: its turns, requests to the user, and background work.

    Attributes:
        turns: The number of prompts that were inserted and have not ended.
        questions: The number of unanswered requests to the user.
        background: All background work; None until there was any.
    """

    def __init__(self) -> None:
        self.turns = 0
        self.questions = 0
        self.background: list[BackgroundWork] | None = None

    def state(self) -> StateUpdate:
        """Return the current state."""
        name = "requires_action" if self.questions else "running" if self.turns else "idle"
        return StateUpdate(state=name, background=self.background)

    def ended(
        self,
        stop_reason: str,
        *,
        error: Failure | None = None,
        usage: TokenUsage | None = None,
        meta: JsonObject | None = None,
    ) -> StateUpdate:
        """Return the idle state that ends a turn, whatever other work still runs."""
        return StateUpdate(
            state="idle",
            stop_reason=stop_reason,
            error=error,
            usage=usage,
            background=self.background,
            meta=UNSET if meta is None else meta,
        )


class V2ClientProxy(ClientProxy):
    """Calls of an agent to a client of version 2."""

    schema: ClassVar[Any] = v2

    def __init__(
        self,
        connection: Connection,
        info: Implementation | None,
        capabilities: ClientCapabilities,
        feature_filter: FeatureFilter,
    ) -> None:
        super().__init__(connection, info, capabilities, feature_filter)
        self._unsent = (ModeUpdate,) if capabilities.background_tasks else (ModeUpdate, BackgroundTaskUpdate)
        self._ids: dict[str, MessageIds] = {}
        self._trackers: dict[str, _StateTracker] = {}

    def update(self, session_id: str, update: Update) -> Coroutine[Any, Any, None]:
        if isinstance(update, self._unsent) or (isinstance(update, SettingsUpdate) and not update.settings):
            return nothing()  # modes are config options, and all of those are sent together
        if isinstance(update, PlanRemovedUpdate) and not self._filter.allows("plan"):
            update = PlanUpdate(plan_id=update.plan_id, entries=[])  # an empty plan stands for a removed one
        return self._notify(v2.SESSION_UPDATE, self._wire_update(session_id, update))

    def text_chunks(self, session_id: str, role: Role, message_id: str) -> TextTemplate:
        chunk = MessageChunk(role=role, content=TextContent(PLACEHOLDER), message_id=message_id)
        params = self._wire_update(session_id, chunk)
        return self._connection.internals.text_template(v2.SESSION_UPDATE, params)

    def _wire_update(self, session_id: str, update: Update) -> v2.UpdateSessionNotification:
        ids = self._ids.get(session_id)
        if ids is None:
            ids = self._ids[session_id] = MessageIds()
        return v2.UpdateSessionNotification(session_id=session_id, update=update_to_wire(ids.fill(update)))

    async def echo_user_message(self, session_id: str, message_id: str, content: list[Content]) -> None:
        await self.update(
            session_id, MessageUpdate(role="user", message_id=message_id, content=content, meta=STEERED_META)
        )

    def replayed(self, updates: AsyncIterator[Update]) -> AsyncIterator[Update]:
        return _in_whole_messages(updates)

    def opened(self, session_id: str) -> None:
        """Note that a session is open and idle."""
        self._tracker(session_id)

    def forget(self, session_id: str) -> None:
        """Forget a closed session."""
        self._ids.pop(session_id, None)
        self._trackers.pop(session_id, None)

    # --- what the session is doing

    def _tracker(self, session_id: str) -> _StateTracker:
        return self._trackers.setdefault(session_id, _StateTracker())

    def state_of(self, session_id: str) -> v2.WorkState | None:
        """Return the state of a session; None if it is not open here."""
        tracker = self._trackers.get(session_id)
        if tracker is None:
            return None
        wire = state_to_wire(tracker.state())
        assert isinstance(wire, v2.WorkState), "the tracker has known states only"
        return v2.WorkState(state=wire.state, background=wire.background)

    async def send_state(self, session_id: str) -> None:
        """Send the current state of a session."""
        await self.update(session_id, self._tracker(session_id).state())

    async def begin_turn(self, session_id: str, message_id: str, prompt: list[Content]) -> None:
        """Send the echo of an inserted prompt, and that work begins."""
        tracker = self._tracker(session_id)
        tracker.turns += 1
        await self.update(session_id, MessageUpdate(role="user", message_id=message_id, content=prompt))
        await self.update(session_id, tracker.state())

    async def end_turn(self, session_id: str, ended: PromptResult | RequestError) -> None:
        """Send that the work for a prompt has ended or failed."""
        tracker = self._tracker(session_id)
        tracker.turns -= 1
        state: StateUpdate
        if isinstance(ended, RequestError):
            error = Failure(code=ended.code, message=ended.message, data=ended.data)
            state = tracker.ended("error", error=error)
        else:
            state = tracker.ended(ended.stop_reason, usage=ended.usage, meta=ended.meta)
        await self.update(session_id, state)

    async def work_in_background(self, session_id: str, work: list[BackgroundWork]) -> None:
        self._tracker(session_id).background = work
        await self.send_state(session_id)

    @asynccontextmanager
    async def _requires_action(self, session_id: str | None) -> AsyncGenerator[None]:
        """Send that the session waits for its user while the block runs."""
        if session_id is None:
            yield
            return
        tracker = self._tracker(session_id)
        tracker.questions += 1
        try:
            await self.send_state(session_id)
            yield
        finally:
            tracker.questions -= 1
            if not self.is_gone:
                await self.send_state(session_id)

    # --- requests to the user

    async def ask_permission(
        self, session_id: str, tool: ToolCallUpdate, options: list[PermissionOption], meta: JsonObject | None
    ) -> str | None:
        request = v2.RequestPermissionRequest(
            session_id=session_id,
            title=tool.title if isinstance(tool.title, str) else "Allow this tool call?",
            subject=permission_subject(tool),
            options=self._options_to_wire(options),
            meta=meta,
        )
        async with self._requires_action(session_id):
            return await self._request_permission(request)

    async def elicit(self, elicitation: Elicitation) -> ElicitationAnswer:
        async with self._requires_action(elicitation.session_id):
            answer = await super().elicit(elicitation)
        known = answer.action in ("accept", "decline", "cancel")
        return answer if known else ElicitationAnswer(action="cancel", meta=answer.meta)


async def _in_whole_messages(updates: AsyncIterator[Update]) -> AsyncIterator[Update]:
    """Join the chunks of each message, because a client appends chunks but replaces whole messages on replay.

    Chunks of a message that another update interrupts stay chunks.
    """
    chunks: list[MessageChunk] = []
    started: set[tuple[Role, str]] = set()
    async for update in updates:
        if chunks and not _continues(chunks[0], update):
            yield _joined(chunks)
            chunks = []
        if isinstance(update, MessageChunk) and update.message_id is not None:
            name = (update.role, update.message_id)
            if chunks or name not in started:
                started.add(name)
                chunks.append(update)
                continue
        yield update
    if chunks:
        yield _joined(chunks)


def _continues(first: MessageChunk, update: Update) -> bool:
    return isinstance(update, MessageChunk) and (update.role, update.message_id) == (first.role, first.message_id)


def _joined(chunks: list[MessageChunk]) -> Update:
    first = chunks[0]
    content: list[Content] = [chunk.content for chunk in chunks]
    meta: JsonObject = {}
    for chunk in chunks:
        meta |= chunk.meta if isinstance(chunk.meta, dict) else {}
    return MessageUpdate(role=first.role, message_id=first.message_id or "", content=content, meta=meta or UNSET)
