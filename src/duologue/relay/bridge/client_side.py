"""Requests and updates of the agent, passed on to the client behind the bridge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec import structs

from duologue.conversation.content import Content, JsonObject, TextContent
from duologue.conversation.items import ToolCall
from duologue.conversation.updates import MessageChunk, Role, ToolCallUpdate, Update
from duologue.errors import ConnectionLost, InternalError, MethodNotFound
from duologue.protocol.client_requests import ClientRequest
from duologue.protocol.values import AuthStatus, Elicitation, ElicitationAnswer, PermissionOption
from duologue.relay.bridge.passthrough import forwarded_meta
from duologue.relay.bridge.state import BridgeState

T = TypeVar("T")


class BridgeClientHandler:
    """Handle the agent's requests by passing them on to the client."""

    def __init__(self, state: BridgeState) -> None:
        self._state = state

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Send a request to the client; earlier messages of the agent were passed on already."""
        try:
            with forwarded_meta():
                return await ask()
        except ConnectionLost as lost:
            raise InternalError(f"the client is gone: {lost}") from lost

    # --- notifications

    def text(
        self, session_id: str, role: Role, message_id: str | None, text: str, raw: bytes
    ) -> Coroutine[Any, Any, None]:
        return self.update(session_id, MessageChunk(role=role, content=TextContent(text), message_id=message_id), raw)

    async def update(self, session_id: str, update: Update, raw: bytes) -> None:
        if session_id not in self._state.closed and not self._state.client.is_gone:
            await self._state.session(session_id).on_update(update)

    async def elicitation_completed(self, elicitation_id: str) -> None:
        await self._state.client.complete_elicitation(elicitation_id)

    async def auth_status_changed(self, status: AuthStatus) -> None:
        await self._state.client.send_auth_status(status)

    # --- requests

    def take_steering(self, session_id: str) -> tuple[list[list[Content]], bool]:
        raise MethodNotFound("the bridge passes steering on only if the client sends it")

    def note_permission_request(self, session_id: str, tool: ToolCallUpdate, raw: bytes) -> ToolCall | None:
        return self._state.session(session_id).known_tool_call(tool)

    async def ask_permission(
        self,
        session_id: str,
        tool: ToolCallUpdate,
        known: ToolCall | None,
        options: list[PermissionOption],
        raw: bytes,
    ) -> str | None:
        state = self._state
        session = state.session(session_id)
        if session.turns.is_cancelling and state.agent_version == 1:
            return None  # sent before the agent received the cancel: do not show it to the user

        async def ask() -> str | None:
            asked = await session.permission_subject(tool, known, raw)
            return await state.client.ask_permission(session_id, asked, options, None)

        return await self._ask(lambda: session.ask(ask()))

    async def elicit(self, elicitation: Elicitation) -> ElicitationAnswer:
        session_id = elicitation.session_id
        elicitation = structs.replace(elicitation, request_id=self._state.request_ids.of_client(elicitation.request_id))
        if session_id is None:
            return await self._ask(lambda: self._state.client.elicit(elicitation))
        session = self._state.session(session_id)
        answer = await self._ask(lambda: session.ask(self._state.client.elicit(elicitation)))
        return answer or ElicitationAnswer(action="cancel")

    async def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject:
        return await self._ask(lambda: self._state.client.mcp_message(server_id, request_id, method, params))

    async def answer(self, request: ClientRequest[T]) -> T:
        return await self._ask(lambda: self._state.client.ask(request))
