"""Values that the two sides and all versions share: capabilities, authentication, permissions, elicitation."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import Implementation
from duologue.conversation.settings import ConfigOption, Modes
from duologue.conversation.updates import AvailableCommand
from duologue.conversation.work_state import TerminalExit, TokenUsage
from duologue.protocol.steering import Spelling

IMPLIED = "implied"


class Capability(Struct, frozen=True):
    """A field of `ClientCapabilities` or `AgentCapabilities`, and its cell for each version.

    A cell is the path inside the capabilities object and the value that advertises the capability there. Version 1 uses
    `true` for some and an empty object for others; version 2 uses objects only. `IMPLIED`: every peer has it. A
    capability without a cell cannot be advertised in that version.
    """

    name: str
    v1: str = ""
    v2: str = ""

    def __getitem__(self, version: int) -> str:
        """Return the cell of a version."""
        return self.v1 if version == 1 else self.v2


class ClientCapabilities(Struct, frozen=True, kw_only=True):
    """Capabilities of the client; all are off by default."""

    reads_files: bool = False
    writes_files: bool = False
    terminals: bool = False
    boolean_settings: bool = False
    notices: bool = False
    compaction: bool = False
    named_plans: bool = False
    subagents: bool = False
    background_tasks: bool = False
    """The client shows background tasks; declared in `_meta` of the capabilities, in every version."""
    forms: bool = False
    urls: bool = False
    terminal_login: bool = False
    shows_terminals: bool = False
    """The client shows the output of commands that the agent itself runs (version 2)."""
    meta: JsonObject | None = None


CLIENT_CAPABILITIES = (
    Capability("reads_files", "fs.readTextFile=true"),
    Capability("writes_files", "fs.writeTextFile=true"),
    Capability("terminals", "terminal=true"),
    Capability("boolean_settings", "session.configOptions.boolean={}", IMPLIED),
    Capability("notices", "session.notices={}", IMPLIED),
    Capability("compaction", "session.compaction={}", IMPLIED),
    Capability("named_plans", "plan={}", IMPLIED),
    Capability("subagents", "subagents={}", IMPLIED),
    Capability("forms", "elicitation.form={}", "elicitation.form={}"),
    Capability("urls", "elicitation.url={}", "elicitation.url={}"),
    Capability("terminal_login", "auth.terminal=true", "auth.terminal={}"),
    Capability("shows_terminals", "", IMPLIED),
)
_IMPLIED_BY_V2: dict[str, Any] = {row.name: True for row in CLIENT_CAPABILITIES if row.v2 == IMPLIED}
V2_CLIENT = ClientCapabilities(**_IMPLIED_BY_V2)
"""The capabilities of every client of version 2."""


class AgentCapabilities(Struct, frozen=True, kw_only=True):
    """Capabilities of the agent; they follow from what its author registered."""

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
    """Only in version 2 can an agent say that it does not start MCP servers."""
    mcp_http: bool = False
    mcp_sse: bool = False
    mcp_acp: bool = False
    logout: bool = False
    login_status: bool = False
    providers: bool = False
    steering: bool = False
    """Text can be sent into a running turn; advertised in `_meta` of the answer to `initialize`, in every version."""
    background_tasks: bool = False
    """Background tasks are reported and can be stopped; advertised where `steering` is, to clients that show them."""
    meta: JsonObject | None = None


AGENT_CAPABILITIES = (
    Capability("load", "loadSession=true", "session={}"),
    Capability("resume", "sessionCapabilities.resume={}", "session={}"),
    Capability("list", "sessionCapabilities.list={}", "session={}"),
    Capability("close", "sessionCapabilities.close={}", "session={}"),
    Capability("delete", "sessionCapabilities.delete={}", "session.delete={}"),
    Capability("fork", "sessionCapabilities.fork={}", "session.fork={}"),
    Capability("archive", "sessionCapabilities.archive={}", "session.archive={}"),
    Capability("status", "sessionCapabilities.status={}", "session.status={}"),
    Capability("title", "sessionCapabilities.title={}", "session.title={}"),
    Capability(
        "additional_directories", "sessionCapabilities.additionalDirectories={}", "session.additionalDirectories={}"
    ),
    Capability("system_prompt", "sessionCapabilities.systemPrompt={}", "session.systemPrompt={}"),
    Capability(
        "system_prompt_override",
        "sessionCapabilities.systemPrompt.mode.override={}",
        "session.systemPrompt.mode.override={}",
    ),
    Capability("image", "promptCapabilities.image=true", "session.prompt.image={}"),
    Capability("audio", "promptCapabilities.audio=true", "session.prompt.audio={}"),
    Capability("embedded", "promptCapabilities.embeddedContext=true", "session.prompt.embeddedContext={}"),
    Capability("mcp_stdio", "", "session.mcp.stdio={}"),
    Capability("mcp_http", "mcpCapabilities.http=true", "session.mcp.http={}"),
    Capability("mcp_sse", "mcpCapabilities.sse=true"),
    Capability("mcp_acp", "mcpCapabilities.acp=true", "session.mcp.acp={}"),
    Capability("logout", "auth.logout={}"),
    Capability("login_status", "auth.status={}", "auth.status={}"),
    Capability("providers", "providers={}", "providers={}"),
)


class AuthMethod(Struct, frozen=True, kw_only=True):
    """An authentication method: the agent logs in itself, or its program runs in a terminal with these arguments."""

    method_id: str
    name: str
    description: str | None = None
    is_terminal: bool = False
    args: list[str] = []
    env: dict[str, str] = {}
    other: JsonObject | None = None
    """A method of an unknown type, as received."""
    meta: JsonObject | None = None


class Account(Struct, frozen=True, kw_only=True):
    """An account that is logged in, for a person to read."""

    label: str
    active: bool | None = None
    name: str | None = None
    email: str | None = None
    organization: str | None = None
    meta: JsonObject | None = None


class AuthStatus(Struct, frozen=True, kw_only=True):
    """An authentication status: `authenticated`, `unauthenticated`, `not_required` or `unknown`, and the accounts."""

    state: str
    accounts: list[Account] = []
    meta: JsonObject | None = None


class Provider(Struct, frozen=True, kw_only=True):
    """A model provider that the agent can use."""

    provider_id: str
    supported: list[str]
    required: bool = False
    api_type: str | None = None
    base_url: str | None = None
    meta: JsonObject | None = None


class InitializeResult(Struct, frozen=True, kw_only=True):
    """The agent's answer to `initialize`."""

    info: Implementation | None
    capabilities: AgentCapabilities
    auth_methods: list[AuthMethod] = []
    steering: Spelling | None = None
    """The agent's spelling of steering; `None` if it advertises none."""


class SessionOpened(Struct, frozen=True, kw_only=True):
    """The answer that opens a session."""

    session_id: str
    settings: list[ConfigOption] = []
    modes: Modes | None = None
    models: ConfigOption | None = None
    """The config option of category `model`, for clients that support models only."""
    commands: list[AvailableCommand] = []
    meta: JsonObject | None = None


class PromptResult(Struct, frozen=True, kw_only=True):
    """The end of a turn: why it ended, and the tokens it used."""

    stop_reason: str
    usage: TokenUsage | None = None
    meta: JsonObject | None = None


class PermissionOption(Struct, frozen=True, kw_only=True):
    """One answer the user may choose; its kind is `allow_once`, `allow_always`, `reject_once` or `reject_always`."""

    option_id: str
    name: str
    kind: str
    meta: JsonObject | None = None


PERMISSION_OPTIONS = (
    PermissionOption(option_id="allow_once", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="allow_always", name="Always allow", kind="allow_always"),
    PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"),
    PermissionOption(option_id="reject_always", name="Always reject", kind="reject_always"),
)
"""Options of a permission request whose author gives none."""

PERMISSION_SECONDS = 600.0
"""Time for a user to decide a permission request, after which it is rejected."""


class TerminalOutputResult(Struct, frozen=True, kw_only=True):
    """The output of a command so far; `truncated` if its beginning was dropped."""

    output: str
    truncated: bool = False
    exit: TerminalExit | None = None


class Elicitation(Struct, frozen=True, kw_only=True):
    """A question to the user: a form (`schema`), or a URL to open (`url` with `elicitation_id`)."""

    message: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None = None
    schema: JsonObject | None = None
    url: str | None = None
    elicitation_id: str | None = None
    meta: JsonObject | None = None


class ElicitationAnswer(Struct, frozen=True, kw_only=True):
    """The user's answer: `accept` with content, `decline` or `cancel`; any other action is not an acceptance."""

    action: str
    content: JsonObject | None = None
    meta: JsonObject | None = None
