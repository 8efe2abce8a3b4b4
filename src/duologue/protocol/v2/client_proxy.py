"""The client, as an agent that speaks version 2 reaches it.

Version 2 has no files and no terminals of the client; the agent's side falls back on its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.message_ids import MessageIds
from duologue.conversation.session_setup import Implementation
from duologue.conversation.updates import (
    UNSET,
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
from duologue.schema import v2

__all__ = ["V2ClientProxy"]


class _StateTracker:
    """The turns that run, the questions that wait for the user, and what goes on beside both.

    Attributes:
        turns: Prompts that were inserted and have not ended.
        questions: Requests to the user that have no answer.
        background: All that goes on in the background; `None` until something did.
    """

    def __init__(self) -> None:
        self.turns = 0
        self.questions = 0
        self.background: list[BackgroundWork] | None = None

    def state(self) -> StateUpdate:
        """What is going on now."""
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
        """A turn is over: this is the only word that says so, whatever else still goes on."""
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
        self, connection: Connection, info: Implementation | None, features: ClientCapabilities, gate: FeatureFilter
    ) -> None:
        super().__init__(connection, info, features, gate)
        self._ids: dict[str, MessageIds] = {}
        self._work: dict[str, _StateTracker] = {}

    def update(self, session_id: str, update: Update) -> Coroutine[Any, Any, None]:
        if isinstance(update, ModeUpdate) or (isinstance(update, SettingsUpdate) and not update.settings):
            return nothing()  # modes are settings, and those are told whole
        if isinstance(update, PlanRemovedUpdate) and not self._gate.allows("plan"):
            update = PlanUpdate(plan_id=update.plan_id, entries=[])  # a plan without steps is as good as none
        ids = self._ids.get(session_id)
        if ids is None:
            ids = self._ids[session_id] = MessageIds()
        wire = v2.UpdateSessionNotification(session_id=session_id, update=update_to_wire(ids.fill(update)))
        if isinstance(update, MessageChunk):  # most of what an agent ever says takes the short way
            return self._send(v2.SESSION_UPDATE, wire)
        return self._notify(v2.SESSION_UPDATE, wire)

    def replayed(self, updates: AsyncIterator[Update]) -> AsyncIterator[Update]:
        return _in_whole_messages(updates)

    def opened(self, session_id: str) -> None:
        """The session is open, and does nothing yet."""
        self._work_of(session_id)

    def forget(self, session_id: str) -> None:
        """The session is closed."""
        self._ids.pop(session_id, None)
        self._work.pop(session_id, None)

    # --- what the session is doing

    def _work_of(self, session_id: str) -> _StateTracker:
        return self._work.setdefault(session_id, _StateTracker())

    def state_of(self, session_id: str) -> v2.WorkState | None:
        """What the session is doing, if it is open here."""
        work = self._work.get(session_id)
        if work is None:
            return None
        told = state_to_wire(work.state())
        assert isinstance(told, v2.WorkState), "work has known states only"
        return v2.WorkState(state=told.state, background=told.background)

    async def tell_state(self, session_id: str) -> None:
        """What the session is doing now."""
        await self.update(session_id, self._work_of(session_id).state())

    async def begin_turn(self, session_id: str, message_id: str, prompt: list[Content]) -> None:
        """A prompt was inserted: its echo, and that work begins."""
        work = self._work_of(session_id)
        work.turns += 1
        await self.update(session_id, MessageUpdate(role="user", message_id=message_id, content=prompt))
        await self.update(session_id, work.state())

    async def end_turn(self, session_id: str, ended: PromptResult | RequestError) -> None:
        """The work for a prompt is over, or has failed."""
        work = self._work_of(session_id)
        work.turns -= 1
        state: StateUpdate
        if isinstance(ended, RequestError):
            error = Failure(code=ended.code, message=ended.message, data=ended.data)
            state = work.ended("error", error=error)
        else:
            state = work.ended(ended.stop_reason, usage=ended.usage, meta=ended.meta)
        await self.update(session_id, state)

    async def work_in_background(self, session_id: str, work: list[BackgroundWork]) -> None:
        self._work_of(session_id).background = work
        await self.tell_state(session_id)

    @asynccontextmanager
    async def _waiting_for_the_user(self, session_id: str | None) -> AsyncGenerator[None]:
        """While the block runs, the session cannot go on without its user."""
        if session_id is None:
            yield
            return
        work = self._work_of(session_id)
        work.questions += 1
        try:
            await self.tell_state(session_id)
            yield
        finally:
            work.questions -= 1
            if not self.is_gone:
                await self.tell_state(session_id)

    # --- asking

    async def ask_permission(
        self, session_id: str, tool: ToolCallUpdate, options: list[PermissionOption], meta: JsonObject | None
    ) -> str | None:
        request = v2.RequestPermissionRequest(
            session_id=session_id,
            title=tool.title if isinstance(tool.title, str) else "May this be done?",
            subject=permission_subject(tool),
            options=self._options_to_wire(options),
            meta=meta,
        )
        async with self._waiting_for_the_user(session_id):
            return await self._request_permission(request)

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        async with self._waiting_for_the_user(question.session_id):
            answer = await super().elicit(question)
        known = answer.action in ("accept", "decline", "cancel")
        return answer if known else ElicitationAnswer(action="cancel", meta=answer.meta)


async def _in_whole_messages(updates: AsyncIterator[Update]) -> AsyncIterator[Update]:
    """The same updates, with the pieces of a message put together; what is said of it after something else stays so."""
    pieces: list[MessageChunk] = []
    begun: set[tuple[Role, str]] = set()
    async for update in updates:
        if pieces and not _goes_on(pieces[0], update):
            yield _whole(pieces)
            pieces = []
        if isinstance(update, MessageChunk) and update.message_id is not None:
            name = (update.role, update.message_id)
            if pieces or name not in begun:
                begun.add(name)
                pieces.append(update)
                continue
        yield update
    if pieces:
        yield _whole(pieces)


def _goes_on(first: MessageChunk, update: Update) -> bool:
    return isinstance(update, MessageChunk) and (update.role, update.message_id) == (first.role, first.message_id)


def _whole(pieces: list[MessageChunk]) -> Update:
    first = pieces[0]
    content: list[Content] = [piece.content for piece in pieces]
    meta: JsonObject = {}
    for piece in pieces:
        meta |= piece.meta if isinstance(piece.meta, dict) else {}
    return MessageUpdate(role=first.role, message_id=first.message_id or "", content=content, meta=meta or UNSET)
