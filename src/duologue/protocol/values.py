"""The words dialects and the two sides share: features, login, permission, terminals, questions, how a turn ended."""

from __future__ import annotations

from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation
from duologue.conversation.settings import ConfigOption, Modes
from duologue.conversation.updates import AvailableCommand
from duologue.conversation.work_state import TerminalExit, TokenUsage

__all__ = [
    "Account",
    "AgentCapabilities",
    "AuthMethod",
    "AuthStatus",
    "ClientCapabilities",
    "Elicitation",
    "ElicitationAnswer",
    "InitializeResult",
    "PermissionOption",
    "PromptResult",
    "Provider",
    "SessionOpened",
    "TerminalExit",
    "TerminalOutputResult",
    "TokenUsage",
]


class ClientCapabilities(Struct, frozen=True, kw_only=True):
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
    shows_terminals: bool = False
    """It shows the output of commands that the agent itself runs (version 2)."""
    meta: JsonObject | None = None


class AgentCapabilities(Struct, frozen=True, kw_only=True):
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
    mcp_stdio: bool = True
    """Only version 2 has agents that cannot start MCP servers."""
    mcp_http: bool = False
    mcp_sse: bool = False
    mcp_acp: bool = False
    logout: bool = False
    login_status: bool = False
    providers: bool = False
    meta: JsonObject | None = None


class AuthMethod(Struct, frozen=True, kw_only=True):
    """A way to log in: `agent` asks the agent to do it, `terminal` runs its program with these arguments."""

    method_id: str
    name: str
    description: str | None = None
    is_terminal: bool = False
    args: list[str] = []
    env: dict[str, str] = {}
    other: JsonObject | None = None
    """A kind of login this version does not know, as it came."""
    meta: JsonObject | None = None


class Account(Struct, frozen=True, kw_only=True):
    """Who is logged in, for a person to read."""

    label: str
    active: bool | None = None
    name: str | None = None
    email: str | None = None
    organization: str | None = None
    meta: JsonObject | None = None


class AuthStatus(Struct, frozen=True, kw_only=True):
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


class InitializeResult(Struct, frozen=True, kw_only=True):
    """The agent's half of the first exchange."""

    info: Implementation | None
    capabilities: AgentCapabilities
    login_methods: list[AuthMethod] = []


class SessionOpened(Struct, frozen=True, kw_only=True):
    """A session as its client first sees it."""

    session_id: str
    settings: list[ConfigOption] = []
    modes: Modes | None = None
    models: ConfigOption | None = None
    """The setting of category `model`, for clients that know models only."""
    commands: list[AvailableCommand] = []
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


class TerminalOutputResult(Struct, frozen=True, kw_only=True):
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
