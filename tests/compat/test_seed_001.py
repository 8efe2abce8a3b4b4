"""The examples of the documentation of October 2025 (seed 001) are read without a dialect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.settings import Settings, choice
from duologue.agent.turn import Turn
from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.terminals import Terminals
from duologue.client.services.workspace import Workspace
from duologue.conversation.session_setup import HttpMcpServer
from duologue.errors import InvalidParams
from duologue.schema import legacy, v1
from duologue.schema.codec import Defaulted, decode, encode
from duologue.store.memory import MemoryStore
from tests.agent.wire_client import agent_with, raw_client
from tests.client.scripted_agent import Json, ScriptedAgent, result

pytestmark = pytest.mark.timeout(30)

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
BARE = {"type": "text", "text": "## Implementation Plan..."}
SWITCH = {
    "toolCallId": "call_switch_mode_001",
    "title": "Ready for implementation",
    "kind": "switch_mode",
    "status": "pending",
    "content": [BARE],
}


@pytest.mark.fault("WLD-11")
async def test_a_mode_is_changed_by_an_update_with_mode_id(tmp_path: Path) -> None:
    agent = ScriptedAgent()

    async def new(params: Json) -> Json:
        return result(sessionId="s1", modes=MODES)

    async def prompt(params: Json) -> Json:
        agent.update({"sessionUpdate": "current_mode_update", "modeId": "code"})
        return result(stopReason="end_turn")

    agent.answers |= {"session/new": new, "session/prompt": prompt}
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("go")
        assert session.modes is not None
        assert session.modes.current == "code"


def test_a_former_name_is_reported_and_never_wins_over_todays() -> None:
    mended: list[Defaulted] = []
    both = b'{"sessionUpdate":"current_mode_update","modeId":"old","currentModeId":"new"}'
    former = b'{"sessionUpdate":"current_mode_update","modeId":"code"}'

    assert decode(v1.CurrentModeUpdate, both, mended.append).current_mode_id == "new"
    assert mended == []
    assert encode(decode(v1.CurrentModeUpdate, former, mended.append)) == (
        b'{"sessionUpdate":"current_mode_update","currentModeId":"code"}'
    )
    assert [str(each.path) for each in mended] == ["$.modeId"]


@pytest.mark.parametrize("fields", ["", ',"modeId":7', ',"modeId":null'])
def test_a_mode_update_without_a_mode_is_rejected(fields: str) -> None:
    with pytest.raises(InvalidParams):
        decode(v1.CurrentModeUpdate, f'{{"sessionUpdate":"current_mode_update"{fields}}}'.encode())


@pytest.mark.fault("WLD-11")
async def test_mcp_servers_are_offered_where_the_agent_says_mcp(tmp_path: Path) -> None:
    agent = ScriptedAgent({"loadSession": True, "mcp": {"http": True, "sse": True}}, authMethods=[])
    server = HttpMcpServer(name="docs", url="https://example.com/mcp")
    async with asyncio.timeout(60), connect(agent) as remote:
        assert (remote.capabilities.mcp_http, remote.capabilities.mcp_sse) == (True, True)
        await remote.new_session(tmp_path, mcp_servers=[server])

    assert agent.calls("session/new")[0]["mcpServers"][0]["type"] == "http"


@pytest.mark.parametrize(
    ("capabilities", "http"),
    [
        ({"mcp": {"http": True}, "mcpCapabilities": {"sse": True}}, False),
        ({"mcp": {"http": "yes"}}, False),
        ({"mcp": 7}, False),
        ({"mcp": None}, False),
        ({"mcp": {"http": True}}, True),
    ],
)
async def test_mcp_counts_only_if_there_are_no_mcp_capabilities(capabilities: Json, http: bool) -> None:
    async with asyncio.timeout(60), connect(ScriptedAgent(capabilities)) as remote:
        assert remote.capabilities.mcp_http is http


def test_the_former_name_of_a_capability_is_never_written() -> None:
    raw = b'{"protocolVersion":1,"agentCapabilities":{"mcp":{"http":true}}}'

    assert encode(decode(legacy.InitializeResponse, raw)) == (
        b'{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}'
    )


@pytest.mark.fault("WLD-11")
async def test_a_bare_block_in_a_tool_call_is_shown_with_the_permission_request_and_in_updates(tmp_path: Path) -> None:
    questions: list[PermissionRequest] = []
    agent = ScriptedAgent()

    async def prompt(params: Json) -> Json:
        await agent.ask_permission(SWITCH)
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [BARE]})
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "odd", "content": [{"type": "text"}]})
        return result(stopReason="end_turn")

    async def answer(question: PermissionRequest) -> None:
        questions.append(question)
        question.reject()

    agent.answers["session/prompt"] = prompt
    permissions = Permissions(on_request=answer)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=permissions) as remote,
        remote.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("go")

    assert BARE["text"] in questions[0].details
    shown = {call.tool_call_id: call.output for call in turn.tool_calls}
    assert shown["t"] == BARE["text"]
    assert shown["odd"] == ""


async def nothing(params: Json) -> Json:
    return {"result": None}


async def test_null_results_of_an_agent_are_read_as_empty_ones(tmp_path: Path) -> None:
    agent = ScriptedAgent({"loadSession": True}, authMethods=[{"id": "key", "name": "Key"}])

    async def new(params: Json) -> Json:
        return result(sessionId="s1", modes=MODES)

    agent.answers |= dict.fromkeys(("session/load", "session/set_mode", "authenticate"), nothing)
    agent.answers["session/new"] = new
    async with asyncio.timeout(60), connect(agent) as remote:
        await remote.login("key")
        session = await remote.new_session(tmp_path)
        await session.set_mode("code")
        loaded = await remote.load_session("sess_789xyz", tmp_path)
        assert (await loaded.prompt("go")).stop_reason == "end_turn"
        assert loaded.modes is None

    assert [len(agent.calls(method)) for method in ("authenticate", "session/set_mode", "session/load")] == [1, 1, 1]


async def test_null_results_of_a_client_are_read_as_empty_ones_and_ours_are_empty_objects(tmp_path: Path) -> None:
    done: list[str] = []

    async def work(turn: Turn[Settings]) -> None:
        await turn.files.write("config.json", "{}")
        async with turn.terminal("npm", "test") as terminal:
            await terminal.kill()
        done.append(turn.text)

    agent = agent_with(work)
    agent.persist_sessions(MemoryStore())
    answers = {"terminal/create": {"terminalId": "term_xyz789"}}
    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.initialize(clientCapabilities={"fs": {"writeTextFile": True}, "terminal": True})
        opened = (await client.ask(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []}))["result"]
        client.send(id=2, method="session/prompt", params={**opened, "prompt": [{"type": "text", "text": "go"}]})
        asked: list[str] = []
        while (message := await client.receive()).get("id") != 2 or "method" in message:
            if "id" in message:
                asked.append(message["method"])
                client.send(id=message["id"], result=answers.get(message["method"]))
        loaded = await client.ask(3, "session/load", {**opened, "cwd": str(tmp_path), "mcpServers": []})

    assert message["result"] == {"stopReason": "end_turn"}
    assert done == ["go"]
    assert asked == ["fs/write_text_file", "terminal/create", "terminal/kill", "terminal/release"]
    assert loaded["result"] == {}


async def test_the_terminal_of_the_examples_is_created_waited_for_and_released(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    answers: list[Any] = []

    async def prompt(params: Json) -> Json:
        command = {"command": "sh", "args": ["-c", "echo $NODE_ENV; pwd"], "cwd": str(tmp_path)}
        environment = [{"name": "NODE_ENV", "value": "test"}]
        made = await ask("terminal/create", **command, env=environment, outputByteLimit=1048576)
        answers.extend(
            [await ask(f"terminal/{each}", **made) for each in ("wait_for_exit", "output", "kill", "release")]
        )
        return result(stopReason="end_turn")

    async def ask(method: str, **params: Any) -> Any:
        return (await agent.ask(method, {"sessionId": "s1", **params}))["result"]

    agent.answers["session/prompt"] = prompt
    allowed = Permissions.allow_everything()
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=allowed, workspace=Workspace(tmp_path), terminals=Terminals()) as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.prompt("go")

    exited = {"exitCode": 0}
    assert answers == [exited, {"output": f"test\n{tmp_path}\n", "truncated": False, "exitStatus": exited}, {}, {}]
    offered = agent.calls("initialize")[0]["clientCapabilities"]
    assert (offered["fs"], offered["terminal"]) == ({"readTextFile": True, "writeTextFile": True}, True)


async def test_a_permission_request_may_name_a_tool_call_by_its_id_alone(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    questions: list[PermissionRequest] = []

    async def prompt(params: Json) -> Json:
        call = {"toolCallId": "call_001", "title": "Reading configuration file", "kind": "read", "status": "pending"}
        agent.update({"sessionUpdate": "tool_call", **call})
        outcomes.append((await agent.ask_permission({"toolCallId": "call_001"}))["result"]["outcome"])
        return result(stopReason="end_turn")

    async def answer(question: PermissionRequest) -> None:
        questions.append(question)
        question.allow()

    outcomes: list[Json] = []
    agent.answers["session/prompt"] = prompt
    rules = Permissions(on_request=answer)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules) as remote,
        remote.new_session(tmp_path) as session,
    ):
        await session.prompt("go")

    assert outcomes == [{"outcome": "selected", "optionId": "o3"}]
    assert [question.title for question in questions] == ["Reading configuration file"]


MODELS = {
    "currentModelId": "small",
    "availableModels": [{"modelId": each, "name": each} for each in ("small", "large")],
}


async def test_models_that_an_agent_offers_are_shown_and_set(tmp_path: Path) -> None:
    agent = ScriptedAgent({"loadSession": True})

    async def opened(params: Json) -> Json:
        return result(sessionId="s1", models=MODELS)

    agent.answers |= {"session/new": opened, "session/load": opened, "session/set_model": nothing}
    async with asyncio.timeout(60), connect(agent) as remote:
        for session in (await remote.new_session(tmp_path), await remote.load_session("s2", tmp_path)):
            assert session.models is not None
            assert (session.models.value, [each.value for each in session.models.choices]) == (
                "small",
                ["small", "large"],
            )
            await session.set_model("large")
            assert session.models.value == "large"
        plain = ScriptedAgent()
        async with connect(plain) as other, other.new_session(tmp_path) as session:
            with pytest.raises(InvalidParams, match="no models"):
                await session.set_model("large")

    assert [call["modelId"] for call in agent.calls("session/set_model")] == ["large", "large"]
    assert plain.calls("session/set_model") == []


@pytest.mark.parametrize("legacy_models", [True, False])
async def test_our_agents_offer_models_only_where_that_is_switched_on(tmp_path: Path, legacy_models: bool) -> None:
    class Choices(Settings):
        model = choice("small", "large", category="model")

    async with asyncio.timeout(60), raw_client(agent_with(settings=Choices, legacy_models=legacy_models)) as client:
        await client.initialize()
        opened = (await client.ask(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []}))["result"]
        answer = await client.ask(2, "session/set_model", {"sessionId": opened["sessionId"], "modelId": "large"})

    assert ("models" in opened) is legacy_models
    assert answer.get("error", {}).get("code") == (None if legacy_models else -32601)
