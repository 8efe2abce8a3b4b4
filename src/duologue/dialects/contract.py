"""What a dialect and the two sides ask of each other, free of versions.

`AgentCore` is implemented by the agent's side and called by its dialect; `Editor` is implemented by that dialect and
called by the agent's side. Neither knows which version is spoken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.settings import Modes, Setting
from duologue.conversation.setup import Party, SessionInfo, SessionSetup
from duologue.conversation.updates import Command, ToolCallChanged, Update

__all__ = [
    "Account",
    "AgentCore",
    "AgentFeatures",
    "AgentProxy",
    "ClientCore",
    "ClientFeatures",
    "Editor",
    "Elicitation",
    "ElicitationAnswer",
    "LoginMethod",
    "LoginStatus",
    "Opened",
    "PermissionOption",
    "PromptResult",
    "Provider",
    "TerminalExit",
    "TerminalOutput",
    "TokenUsage",
    "Welcome",
]


class ClientFeatures(Struct, frozen=True, kw_only=True):
    """What the client can do for the agent; nothing is assumed."""

    reads_files: bool = False
    writes_files: bool = False
    terminals: bool = False
    boolean_settings: bool = False
    notices: bool = False
    compaction: bool = False
    named_plans: bool = False
    subagents: bool = False
    forms: bool = False
    urls: bool = False
    terminal_login: bool = False
    meta: JsonObject | None = None


class AgentFeatures(Struct, frozen=True, kw_only=True):
    """What the agent can do for the client; it follows from what its author registered."""

    load: bool = False
    resume: bool = False
    list: bool = False
    close: bool = False
    delete: bool = False
    fork: bool = False
    archive: bool = False
    status: bool = False
    title: bool = False
    additional_directories: bool = False
    system_prompt: bool = False
    system_prompt_override: bool = False
    image: bool = False
    audio: bool = False
    embedded: bool = False
    mcp_http: bool = False
    mcp_sse: bool = False
    mcp_acp: bool = False
    logout: bool = False
    login_status: bool = False
    providers: bool = False
    meta: JsonObject | None = None


class LoginMethod(Struct, frozen=True, kw_only=True):
    """A way to log in: `agent` asks the agent to do it, `terminal` runs its program with these arguments."""

    method_id: str
    name: str
    description: str | None = None
    is_terminal: bool = False
    args: list[str] = []
    env: dict[str, str] = {}
    meta: JsonObject | None = None


class Account(Struct, frozen=True, kw_only=True):
    """Who is logged in, for a person to read."""

    label: str
    active: bool | None = None
    name: str | None = None
    email: str | None = None
    organization: str | None = None
    meta: JsonObject | None = None


class LoginStatus(Struct, frozen=True, kw_only=True):
    """`authenticated`, `unauthenticated`, `not_required` or `unknown`."""

    state: str
    accounts: list[Account] = []
    meta: JsonObject | None = None


class Provider(Struct, frozen=True, kw_only=True):
    """A model provider the agent can be pointed at."""

    provider_id: str
    supported: list[str]
    required: bool = False
    api_type: str | None = None
    base_url: str | None = None
    meta: JsonObject | None = None


class Welcome(Struct, frozen=True, kw_only=True):
    """The agent's half of the first exchange."""

    info: Party | None
    features: AgentFeatures
    login_methods: list[LoginMethod] = []


class Opened(Struct, frozen=True, kw_only=True):
    """A session as its client first sees it."""

    session_id: str
    settings: list[Setting] = []
    modes: Modes | None = None
    models: Setting | None = None
    """The setting of category `model`, for clients that know models only."""
    commands: list[Command] = []
    meta: JsonObject | None = None


class TokenUsage(Struct, frozen=True, kw_only=True):
    """The tokens of one turn."""

    total: int
    input: int
    output: int
    thought: int | None = None
    cached_read: int | None = None
    cached_write: int | None = None
    meta: JsonObject | None = None


class PromptResult(Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    stop_reason: str
    usage: TokenUsage | None = None
    meta: JsonObject | None = None


class PermissionOption(Struct, frozen=True, kw_only=True):
    """One answer a user may give: `allow_once`, `allow_always`, `reject_once`, `reject_always`."""

    option_id: str
    name: str
    kind: str
    meta: JsonObject | None = None


class TerminalExit(Struct, frozen=True, kw_only=True):
    """How a command ended: by itself with a code, or by a signal."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutput(Struct, frozen=True, kw_only=True):
    """What a command has printed so far, as far as it was kept."""

    output: str
    truncated: bool = False
    exit: TerminalExit | None = None


class Elicitation(Struct, frozen=True, kw_only=True):
    """A question to the user: a form (`schema`), or an address to visit (`url` with `elicitation_id`)."""

    message: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None = None
    schema: JsonObject | None = None
    url: str | None = None
    elicitation_id: str | None = None
    meta: JsonObject | None = None


class ElicitationAnswer(Struct, frozen=True, kw_only=True):
    """`accept` with content, `decline` or `cancel`; anything else is not an acceptance."""

    action: str
    content: JsonObject | None = None
    meta: JsonObject | None = None


class Editor(ABC):
    """The client as the agent sees it. Each call fails with a `RequestError` if the client refuses."""

    features: ClientFeatures
    info: Party | None

    @abstractmethod
    async def update(self, session_id: str, update: Update) -> None:
        """Tell the client what happens; what it did not ask for (notices, compaction, …) is left out."""

    @abstractmethod
    async def ask_permission(
        self, session_id: str, tool: ToolCallChanged, options: list[PermissionOption], meta: JsonObject | None
    ) -> str | None:
        """The id of the option the user chose, or `None` if the question was cancelled."""

    @abstractmethod
    async def read_file(self, session_id: str, path: str, line: int | None, limit: int | None) -> str: ...

    @abstractmethod
    async def write_file(self, session_id: str, path: str, text: str) -> None: ...

    @abstractmethod
    async def create_terminal(
        self, session_id: str, command: str, args: list[str], env: dict[str, str], cwd: str | None, limit: int | None
    ) -> str: ...

    @abstractmethod
    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutput: ...

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
    async def tell_login_status(self, status: LoginStatus) -> None: ...

    @abstractmethod
    async def mcp_message(self, server_id: str, request_id: str, method: str, params: JsonObject | None) -> JsonObject: ...

    @abstractmethod
    async def call_extension(self, name: str, params: Any, result: Any) -> Any:
        """Call a custom method (`_…`) of the client; `result` is the type its answer is read as."""

    @abstractmethod
    async def notify_extension(self, name: str, params: Any) -> None: ...


class AgentCore(Protocol):
    """The agent as a dialect sees it: one per connection."""

    async def initialize(self, client: Party | None, features: ClientFeatures, editor: Editor) -> Welcome: ...

    async def login(self, method_id: str, meta: JsonObject | None) -> None: ...

    async def logout(self) -> None: ...

    async def login_status(self) -> LoginStatus: ...

    async def new_session(self, setup: SessionSetup) -> Opened: ...

    async def open_session(self, session_id: str, setup: SessionSetup, *, replay: bool) -> Opened: ...

    async def fork_session(self, session_id: str, setup: SessionSetup) -> Opened: ...

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str
    ) -> tuple[list[SessionInfo], str | None]: ...

    async def close_session(self, session_id: str) -> None: ...

    async def delete_session(self, session_id: str) -> None: ...

    async def archive_session(self, session_id: str, is_archived: bool) -> None: ...

    async def session_status(self, session_id: str) -> str: ...

    async def set_title(self, session_id: str, title: str) -> str: ...

    async def prompt(self, session_id: str, prompt: list[Content], meta: JsonObject | None) -> PromptResult: ...

    def cancel(self, session_id: str) -> None: ...

    async def set_mode(self, session_id: str, mode_id: str) -> None: ...

    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[Setting]: ...

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
    async def initialize(self, info: Party | None, features: ClientFeatures) -> Welcome: ...

    @abstractmethod
    async def login(self, method_id: str) -> None: ...

    @abstractmethod
    async def logout(self) -> None: ...

    @abstractmethod
    async def login_status(self) -> LoginStatus: ...

    @abstractmethod
    async def new_session(self, setup: SessionSetup, arrived: Callable[[Opened], None]) -> Opened:
        """Open a session; `arrived` is called the moment its id is known, before anything else of it is handled."""

    @abstractmethod
    async def load_session(self, session_id: str, setup: SessionSetup) -> Opened:
        """Open an earlier session; all it said before is told again first."""

    @abstractmethod
    async def resume_session(self, session_id: str, setup: SessionSetup) -> Opened:
        """Open an earlier session without hearing it again."""

    @abstractmethod
    async def fork_session(
        self, session_id: str, setup: SessionSetup, arrived: Callable[[Opened], None]
    ) -> Opened: ...

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
    async def set_mode(self, session_id: str, mode_id: str) -> None: ...

    @abstractmethod
    async def set_model(self, session_id: str, model_id: str) -> None: ...

    @abstractmethod
    async def set_setting(self, session_id: str, setting_id: str, value: str | bool) -> list[Setting]: ...

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


class ClientCore(Protocol):
    """The client as a dialect sees it: one per connection. What it cannot do it answers with a `RequestError`."""

    async def update(self, session_id: str, update: Update, raw: bytes) -> None: ...

    async def ask_permission(
        self, session_id: str, tool: ToolCallChanged, options: list[PermissionOption], raw: bytes
    ) -> str | None: ...

    async def read_file(self, session_id: str, path: str, line: int | None, limit: int | None) -> str: ...

    async def write_file(self, session_id: str, path: str, text: str) -> None: ...

    async def create_terminal(
        self, session_id: str, command: str, args: list[str], env: dict[str, str], cwd: str | None, limit: int | None
    ) -> str: ...

    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutput: ...

    async def wait_for_exit(self, session_id: str, terminal_id: str) -> TerminalExit: ...

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None: ...

    async def release_terminal(self, session_id: str, terminal_id: str) -> None: ...

    async def elicit(self, question: Elicitation) -> ElicitationAnswer: ...

    async def elicitation_completed(self, elicitation_id: str) -> None: ...

    async def login_status_changed(self, status: LoginStatus) -> None: ...

    async def mcp_message(
        self, server_id: str, request_id: str, method: str, params: JsonObject | None
    ) -> JsonObject: ...
