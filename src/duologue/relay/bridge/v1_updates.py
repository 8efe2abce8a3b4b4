"""Updates of an agent in the words of an editor that knows neither upserts nor the agent's own terminals."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, structs

from duologue.conversation.downgrade import V1Downgrader
from duologue.conversation.updates import (
    CompactionChunk,
    CompactionUpdate,
    MessageChunk,
    MessageUpdate,
    NoticeUpdate,
    PlanRemovedUpdate,
    PlanUpdate,
    SessionMessageChunk,
    SessionMessageUpdate,
    SettingsUpdate,
    SubagentUpdate,
    TerminalPart,
    ToolCallUpdate,
    Update,
)
from duologue.protocol.interfaces import ClientProxy
from duologue.protocol.values import ClientCapabilities
from duologue.relay.bridge.loss_report import LossReporter
from duologue.relay.bridge.terminal_text import TerminalsAsText

__all__ = ["UpdateDowngrader"]

AS_AT_FIRST: dict[str, Any] = {"title": "", "kind": "other", "status": "pending", "content": [], "locations": []}
"""What a part of a tool call is after it was cleared, for editors to whom null means that nothing changed."""


class UpdateDowngrader:
    """One session, told plainly.

    Args:
        session_id: The session.
        editor: To whom.
        plainer: Knows what was told.
        screens: Shows the commands of the agent.
        losses: Where to say what cannot be told.
    """

    def __init__(
        self,
        session_id: str,
        editor: ClientProxy,
        plainer: V1Downgrader,
        screens: TerminalsAsText,
        losses: LossReporter,
    ) -> None:
        self._session_id = session_id
        self._editor = editor
        self._plainer = plainer
        self._screens = screens
        self._losses = losses

    async def tell(self, update: Update) -> list[Update]:
        """The same in plainer words."""
        if type(update) is MessageChunk:  # most of what an agent ever says takes the short way
            return self._plainer.convert(update)
        kind = self._lost(update)
        if kind is not None:
            await self._losses.tell(kind, self._editor, self._session_id)
        told = [await self.adapt(plain) for plain in self._plainer.convert(update)]
        if isinstance(update, MessageUpdate):
            await self._miss_message(update, told)
        if told and isinstance(update.meta, dict) and told[0].meta is UNSET:
            told[0] = structs.replace(told[0], meta=update.meta)
        return told

    async def adapt(self, update: Update) -> Update:
        """One update without what the editor has no words for."""
        match update:
            case ToolCallUpdate():
                return await self._fit_tool_call(update)
            case PlanRemovedUpdate() if not self._editor.features.named_plans:
                rest = next(iter(self._plainer.sent.plans.values()), None)
                return PlanUpdate(entries=[] if rest is None else rest.entries)
            case _:
                return update

    async def _fit_tool_call(self, update: ToolCallUpdate) -> ToolCallUpdate:
        fields = {name: first for name, first in AS_AT_FIRST.items() if getattr(update, name) is None}
        if update.raw_input is None or update.raw_output is None or update.name is None:
            await self._losses.tell("cleared", self._editor, self._session_id)
        if isinstance(update.content, list) and any(isinstance(part, TerminalPart) for part in update.content):
            fields["content"] = self._screens.as_text(update.tool_call_id, update.content)
            await self._losses.tell("terminals")
        return structs.replace(update, **fields) if fields else update

    def _lost(self, update: Update) -> str | None:
        """The kind of what gets lost, if this does."""
        features: ClientCapabilities = self._editor.features
        match update:
            case NoticeUpdate() if not features.notices:
                return "notices"
            case CompactionUpdate() | CompactionChunk() if not features.compaction:
                return "compaction"
            case SubagentUpdate() | SessionMessageUpdate() | SessionMessageChunk() if not features.subagents:
                return "subagents"
            case PlanUpdate(plan_id=str(), entries=None) if not features.named_plans:
                return "plans"
            case SettingsUpdate() if not features.boolean_settings:
                return "switches" if any(setting.kind == "boolean" for setting in update.settings) else None
            case _:
                return None

    async def _miss_message(self, change: MessageUpdate, told: list[Update]) -> None:
        """A message that was told cannot be taken back."""
        ids = [getattr(chunk, "message_id", None) for chunk in told]
        if ids and ids[0] != change.message_id:
            await self._losses.tell("replaced", self._editor, self._session_id)
        elif change.content is not UNSET and not change.content and change.role != "user":
            await self._losses.tell("withdrawn", self._editor, self._session_id)
