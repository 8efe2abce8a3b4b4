"""Convert updates for a client of version 1, which knows neither upserts nor agent terminals."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, structs

from duologue.conversation.downgrade import V1Downgrader
from duologue.conversation.updates import (
    MessageChunk,
    MessageUpdate,
    PlanRemovedUpdate,
    PlanUpdate,
    SettingsUpdate,
    TerminalPart,
    ToolCallUpdate,
    Update,
)
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.values import ClientCapabilities
from duologue.relay.bridge.loss_report import LossReporter
from duologue.relay.bridge.terminal_text import TerminalsAsText

INITIAL_VALUES: dict[str, Any] = {"title": "", "kind": "other", "status": "pending", "content": [], "locations": []}
"""Values of cleared parts of a tool call, for clients to which null means that nothing changed."""


class UpdateDowngrader:
    """Convert the updates of one session to version 1.

    Args:
        session_id: The session.
        client: The client.
        downgrader: Converts upserts, and knows what was sent.
        terminals: Shows the agent's terminals as text.
        losses: Reports what cannot be converted.
    """

    def __init__(
        self,
        session_id: str,
        client: ClientProxy,
        downgrader: V1Downgrader,
        terminals: TerminalsAsText,
        losses: LossReporter,
    ) -> None:
        self._session_id = session_id
        self._client = client
        self._downgrader = downgrader
        self._terminals = terminals
        self._losses = losses

    async def convert(self, update: Update) -> list[Update]:
        """Return the updates of version 1 for an update."""
        if type(update) is MessageChunk:  # the fast path for most updates
            return self._downgrader.convert(update)
        kind = self._lost(update)
        if kind is not None:
            await self._losses.report(kind, self._client, self._session_id)
        converted = [await self.adapt(plain) for plain in self._downgrader.convert(update)]
        if isinstance(update, MessageUpdate):
            await self._report_changed_message(update, converted)
        if converted and isinstance(update.meta, dict) and converted[0].meta is UNSET:
            converted[0] = structs.replace(converted[0], meta=update.meta)
        return converted

    async def adapt(self, update: Update) -> Update:
        """Return an update without what version 1 does not know."""
        match update:
            case ToolCallUpdate():
                return await self._adapt_tool_call(update)
            case PlanRemovedUpdate() if not self._client.capabilities.named_plans:
                rest = next(iter(self._downgrader.sent.plans.values()), None)
                return PlanUpdate(entries=[] if rest is None else rest.entries)
            case _:
                return update

    async def _adapt_tool_call(self, update: ToolCallUpdate) -> ToolCallUpdate:
        fields = {name: first for name, first in INITIAL_VALUES.items() if getattr(update, name) is None}
        if update.raw_input is None or update.raw_output is None or update.name is None:
            await self._losses.report("cleared", self._client, self._session_id)
        if isinstance(update.content, list) and any(isinstance(part, TerminalPart) for part in update.content):
            fields["content"] = self._terminals.as_text(update.tool_call_id, update.content)
            await self._losses.report("terminals")
        return structs.replace(update, **fields) if fields else update

    def _lost(self, update: Update) -> str | None:
        """Return the kind of loss, if the client cannot show this update."""
        capabilities: ClientCapabilities = self._client.capabilities
        match update:
            case PlanUpdate(plan_id=str(), entries=None) if not capabilities.named_plans:
                return "plans"
            case SettingsUpdate() if not capabilities.boolean_settings:
                return "switches" if any(setting.kind == "boolean" for setting in update.settings) else None
            case PlanRemovedUpdate():
                return None  # the rest of the plan is sent instead
            case _:
                is_lost = update.capability is not None and not getattr(capabilities, update.capability)
                return update.capability if is_lost else None

    async def _report_changed_message(self, change: MessageUpdate, converted: list[Update]) -> None:
        """Report a message that the agent replaced or withdrew, which version 1 cannot."""
        ids = [getattr(chunk, "message_id", None) for chunk in converted]
        if ids and ids[0] != change.message_id:
            await self._losses.report("replaced", self._client, self._session_id)
        elif change.content is not UNSET and not change.content and change.role != "user":
            await self._losses.report("withdrawn", self._client, self._session_id)
