"""What a client of version 2 does for its agent: it listens, and answers its questions to the user."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar

import msgspec

from duologue.conversation.updates import (
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    SettingsUpdate,
    StateUpdate,
    ToolCallUpdate,
    Update,
)
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.interfaces import ClientHandler
from duologue.protocol.shared.client_methods import ClientMethods
from duologue.protocol.v2.agent_proxy import V2AgentProxy
from duologue.protocol.v2.tools import permission_tool_from_wire
from duologue.protocol.v2.updates import update_from_wire
from duologue.protocol.values import ClientCapabilities
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v2

__all__ = ["V2ClientMethods"]


class V2ClientMethods(ClientMethods):
    """Registers what the client offers to an agent of version 2.

    Args:
        core: The client.
        features: What it offers.
        handlers: The table of the connection.
        gate: Leaves out what is unstable and not switched on.
        proxy: Is told of states: they end the turns it waits for.
    """

    schema: ClassVar[Any] = v2

    def __init__(
        self,
        core: ClientHandler,
        features: ClientCapabilities,
        handlers: Handlers,
        gate: FeatureFilter,
        proxy: V2AgentProxy,
    ) -> None:
        super().__init__(core, features, handlers, gate)
        self._proxy = proxy
        handlers.on(v2.SESSION_UPDATE)(self._update)
        self._answer_permission(v2.SESSION_REQUEST_PERMISSION)

    def _update(self, context: Context, params: v2.UpdateSessionNotification) -> Coroutine[Any, Any, None]:
        update = update_from_wire(params.update)
        if isinstance(update, MessageChunk) and update.role != "user":  # most of all takes the short way
            return self._on_update(context, params, update)
        return self._heard_and_noted(context, params, update)

    async def _heard_and_noted(self, context: Context, params: v2.UpdateSessionNotification, update: Update) -> None:
        await self._on_update(context, params, update)
        match update:
            case StateUpdate():
                self._proxy.on_state(params.session_id, update)
            case MessageUpdate(role="user") | MessageChunk(role="user", message_id=str()):
                self._proxy.on_echo(params.session_id, str(update.message_id))
            case SettingsUpdate():
                # Version 1 has a word for this, and those who listen need not know which version is spoken.
                mode = self._proxy.new_mode(params.session_id, update.settings)
                if mode is not None:
                    await self._on_update(context, params, ModeUpdate(mode_id=mode))
            case _:
                pass

    def _tool_of(self, context: Context, params: v2.RequestPermissionRequest) -> ToolCallUpdate:
        tool = permission_tool_from_wire(params)
        if not tool.tool_call_id:  # asked about something that is no tool call of the conversation
            tool = msgspec.structs.replace(tool, tool_call_id=f"permission-{context.id}")
        return tool
