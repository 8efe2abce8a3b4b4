"""The methods of a client in version 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from duologue.conversation.updates import (
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    Role,
    SettingsUpdate,
    StateUpdate,
    ToolCallUpdate,
)
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.shared.client_methods import ClientMethods
from duologue.protocol.v2.agent_proxy import V2AgentProxy
from duologue.protocol.v2.tools import permission_tool_from_wire
from duologue.protocol.v2.updates import update_from_wire
from duologue.protocol.values import ClientCapabilities
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v2

if TYPE_CHECKING:
    from duologue.protocol.interfaces import ClientHandler


class V2ClientMethods(ClientMethods):
    """Registers the methods that the client offers to an agent of version 2.

    Args:
        client: The client.
        capabilities: What the client offers.
        handlers: The handlers of the connection.
        feature_filter: Leaves out unstable features that are not switched on.
        proxy: Receives the states, which end the turns it waits for.
    """

    schema: ClassVar[Any] = v2
    text_roles: ClassVar[dict[type, Role]] = {v2.AgentMessageChunk: "agent", v2.AgentThoughtChunk: "thought"}

    def __init__(
        self,
        client: ClientHandler,
        capabilities: ClientCapabilities,
        handlers: Handlers,
        feature_filter: FeatureFilter,
        proxy: V2AgentProxy,
    ) -> None:
        super().__init__(client, capabilities, handlers, feature_filter)
        self._proxy = proxy

    async def _read_update(self, context: Context, params: v2.UpdateSessionNotification) -> None:
        update = update_from_wire(params.update)
        await self._on_update(context, params, update)
        match update:
            case StateUpdate():
                self._proxy.on_state(params.session_id, update)
            case MessageUpdate(role="user") | MessageChunk(role="user", message_id=str()):
                self._proxy.on_echo(params.session_id, str(update.message_id))
            case SettingsUpdate():
                # Version 1 has an update for this, and the client handles both versions alike.
                mode = self._proxy.new_mode(params.session_id, update.settings)
                if mode is not None:
                    await self._on_update(context, params, ModeUpdate(mode_id=mode))
            case _:
                pass

    def _tool_of(self, context: Context, params: v2.RequestPermissionRequest) -> ToolCallUpdate:
        tool = permission_tool_from_wire(params)
        if not tool.tool_call_id:  # the request is not about a tool call of the session
            tool = msgspec.structs.replace(tool, tool_call_id=f"permission-{context.id}")
        return tool
