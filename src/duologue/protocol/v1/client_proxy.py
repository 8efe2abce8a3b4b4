"""Calls of an agent to a client of version 1."""

from __future__ import annotations

from typing import Any, ClassVar

from duologue.conversation.content import JsonObject, TextContent
from duologue.conversation.updates import (
    MessageChunk,
    MessageUpdate,
    PlanUpdate,
    Role,
    SettingsUpdate,
    ToolCallUpdate,
    Update,
)
from duologue.conversation.work_state import BackgroundWork
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.v1.updates import chunk_to_wire, permission_tool, update_to_wire
from duologue.protocol.values import PermissionOption
from duologue.runtime.text_template import PLACEHOLDER, TextTemplate
from duologue.schema import v1


class V1ClientProxy(ClientProxy):
    """Calls of an agent to a client of version 1."""

    schema: ClassVar[Any] = v1

    def text_chunks(self, session_id: str, role: Role, message_id: str) -> TextTemplate:
        chunk = chunk_to_wire(MessageChunk(role=role, content=TextContent(PLACEHOLDER), message_id=message_id))
        params = v1.SessionNotification(session_id=session_id, update=chunk)
        return self._connection.internals.text_template(v1.SESSION_UPDATE, params)

    async def update(self, session_id: str, update: Update) -> None:
        update = self._adapt(update)
        if not self._is_supported(update):
            return
        wire = update_to_wire(update)
        if wire is not None:
            await self._notify(v1.SESSION_UPDATE, v1.SessionNotification(session_id=session_id, update=wire))
        elif isinstance(update, MessageUpdate):
            from duologue.conversation.downgrade import chunks_of

            for chunk in chunks_of(update):
                await self.update(session_id, chunk)

    def _is_supported(self, update: Update) -> bool:
        match update:
            case SettingsUpdate(settings=[]):
                return False
            case PlanUpdate(plan_id=str()):
                return self.capabilities.named_plans
            case _:
                return update.capability is None or getattr(self.capabilities, update.capability)

    def _adapt(self, update: Update) -> Update:
        """Leave out boolean options, and the id of a plan, for a client that does not support them."""
        match update:
            case SettingsUpdate() if not self.capabilities.boolean_settings:
                settings = [setting for setting in update.settings if setting.kind != "boolean"]
                return SettingsUpdate(settings=settings, meta=update.meta)
            case PlanUpdate(plan_id=str(), entries=list()) if not self.capabilities.named_plans:
                return PlanUpdate(entries=update.entries, meta=update.meta)
            case _:
                return update

    async def work_in_background(self, session_id: str, work: list[BackgroundWork]) -> None:
        """Send nothing: version 1 has no message for it."""

    async def ask_permission(
        self, session_id: str, tool: ToolCallUpdate, options: list[PermissionOption], meta: JsonObject | None
    ) -> str | None:
        request = v1.RequestPermissionRequest(
            session_id=session_id,
            tool_call=permission_tool(tool),
            options=self._options_to_wire(options),
            meta=meta,
        )
        return await self._request_permission(request)
