"""Updates of an agent in the words of an editor that knows neither upserts nor the agent's own terminals."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, structs

from duologue.conversation.plainer import Plainer
from duologue.conversation.updates import (
    CompactionChanged,
    CompactionChunk,
    MessageChanged,
    MessageChunk,
    Notice,
    PlanChanged,
    PlanRemoved,
    SessionMessageChanged,
    SessionMessageChunk,
    SettingsChanged,
    SubagentChanged,
    TerminalPart,
    ToolCallChanged,
    Update,
)
from duologue.dialects.contract import Editor
from duologue.dialects.terms import ClientFeatures
from duologue.relay.bridge.losses import Losses
from duologue.relay.bridge.screens import Screens

__all__ = ["Plainly"]

AS_AT_FIRST: dict[str, Any] = {"title": "", "kind": "other", "status": "pending", "content": [], "locations": []}
"""What a part of a tool call is after it was cleared, for editors to whom null means that nothing changed."""


class Plainly:
    """One session, told plainly.

    Args:
        session_id: The session.
        editor: To whom.
        plainer: Knows what was told.
        screens: Shows the commands of the agent.
        losses: Where to say what cannot be told.
    """

    def __init__(self, session_id: str, editor: Editor, plainer: Plainer, screens: Screens, losses: Losses) -> None:
        self._session_id = session_id
        self._editor = editor
        self._plainer = plainer
        self._screens = screens
        self._losses = losses

    async def tell(self, update: Update) -> list[Update]:
        """The same in plainer words."""
        if type(update) is MessageChunk:  # most of what an agent ever says takes the short way
            return self._plainer.tell(update)
        kind = self._lost(update)
        if kind is not None:
            await self._losses.tell(kind, self._editor, self._session_id)
        told = [await self.fit(plain) for plain in self._plainer.tell(update)]
        if isinstance(update, MessageChanged):
            await self._miss_message(update, told)
        if told and isinstance(update.meta, dict) and told[0].meta is UNSET:
            told[0] = structs.replace(told[0], meta=update.meta)
        return told

    async def fit(self, update: Update) -> Update:
        """One update without what the editor has no words for."""
        match update:
            case ToolCallChanged():
                return await self._fit_tool_call(update)
            case PlanRemoved() if not self._editor.features.named_plans:
                rest = next(iter(self._plainer.heard.plans.values()), None)
                return PlanChanged(entries=[] if rest is None else rest.entries)
            case _:
                return update

    async def _fit_tool_call(self, update: ToolCallChanged) -> ToolCallChanged:
        fields = {name: first for name, first in AS_AT_FIRST.items() if getattr(update, name) is None}
        if update.raw_input is None or update.raw_output is None or update.name is None:
            await self._losses.tell("cleared", self._editor, self._session_id)
        if isinstance(update.content, list) and any(isinstance(part, TerminalPart) for part in update.content):
            fields["content"] = self._screens.as_text(update.tool_call_id, update.content)
            await self._losses.tell("terminals")
        return structs.replace(update, **fields) if fields else update

    def _lost(self, update: Update) -> str | None:
        """The kind of what gets lost, if this does."""
        features: ClientFeatures = self._editor.features
        match update:
            case Notice() if not features.notices:
                return "notices"
            case CompactionChanged() | CompactionChunk() if not features.compaction:
                return "compaction"
            case SubagentChanged() | SessionMessageChanged() | SessionMessageChunk() if not features.subagents:
                return "subagents"
            case PlanChanged(plan_id=str(), entries=None) if not features.named_plans:
                return "plans"
            case SettingsChanged() if not features.boolean_settings:
                return "switches" if any(setting.kind == "boolean" for setting in update.settings) else None
            case _:
                return None

    async def _miss_message(self, change: MessageChanged, told: list[Update]) -> None:
        """A message that was told cannot be taken back."""
        ids = [getattr(chunk, "message_id", None) for chunk in told]
        if ids and ids[0] != change.message_id:
            await self._losses.tell("replaced", self._editor, self._session_id)
        elif change.content is not UNSET and not change.content and change.role != "user":
            await self._losses.tell("withdrawn", self._editor, self._session_id)
