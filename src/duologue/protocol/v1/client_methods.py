"""The methods of a client in version 1."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from duologue.conversation.fields import convert_fields
from duologue.conversation.updates import Role, ToolCallUpdate
from duologue.conversation.work_state import TerminalExit
from duologue.errors import ResourceNotFound
from duologue.protocol.client_requests import ClientRequest, GetTerminalOutput, WaitForExit
from duologue.protocol.feature_filter import FeatureFilter
from duologue.protocol.shared.client_methods import ClientMethods
from duologue.protocol.steering import PULL, PulledText, PullRequest, PullResponse
from duologue.protocol.v1.content import blocks_to_wire
from duologue.protocol.v1.terminal_meta import terminal_updates
from duologue.protocol.v1.updates import permission_tool_from_wire, update_from_wire
from duologue.protocol.values import ClientCapabilities
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import legacy, v1
from duologue.schema.base import JsonObject, Method

if TYPE_CHECKING:
    from duologue.protocol.interfaces import ClientHandler


class V1ClientMethods(ClientMethods):
    """Registers the methods that the client offers to an agent of version 1."""

    schema: ClassVar[Any] = v1
    text_roles: ClassVar[dict[type, Role]] = {v1.AgentMessageChunk: "agent", v1.AgentThoughtChunk: "thought"}

    def __init__(
        self, client: ClientHandler, capabilities: ClientCapabilities, handlers: Handlers, feature_filter: FeatureFilter
    ) -> None:
        super().__init__(client, capabilities, handlers, feature_filter)
        self._on_request(Method(PULL, PullRequest, PullResponse, side="client", stable=False), self._hand_out)

    async def _hand_out(self, context: Context, params: PullRequest) -> PullResponse:
        texts, has_prompt = self._client.take_steering(params.session_id)
        items = [PulledText(content=[*blocks_to_wire(text)]) for text in texts]
        return PullResponse(items=items, has_queued_prompt=has_prompt)

    async def _read_update(self, context: Context, params: v1.SessionNotification) -> None:
        update = update_from_wire(params.update)
        for each in (*terminal_updates(update), update):
            await self._on_update(context, params, each)

    def _tool_of(self, context: Context, params: v1.RequestPermissionRequest) -> ToolCallUpdate:
        return permission_tool_from_wire(params.tool_call)

    async def _answer(self, kind: type[ClientRequest[Any]], context: Context, params: Any) -> Any:
        """Answer a request; older agents set a limit to a wait, and want the output with its end."""
        requested = legacy.wait_request(params.meta) if kind is WaitForExit else None
        if requested is None or not (requested.output or requested.seconds is not None):
            return await super()._answer(kind, context, params)
        where = {"session_id": params.session_id, "terminal_id": params.terminal_id}
        ended: TerminalExit | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(requested.seconds):
                ended = await self._client.answer(WaitForExit(**where))
        meta = await self._output_meta(GetTerminalOutput(**where)) if requested.output else None
        response = v1.WaitForTerminalExitResponse(meta=meta)
        return response if ended is None else convert_fields(ended, v1.WaitForTerminalExitResponse, meta=meta)

    async def _output_meta(self, request: GetTerminalOutput) -> JsonObject | None:
        """Return the output as the `_meta` of an answer; a terminal that was released has none."""
        try:
            return legacy.seed_meta(output=(await self._client.answer(request)).output)
        except ResourceNotFound:
            return legacy.seed_meta(output="")
