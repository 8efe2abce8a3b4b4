"""Two sides in today's form with a seed dialect on the wire between them get the same messages."""

from __future__ import annotations

import asyncio

import pytest

from duologue.compat.dialects import Dialect
from duologue.compat.normaliser import Normaliser
from duologue.compat.transport import NormalisedTransport
from duologue.errors import ResourceNotFound
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema import v1
from duologue.transports.memory import memory_pair

IMAGE = v1.ImageContent(data="AAAA", mime_type="image/png")
SERVER = v1.McpServerStdio(
    name="files", command="/bin/files", args=["-v"], env=[v1.EnvVariable(name="KEY", value="secret")]
)
OPTIONS = [
    v1.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    v1.PermissionOption(option_id="no", name="No", kind="reject_once"),
]

RULES = {
    "seed-003": {
        *("mcp-server-stdio-type", "image-source", "tool-status", "permission-label", "permission-kind"),
        *("permission-message", "prompt-answer"),
    },
    "seed-004": {
        *("terminal-capability", "mcp-transports", "auth-methods", "mcp-server-transport", "mcp-server-pairs"),
        *("update-tag", "message", "tool-content", "tool-location", "mode-update", "permission-label"),
        *("permission-title", "permission-answer", "terminal-output", "error-code"),
    },
}


class CurrentClient:
    """A client in today's form, and what it has received."""

    def __init__(self) -> None:
        self.updates: list[object] = []
        self.asked: list[v1.RequestPermissionRequest] = []
        self.handlers = handlers = Handlers()

        @handlers.on(v1.SESSION_UPDATE)
        async def update(context: Context, params: v1.SessionNotification) -> None:
            self.updates.append(params.update)

        @handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def permission(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            self.asked.append(params)
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="no"))

        @handlers.on(v1.TERMINAL_OUTPUT)
        async def output(context: Context, params: v1.TerminalOutputRequest) -> v1.TerminalOutputResponse:
            return v1.TerminalOutputResponse(
                output="done", truncated=True, exit_status=v1.TerminalExitStatus(exit_code=3)
            )


class Assistant:
    """An agent in today's form, and what it has received."""

    def __init__(self) -> None:
        self.opened: list[v1.NewSessionRequest] = []
        self.prompts: list[list[v1.ContentBlock]] = []
        self.outcome: object = None
        self.terminal: v1.TerminalOutputResponse | None = None
        self.handlers = handlers = Handlers()

        @handlers.on(v1.INITIALIZE)
        async def initialize(context: Context, params: v1.InitializeRequest) -> v1.InitializeResponse:
            capabilities = v1.AgentCapabilities(mcp_capabilities=v1.McpCapabilities(http=True))
            methods = [v1.AuthMethodAgent(id="key", name="Key")]
            return v1.InitializeResponse(protocol_version=1, agent_capabilities=capabilities, auth_methods=[*methods])

        @handlers.on(v1.SESSION_NEW)
        async def new(context: Context, params: v1.NewSessionRequest) -> v1.NewSessionResponse:
            self.opened.append(params)
            return v1.NewSessionResponse(session_id="s")

        @handlers.on(v1.SESSION_LOAD)
        async def load(context: Context, params: v1.LoadSessionRequest) -> v1.LoadSessionResponse:
            raise ResourceNotFound("no such session", data={"sessionId": params.session_id})

        @handlers.on(v1.SESSION_PROMPT)
        async def prompt(context: Context, params: v1.PromptRequest) -> v1.PromptResponse:
            self.prompts.append(list(params.prompt))
            await self._work(context.connection)
            return v1.PromptResponse(stop_reason="end_turn")

    async def _work(self, connection: Connection) -> None:
        for update in updates():
            await connection.notify(v1.SESSION_UPDATE, v1.SessionNotification(session_id="s", update=update))
        question = v1.RequestPermissionRequest(
            session_id="s", tool_call=v1.PermissionToolCall(tool_call_id="t", title="Delete?"), options=OPTIONS
        )
        self.outcome = (await connection.request(v1.SESSION_REQUEST_PERMISSION, question)).outcome
        terminal = v1.TerminalOutputRequest(session_id="s", terminal_id="term")
        self.terminal = await connection.request(v1.TERMINAL_OUTPUT, terminal)


def updates() -> list[v1.SessionUpdate]:
    text = v1.TextContent(text="hello")
    return [
        v1.AgentMessageChunk(content=text),
        v1.AgentThoughtChunk(content=IMAGE),
        v1.ToolCall(
            tool_call_id="t",
            title="Delete",
            status="in_progress",
            content=[v1.Content(content=text)],
            locations=[v1.ToolCallLocation(path="/a")],
        ),
        v1.CurrentModeUpdate(current_mode_id="code"),
    ]


@pytest.mark.parametrize("dialect", ["seed-003", "seed-004"])
async def test_a_conversation_means_the_same_in_another_dialect(dialect: Dialect) -> None:
    near, far = memory_pair()
    client, assistant = CurrentClient(), Assistant()
    here, there = Normaliser(dialect, "client"), Normaliser(dialect, "agent")
    capabilities = v1.ClientCapabilities(terminal=True)
    async with (
        asyncio.timeout(60),
        Connection(NormalisedTransport(far, there), assistant.handlers, first_method="initialize"),
        Connection(NormalisedTransport(near, here), client.handlers) as connection,
    ):
        start = v1.InitializeRequest(protocol_version=1, client_capabilities=capabilities)
        agent = await connection.request(v1.INITIALIZE, start)
        opened = await connection.request(v1.SESSION_NEW, v1.NewSessionRequest(cwd="/", mcp_servers=[SERVER]))
        turn = await connection.request(v1.SESSION_PROMPT, v1.PromptRequest(session_id="s", prompt=[IMAGE]))
        with pytest.raises(ResourceNotFound):
            await connection.request(v1.SESSION_LOAD, v1.LoadSessionRequest(session_id="x", cwd="/", mcp_servers=[]))

    assert agent.agent_capabilities.mcp_capabilities == v1.McpCapabilities(http=True)
    assert list(agent.auth_methods) == [v1.AuthMethodAgent(id="key", name="Key")]
    assert (opened.session_id, turn.stop_reason) == ("s", "end_turn")
    assert list(assistant.opened[0].mcp_servers) == [SERVER]
    assert assistant.prompts == [[IMAGE]]
    assert client.updates == updates()
    assert list(client.asked[0].options) == OPTIONS
    assert assistant.outcome == v1.SelectedPermissionOutcome(option_id="no")
    assert assistant.terminal is not None
    assert (assistant.terminal.output, assistant.terminal.truncated) == ("done", True)
    assert assistant.terminal.exit_status == v1.TerminalExitStatus(exit_code=3)
    assert set(here.hits) | set(there.hits) == RULES[dialect]
