"""Interfaces between the versions of the protocol and the two sides, free of versions.

`AgentHandler` and `ClientHandler` are implemented by the two sides, and called for requests of the peer. `AgentProxy`
and `ClientProxy`, which the sides call to reach the peer, are in `protocol.shared` and completed by each version.
Neither side knows which version is used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.items import ToolCall
from duologue.conversation.session_setup import Implementation, SessionInfo, SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.conversation.updates import Role, ToolCallUpdate, Update
from duologue.protocol.client_requests import ClientRequest
from duologue.protocol.meta import RequestMeta
from duologue.protocol.shared.client_proxy import ClientProxy
from duologue.protocol.steering import SteerAnswer
from duologue.protocol.values import (
    AuthStatus,
    ClientCapabilities,
    Elicitation,
    ElicitationAnswer,
    InitializeResult,
    PermissionOption,
    PromptResult,
    Provider,
    SessionOpened,
)

R = TypeVar("R")


class AgentHandler(Protocol):
    """The agent as a version of the protocol sees it: one per connection."""

    def requested(self, request: RequestMeta) -> None:
        """Note a request or notification before the call that handles it."""

    async def initialize(
        self, info: Implementation | None, capabilities: ClientCapabilities, client: ClientProxy, /
    ) -> InitializeResult: ...

    async def authenticate(self, method_id: str, meta: JsonObject | None) -> None: ...

    async def logout(self) -> None: ...

    async def auth_status(self) -> AuthStatus: ...

    async def new_session(self, setup: SessionParams) -> SessionOpened: ...

    async def open_session(self, session_id: str, setup: SessionParams, *, replay: bool) -> SessionOpened: ...

    async def session_announced(self, session_id: str) -> None:
        """Note that the answer that opens the session was sent, so that updates of it may follow."""

    async def fork_session(self, session_id: str, setup: SessionParams) -> SessionOpened: ...

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str
    ) -> tuple[list[SessionInfo], str | None]: ...

    async def close_session(self, session_id: str) -> None: ...

    async def delete_session(self, session_id: str) -> None: ...

    async def archive_session(self, session_id: str, is_archived: bool) -> None: ...

    async def session_status(self, session_id: str) -> str: ...

    async def set_title(self, session_id: str, title: str) -> str: ...

    async def prompt(
        self,
        session_id: str,
        prompt: list[Content],
        meta: JsonObject | None,
        inserted: Callable[[str], Awaitable[None]] | None = None,
    ) -> PromptResult:
        """Run a turn until it has ended; `inserted` is awaited with the id of the user's message before it begins."""
        ...

    async def steer(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> SteerAnswer: ...

    async def stop_task(self, session_id: str, task_id: str) -> bool:
        """Stop a background task; return False if it does not run, or goes on."""
        ...

    def cancel(self, session_id: str) -> None: ...

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None: ...

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None: ...

    async def set_mode(self, session_id: str, mode_id: str) -> None: ...

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]: ...

    @property
    def offers_models(self) -> bool: ...

    async def set_model(self, session_id: str, model_id: str) -> None: ...

    async def list_providers(self) -> list[Provider]: ...

    async def set_provider(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None: ...

    async def disable_provider(self, provider_id: str) -> None: ...

    def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None: ...


class ClientHandler(Protocol):
    """The client as a version of the protocol sees it: one per connection.

    A call raises a `RequestError` for what the client cannot do.
    """

    def text(
        self, session_id: str, role: Role, message_id: str | None, text: str, raw: bytes
    ) -> Coroutine[Any, Any, None] | None:
        """Handle a chunk of plain text of the agent, as most updates are; return what to await, if anything."""

    async def update(self, session_id: str, update: Update, raw: bytes) -> None:
        """Handle any other update."""

    def note_permission_request(self, session_id: str, tool: ToolCallUpdate, raw: bytes) -> ToolCall | None:
        """Apply the tool call of a permission request in order with the updates; return its state at that point.

        It is called after all earlier updates of the session have been handled, and before later ones are.
        """

    async def ask_permission(
        self,
        session_id: str,
        tool: ToolCallUpdate,
        known: ToolCall | None,
        options: list[PermissionOption],
        raw: bytes,
    ) -> str | None:
        """Return the id of the chosen option, or None for "cancelled".

        `known` is what `note_permission_request` returned.
        """
        ...

    def take_steering(self, session_id: str) -> tuple[list[list[Content]], bool]:
        """Hand out the texts that wait to be sent into the running turn, and whether a prompt waits for its end."""
        ...

    async def answer(self, request: ClientRequest[R]) -> R: ...

    async def elicit(self, elicitation: Elicitation) -> ElicitationAnswer: ...

    async def elicitation_completed(self, elicitation_id: str) -> None: ...

    async def auth_status_changed(self, status: AuthStatus) -> None: ...

    async def mcp_message(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None
    ) -> JsonObject: ...
