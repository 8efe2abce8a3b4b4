"""Our client with agents of seed 003 or seed 004, on the raw wire: `connect(dialect=…)`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue.client.auth import AuthOptions
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.conversation.content import Annotations, TextContent
from duologue.conversation.session_setup import HttpMcpServer, StdioMcpServer
from duologue.errors import InvalidParams
from tests.client.scripted_agent import Json, ScriptedAgent, error

pytestmark = pytest.mark.timeout(60)

PYTHON = sys.executable
ANYTHING = Permissions.allow_everything()
MODES = [
    {"modeId": "code", "title": "Code Mode", "description": "Write and modify code with full tool access"},
    {"modeId": "ask", "title": "Ask Mode"},
]


TIMES: list[Any] = [30_000, 2.5e4, None, -1, True, "30000", [1], {}, 10**400, 1e308]
"""Timeouts in milliseconds, and values that are not a time."""


async def nothing(params: Json) -> Json:
    return {"result": None}


class Agent004(ScriptedAgent):
    """An agent that was built from seed 004 alone."""

    def __init__(self, capabilities: Json | None = None, methods: list[Json] | None = None) -> None:
        super().__init__(capabilities, authenticationMethods=methods or [])
        silent = ("session/load", "session/set_mode", "authenticate", "session/set_config_option")
        self.answers |= dict.fromkeys(silent, nothing)

    async def ask_for(self, method: str, **params: Any) -> Any:
        answer = await self.ask(method, {"sessionId": "s1", **params})
        return answer["result"]


async def test_the_client_initializes_in_the_form_of_seed_004(tmp_path: Path) -> None:
    agent = Agent004({"mcpCapabilities": {"supportedTransports": ["stdio", "http"]}})
    workspace, terminals = Workspace(tmp_path), Terminals()
    async with (
        asyncio.timeout(60),
        connect(agent, dialect="seed-004", workspace=workspace, terminals=terminals) as remote,
    ):
        assert (remote.capabilities.mcp_http, remote.capabilities.mcp_sse) == (True, False)
        assert remote.login_methods == []

    capabilities = agent.calls("initialize")[0]["clientCapabilities"]
    assert capabilities["terminal"] == dict.fromkeys(("create", "output", "waitForExit", "kill", "release"), True)
    assert capabilities["fs"] == {"readTextFile": True, "writeTextFile": True}


async def test_modes_in_an_agents_capabilities_are_those_of_each_session(tmp_path: Path) -> None:
    agent = Agent004({"loadSession": True, "sessionModes": MODES})
    async with asyncio.timeout(60), connect(agent, dialect="seed-004") as remote:
        new = await remote.new_session(tmp_path)
        loaded = await remote.load_session("old", tmp_path)
        for session in (new, loaded):
            assert session.modes is not None
            assert [(mode.mode_id, mode.name) for mode in session.modes.available] == [
                ("code", "Code Mode"),
                ("ask", "Ask Mode"),
            ]
            assert session.modes.current == "code"
        await new.set_mode("ask")
        agent.update({"type": "current_mode_update", "modeId": "ask"})
        await new.prompt("go")
        assert new.modes is not None
        assert new.modes.current == "ask"

    assert agent.calls("session/set_mode") == [{"sessionId": "s1", "modeId": "ask"}]


@pytest.mark.fault("WLD-13")
async def test_credentials_are_sent_to_an_agent_that_speaks_seed_004(tmp_path: Path) -> None:
    methods = [{"methodId": "api_key", "title": "API Key", "description": "Authenticate with API key"}]
    login = AuthOptions("api_key", credentials={"api_key": {"apiKey": "k"}})
    requests: list[Json] = []
    for dialect in ("seed-004", None):
        agent = Agent004(methods=methods)
        if dialect is None:
            agent.welcome["authMethods"] = [{"id": "api_key", "name": "API Key"}]
        async with asyncio.timeout(60), connect(agent, dialect=dialect, login=login) as remote:
            await remote.login("api_key")
        requests += agent.calls("authenticate")

    assert requests == [{"methodId": "api_key", "credentials": {"apiKey": "k"}}, {"methodId": "api_key"}]
    assert "apiKey" not in repr(login)


async def test_the_error_for_an_unknown_login_method_is_read_as_invalid_params() -> None:
    agent = Agent004(methods=[{"methodId": "api_key", "title": "API Key"}])

    async def refuse(params: Json) -> Json:
        return error(-32002, "Invalid method ID")

    agent.answers["authenticate"] = refuse
    async with asyncio.timeout(60), connect(agent, dialect="seed-004") as remote:
        with pytest.raises(InvalidParams):
            await remote.login("api_key")


@pytest.mark.fault("WLD-12")
@pytest.mark.parametrize("timeout", [{}, *({"timeout": each} for each in TIMES)], ids=lambda each: str(each)[:20])
async def test_a_wait_is_answered_with_the_output_and_the_exit_code(tmp_path: Path, timeout: Json) -> None:
    agent = Agent004()
    answers: list[Any] = []

    async def prompt(params: Json) -> Json:
        command = [PYTHON, "-c", "print('Hello Terminal'); raise SystemExit(3)"]
        made = await agent.ask_for("terminal/create", command=command[0], args=command[1:], env={"A": "b"})
        waited = await agent.ask_for("terminal/wait_for_exit", terminalId=made["terminalId"], **timeout)
        answers.append(waited)
        answers.append(await agent.ask_for("terminal/kill", terminalId=made["terminalId"]))
        answers.append(await agent.ask_for("terminal/release", terminalId=made["terminalId"]))
        return {"result": {"stopReason": "end_turn"}}

    agent.answers["session/prompt"] = prompt
    async with (
        asyncio.timeout(60),
        connect(agent, dialect="seed-004", permissions=ANYTHING, terminals=Terminals()) as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.prompt("go")

    assert answers == [{"output": "Hello Terminal\n", "exitCode": 3}, None, None]


async def test_a_wait_ends_at_its_timeout_and_the_command_keeps_running(tmp_path: Path) -> None:
    agent = Agent004()
    answers: list[Any] = []

    async def prompt(params: Json) -> Json:
        script = "import sys; print('so far', flush=True); sys.stdin.read(); import time; time.sleep(60)"
        made = await agent.ask_for("terminal/create", command=PYTHON, args=["-c", script])
        terminal = made["terminalId"]
        while not (await agent.ask_for("terminal/output", terminalId=terminal))["output"]:
            pass  # a round trip each
        answers.append(await agent.ask_for("terminal/wait_for_exit", terminalId=terminal, timeout=20))
        answers.append(await agent.ask_for("terminal/output", terminalId=terminal))
        await agent.ask_for("terminal/kill", terminalId=terminal)
        answers.append((await agent.ask_for("terminal/wait_for_exit", terminalId=terminal))["exitCode"])
        return {"result": {"stopReason": "end_turn"}}

    agent.answers["session/prompt"] = prompt
    async with (
        asyncio.timeout(60),
        connect(agent, dialect="seed-004", permissions=ANYTHING, terminals=Terminals()) as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.prompt("go")

    assert answers[0] == {"output": "so far\n", "exitCode": None}
    assert answers[1]["exitCode"] is None
    assert answers[2] in (128 + 9, 128 + 15)


async def test_waits_of_todays_agents_are_answered_without_the_output(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    answers: list[Json] = []

    async def prompt(params: Json) -> Json:
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": PYTHON, "args": ["-c", "print(1)"]})
        wait = {"sessionId": "s1", "terminalId": made["result"]["terminalId"], "timeout": 1}
        answers.append((await agent.ask("terminal/wait_for_exit", wait))["result"])
        return {"result": {"stopReason": "end_turn"}}

    agent.answers["session/prompt"] = prompt
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=ANYTHING, terminals=Terminals()) as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.prompt("go")

    assert answers == [{"exitCode": 0}]


async def test_a_permission_request_of_seed_004_shows_its_description_and_is_answered_in_its_form(
    tmp_path: Path,
) -> None:
    agent = Agent004()
    questions: list[PermissionRequest] = []
    answers: list[Any] = []
    options = [
        {"optionId": "allow", "kind": "allow_once", "label": "Delete files"},
        {"optionId": "reject", "kind": "reject_once", "label": "Keep files"},
    ]

    async def prompt(params: Json) -> Json:
        asked = {"title": "Delete test files?", "description": "Remove 5 temporary test files", "options": options}
        answers.append(await agent.ask_for("session/request_permission", **asked))
        return {"result": {"stopReason": "end_turn"}}

    async def answer(question: PermissionRequest) -> None:
        questions.append(question)
        question.allow()

    agent.answers["session/prompt"] = prompt
    async with (
        asyncio.timeout(60),
        connect(agent, dialect="seed-004", permissions=Permissions(on_request=answer)) as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.prompt("go")

    assert answers == [{"selectedOptionId": "allow"}]
    assert questions[0].title == "Delete test files?"
    assert questions[0].details == ["Remove 5 temporary test files"]


@pytest.mark.fault("WLD-12")
async def test_messages_tools_and_files_of_seed_004_are_understood(tmp_path: Path) -> None:
    agent = Agent004()
    path = tmp_path / "config.json"
    path.write_text("one\ntwo\nthree\n")
    answers: list[Any] = []

    async def prompt(params: Json) -> Json:
        agent.update({"type": "message", "role": "agent", "content": [{"type": "text", "text": "Reading."}]})
        call = {"type": "tool_call", "toolCallId": "t", "title": "Read", "kind": "read", "status": "pending"}
        agent.update({**call, "location": {"path": str(path), "line": 2}, "content": []})
        read = {"path": str(path), "startLine": 2, "lineLimit": 1}
        answers.append(await agent.ask_for("fs/read_text_file", **read))
        answers.append(await agent.ask_for("fs/write_text_file", path=str(tmp_path / "a" / "b"), content="x"))
        text = {"type": "text", "text": "File read successfully"}
        agent.update({"type": "tool_call_update", "toolCallId": "t", "status": "completed", "content": [text]})
        return {"result": {"stopReason": "end_turn"}}

    agent.answers["session/prompt"] = prompt
    async with (
        asyncio.timeout(60),
        connect(agent, dialect="seed-004", permissions=ANYTHING, workspace=Workspace(tmp_path)) as remote,
        remote.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("go")

    assert answers == [{"content": "two\n"}, None]
    assert (tmp_path / "a" / "b").read_text() == "x"
    assert turn.text == "Reading."
    (call,) = turn.tool_calls
    assert (call.status, call.output) == ("completed", "File read successfully")
    assert [(each.path, each.line) for each in call.locations] == [(str(path), 2)]


@pytest.mark.fault("WLD-12")
async def test_a_conversation_with_an_agent_of_seed_003(tmp_path: Path) -> None:
    agent = ScriptedAgent({"loadSession": True})
    answers: list[Any] = []
    options = [
        {"optionId": "opt_1", "kind": "allow_once", "label": "Allow this action"},
        {"optionId": "opt_3", "kind": "deny", "label": "Deny"},
    ]

    async def prompt(params: Json) -> Json:
        call = {"sessionUpdate": "tool_call", "toolCallId": "tool_123", "title": "Read"}
        agent.update({**call, "status": "pending", "rawInput": {"file_path": "/a"}}, {**call, "status": "running"})
        asked = {"sessionId": "s1", "options": options, "message": "Allow reading /etc/passwd?"}
        answers.append((await agent.ask("session/request_permission", asked))["result"])
        agent.update({**call, "status": "completed"})
        return {"result": {"content": [{"type": "text", "text": "Of course!"}]}}

    async def answer(question: PermissionRequest) -> None:
        titles.append(question.title)
        question.reject()

    titles: list[str] = []
    agent.answers |= {"session/prompt": prompt, "session/load": nothing}
    async with (
        asyncio.timeout(60),
        connect(agent, dialect="seed-003", permissions=Permissions(on_request=answer)) as remote,
        remote.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("go")
        await remote.load_session("old", tmp_path)

    assert titles == ["Allow reading /etc/passwd?"]
    assert answers == [{"outcome": {"outcome": "selected", "optionId": "opt_3"}}]
    assert agent.calls("session/load") == [{"sessionId": "old", "cwd": str(tmp_path), "mcpServers": []}]
    assert (turn.text, turn.stop_reason) == ("Of course!", "end_turn")
    calls = {each.tool_call_id: each for each in turn.tool_calls}
    assert (calls["tool_123"].status, calls["tool_123"].title) == ("completed", "Read")


def test_an_unknown_dialect_is_rejected_before_a_process_is_started() -> None:
    with pytest.raises(ValueError, match="seed-003, seed-004"):
        connect("no-such-command", dialect="seed-005")  # type: ignore[arg-type]


async def test_servers_are_sent_to_an_agent_of_seed_004_in_its_form(tmp_path: Path) -> None:
    agent = Agent004({"mcpCapabilities": {"supportedTransports": ["stdio", "http"]}})
    stdio = StdioMcpServer(name="files", command="/bin/files", args=["-v"], env={"API_KEY": "k"})
    http = HttpMcpServer(name="docs", url="https://example.com/mcp", headers={"X-Team": "blue"})
    async with asyncio.timeout(60), connect(agent, dialect="seed-004") as remote:
        await remote.new_session(tmp_path, mcp_servers=[stdio, http])

    command, web = agent.calls("session/new")[0]["mcpServers"]
    expected = {"transport": "stdio", "command": "/bin/files", "args": ["-v"], "env": {"API_KEY": "k"}}
    assert command.items() >= expected.items()
    assert web.items() >= {"transport": "http", "url": "https://example.com/mcp", "headers": {"X-Team": "blue"}}.items()


async def test_annotations_of_seed_004_that_today_does_not_have_are_dropped(tmp_path: Path) -> None:
    agent = Agent004()
    annotations = {"title": "Warning", "priority": "high", "_custom": "metadata", "audience": ["user"]}

    async def prompt(params: Json) -> Json:
        block = {"type": "text", "text": "Important message", "annotations": annotations}
        agent.update({"type": "message", "role": "agent", "content": [block]})
        return {"result": {"stopReason": "end_turn"}}

    agent.answers["session/prompt"] = prompt
    async with (
        asyncio.timeout(60),
        connect(agent, dialect="seed-004") as remote,
        remote.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("go")
        (block,) = session.transcript.messages[-1].content

    assert turn.text == "Important message"
    assert isinstance(block, TextContent)
    assert block.annotations == Annotations(audience=["user"])


async def test_an_option_of_an_agent_of_seed_004_is_set_by_its_name_and_a_bare_value(tmp_path: Path) -> None:
    """Seed 004 has no list of options, so the caller has to know the name."""
    agent = Agent004()
    async with (
        asyncio.timeout(60),
        connect(agent, dialect="seed-004") as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.set_option("autoApproveTools", True)

    expected = {"sessionId": "s1", "option": "autoApproveTools", "value": True}
    assert agent.calls("session/set_config_option") == [expected]
