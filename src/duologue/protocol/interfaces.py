"""What a dialect and the two sides ask of each other, free of versions.

`AgentHandler` is implemented by the agent's side and called by its dialect; `Editor` is implemented by that dialect and
called by the agent's side. Neither knows which version is spoken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.items import ToolCall
from duologue.conversation.session_setup import Implementation, SessionInfo, SessionParams
from duologue.conversation.settings import ConfigOption
from duologue.conversation.updates import ToolCallUpdate, Update
from duologue.conversation.work_state import BackgroundWork
from duologue.protocol.meta import RequestMeta
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
    TerminalExit,
    TerminalOutputResult,
)

__all__ = ["AgentHandler", "AgentProxy", "ClientHandler", "ClientProxy"]


class ClientProxy(ABC):
    """The client as the agent sees it. Each call fails with a `RequestError` if the client refuses."""

    features: ClientCapabilities
    info: Implementation | None

    @property
    @abstractmethod
    def is_gone(self) -> bool:
        """Nothing more will come from the client."""

    @property
    @abstractmethod
    def carries_mcp(self) -> bool:
        """MCP over ACP is switched on: `mcp_message` may be used."""

    @abstractmethod
    def update(self, session_id: str, update: Update) -> Coroutine[Any, Any, None]:
        """Tell the client what happens; what it did not ask for (notices, compaction, …) is left out."""

    def replayed(self, updates: AsyncIterator[Update]) -> AsyncIterator[Update]:
        """The past of a session, as this client is to be told of it."""
        return updates

    @abstractmethod
    async def work_in_background(self, session_id: str, work: list[BackgroundWork]) -> None:
        """Tell what goes on beside and between turns, all of it, where clients can be told."""

    @abstractmethod
    async def ask_permission(
        self, session_id: str, tool: ToolCallUpdate, options: list[PermissionOption], meta: JsonObject | None
    ) -> str | None:
        """The id of the option the user chose, or `None` if the question was cancelled."""

    @abstractmethod
    async def read_file(self, session_id: str, path: str, line: int | None, limit: int | None) -> str: ...

    @abstractmethod
    async def write_file(self, session_id: str, path: str, text: str) -> None: ...

    @abstractmethod
    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str],
        env: dict[str, str],
        cwd: str | None,
        limit: int | None,
        late: Callable[[str], object] | None = None,
    ) -> str:
        """The id of a terminal that runs this; `late` is told of one that was made although the wait was cancelled."""

    @abstractmethod
    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutputResult: ...

    @abstractmethod
    async def wait_for_exit(self, session_id: str, terminal_id: str) -> TerminalExit: ...

    @abstractmethod
    async def kill_terminal(self, session_id: str, terminal_id: str) -> None: ...

    @abstractmethod
    async def release_terminal(self, session_id: str, terminal_id: str) -> None: ...

    @abstractmethod
    async def elicit(self, question: Elicitation) -> ElicitationAnswer: ...

    @abstractmethod
    async def complete_elicitation(self, elicitation_id: str) -> None: ...

    @abstractmethod
    async def tell_login_status(self, status: AuthStatus) -> None: ...

    @abstractmethod
    async def mcp_message(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None
    ) -> JsonObject: ...

    @abstractmethod
    async def call_extension(self, name: str, params: Any, result: Any) -> Any:
        """Call a custom method (`_…`) of the client; `result` is the type its answer is read as."""

    @abstractmethod
    async def notify_extension(self, name: str, params: Any) -> None: ...


class AgentHandler(Protocol):
    """The agent as a dialect sees it: one per connection."""

    def requested(self, request: RequestMeta) -> None:
        """A request or notification has come; what it is about follows in a call of its own."""

    async def initialize(
        self, client: Implementation | None, features: ClientCapabilities, editor: ClientProxy
    ) -> InitializeResult: ...

    async def login(self, method_id: str, meta: JsonObject | None) -> None: ...

    async def logout(self) -> None: ...

    async def login_status(self) -> AuthStatus: ...

    async def new_session(self, setup: SessionParams) -> SessionOpened: ...

    async def open_session(self, session_id: str, setup: SessionParams, *, replay: bool) -> SessionOpened: ...

    async def introduced(self, session_id: str) -> None:
        """The client has the answer that opens the session: from now on it may be told of it."""

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
        """Until the turn has ended; `inserted` is awaited with the id of the user's message before it begins."""
        ...

    def cancel(self, session_id: str) -> None: ...

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None: ...

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None: ...

    async def set_mode(self, session_id: str, mode_id: str) -> None: ...

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]: ...

    async def set_model(self, session_id: str, model_id: str) -> None: ...

    async def list_providers(self) -> list[Provider]: ...

    async def set_provider(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None: ...

    async def disable_provider(self, provider_id: str) -> None: ...

    def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None: ...


class AgentProxy(ABC):
    """The agent as the client sees it. Each call fails with a `RequestError` if the agent refuses."""

    version: int
    """The version of the protocol that is spoken."""

    @abstractmethod
    def allows(self, feature: str) -> bool:
        """Return True if this feature is stable in this version or switched on; see `protocol.feature_filter`."""

    @abstractmethod
    async def initialize(self, info: Implementation, features: ClientCapabilities) -> InitializeResult: ...

    @abstractmethod
    async def login(self, method_id: str) -> None: ...

    @abstractmethod
    async def logout(self) -> None: ...

    @abstractmethod
    async def login_status(self) -> AuthStatus: ...

    @abstractmethod
    async def new_session(
        self, setup: SessionParams, arrived: Callable[[SessionOpened], None], late: Callable[[SessionOpened], object]
    ) -> SessionOpened:
        """Open a session; `arrived` is called the moment its id is known, before anything else of it is handled.

        `late` is told of one that was opened although the wait was cancelled.
        """

    @abstractmethod
    async def load_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        """Open an earlier session; all it said before is told again first."""

    @abstractmethod
    async def resume_session(self, session_id: str, setup: SessionParams) -> SessionOpened:
        """Open an earlier session without hearing it again."""

    @abstractmethod
    async def fork_session(
        self,
        session_id: str,
        setup: SessionParams,
        arrived: Callable[[SessionOpened], None],
        late: Callable[[SessionOpened], object],
    ) -> SessionOpened: ...

    @abstractmethod
    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> tuple[list[SessionInfo], str | None]: ...

    @abstractmethod
    async def close_session(self, session_id: str) -> None: ...

    @abstractmethod
    async def delete_session(self, session_id: str) -> None: ...

    @abstractmethod
    async def archive_session(self, session_id: str, is_archived: bool) -> None: ...

    @abstractmethod
    async def session_status(self, session_id: str) -> str: ...

    @abstractmethod
    async def set_title(self, session_id: str, title: str) -> str: ...

    @abstractmethod
    async def prompt(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> PromptResult:
        """Until the turn has ended and every update of it was handled."""

    @abstractmethod
    async def cancel(self, session_id: str) -> None: ...

    @abstractmethod
    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None: ...

    @abstractmethod
    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None: ...

    @abstractmethod
    async def set_mode(self, session_id: str, mode_id: str) -> None: ...

    @abstractmethod
    async def set_model(self, session_id: str, model_id: str) -> None: ...

    @abstractmethod
    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[ConfigOption]: ...

    @abstractmethod
    async def list_providers(self) -> list[Provider]: ...

    @abstractmethod
    async def set_provider(self, provider_id: str, api_type: str, base_url: str, headers: dict[str, str]) -> None: ...

    @abstractmethod
    async def disable_provider(self, provider_id: str) -> None: ...

    @abstractmethod
    async def mcp_notify(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> None: ...

    @abstractmethod
    async def call_extension(self, name: str, params: Any, result: Any) -> Any: ...

    @abstractmethod
    async def notify_extension(self, name: str, params: Any) -> None: ...


class ClientHandler(Protocol):
    """The client as a dialect sees it: one per connection. What it cannot do it answers with a `RequestError`."""

    def update(self, session_id: str, update: Update, raw: bytes) -> Coroutine[Any, Any, None]: ...

    def asked_permission(self, session_id: str, tool: ToolCallUpdate, raw: bytes) -> ToolCall | None:
        """Fold in the tool call of a question, in its place among the updates; returns how the tool call stands there.

        It is called after all that arrived before the question was handled, and before anything behind it is.
        """

    async def ask_permission(
        self,
        session_id: str,
        tool: ToolCallUpdate,
        known: ToolCall | None,
        options: list[PermissionOption],
        raw: bytes,
    ) -> str | None:
        """The id of the option to answer with, `None` for "cancelled"; `known` is what `asked_permission` returned."""
        ...

    async def read_file(self, session_id: str, path: str, line: int | None, limit: int | None) -> str: ...

    async def write_file(self, session_id: str, path: str, text: str) -> None: ...

    async def create_terminal(
        self, session_id: str, command: str, args: list[str], env: dict[str, str], cwd: str | None, limit: int | None
    ) -> str: ...

    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutputResult: ...

    async def wait_for_exit(self, session_id: str, terminal_id: str) -> TerminalExit: ...

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None: ...

    async def release_terminal(self, session_id: str, terminal_id: str) -> None: ...

    async def elicit(self, question: Elicitation) -> ElicitationAnswer: ...

    async def elicitation_completed(self, elicitation_id: str) -> None: ...

    async def login_status_changed(self, status: AuthStatus) -> None: ...

    async def mcp_message(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None
    ) -> JsonObject: ...
