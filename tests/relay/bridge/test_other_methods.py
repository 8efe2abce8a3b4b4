"""The methods that both versions have, files and terminals where both ends have them, and sessions that end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue import Permissions, Terminals, Workspace
from duologue.protocol.values import AuthStatus, Provider
from duologue.store.memory import MemoryStore
from tests.client.scripted_agent import Json, ScriptedAgent, error, result
from tests.relay.bridge.spans import (
    BOTH_DIRECTIONS,
    NewerAgent,
    across,
    agent_of_version,
    initialize,
    opened,
    wire_across,
)

both_directions = pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)

FORMS: dict[int, Json] = {1: {"elicitation": {"form": {}, "url": {}}}, 2: {"elicitation": {"form": {}, "url": {}}}}


def scripted(version: int) -> ScriptedAgent:
    return ScriptedAgent() if version == 1 else NewerAgent()


@both_directions
async def test_titles_archives_providers_and_logins_pass(version: int, agent_version: int) -> None:
    agent = agent_of_version(agent_version)
    agent.persist_sessions(MemoryStore())
    agent.use_providers(Provider(provider_id="p", supported=["openai"]))
    logged: list[str] = []

    @agent.login("key", "Key")
    async def log_in() -> None:
        logged.append("in")

    @agent.on_logout
    async def log_out() -> None:
        logged.append("out")

    @agent.on_login_status
    async def status() -> AuthStatus:
        return AuthStatus(state="authenticated" if logged else "unauthenticated")

    async with asyncio.timeout(60), across(agent, version, agent_version) as remote:
        await remote.login("key")
        async with remote.new_session("/tmp") as session:
            title = await session.set_title("Digging")
            state = await session.status()
        await remote.archive_session(session.id)
        away = await remote.list_sessions()
        await remote.unarchive_session(session.id)
        back = await remote.list_sessions()
        await remote.set_provider("p", api_type="openai", base_url="https://example.com")
        (provider,) = await remote.providers()
        await remote.disable_provider("p")
        login = await remote.login_status()
        await remote.logout()

    assert (title, state, logged, login.state) == ("Digging", "open", ["in", "out"], "authenticated")
    assert ([info.title for info in away], [info.title for info in back]) == ([], ["Digging"])
    assert provider.base_url == "https://example.com"


@both_directions
async def test_forms_and_addresses_pass_and_name_the_editors_own_request(version: int, agent_version: int) -> None:
    agent = scripted(agent_version)
    answers: list[Json] = []
    welcome = (
        {"id": "key", "name": "Key"} if agent_version == 1 else {"type": "agent", "methodId": "key", "name": "Key"}
    )
    agent.welcome["authMethods"] = [welcome]
    form = {"type": "object", "properties": {"name": {"type": "string"}}}

    async def log_in(params: Json) -> Json:
        method = "authenticate" if agent_version == 1 else "auth/login"
        request = next(message["id"] for message in agent.received if message.get("method") == method)
        about = {"mode": "form", "message": "Who?", "requestedSchema": form, "requestId": request}
        answers.append(await agent.ask("elicitation/create", about))
        url_request = {
            "mode": "url",
            "message": "Go",
            "url": "https://example.com",
            "elicitationId": "e",
            "sessionId": "s1",
        }
        answers.append(await agent.ask("elicitation/create", url_request))
        agent.send({"method": "elicitation/complete", "params": {"elicitationId": "e"}})
        agent.send({"method": "auth/status_update", "params": {"state": "authenticated", "accounts": []}})
        return result()

    agent.answers |= {"authenticate": log_in, "auth/login": log_in}
    async with wire_across(agent, version, agent_version) as client:
        await opened(client, version, **FORMS[version])
        client.answers["elicitation/create"] = lambda _: {"result": {"action": "accept", "content": {"name": "Ann"}}}
        await client.start_as("mine", "authenticate" if version == 1 else "auth/login", methodId="key")
        await client.until(lambda: client.validator.calls("auth/status_update"))

    assert client.asked[0]["params"]["requestId"] == "mine"
    assert client.asked[1]["params"]["sessionId"] == "s1"
    assert [answer["result"]["action"] for answer in answers] == ["accept", "accept"]
    assert answers[0]["result"]["content"] == {"name": "Ann"}
    assert [call["params"]["elicitationId"] for call in client.validator.calls("elicitation/complete")] == ["e"]


@both_directions
async def test_messages_of_mcp_servers_pass(version: int, agent_version: int) -> None:
    mcp: Json = {"mcpCapabilities": {"acp": True}} if agent_version == 1 else {"session": {"mcp": {"acp": {}}}}
    agent = ScriptedAgent(mcp) if agent_version == 1 else NewerAgent(mcp)
    about: Json = {"serverId": "x", "requestId": "r", "method": "tools/list", "params": {}}
    async with wire_across(agent, version, agent_version) as client:
        await initialize(client, version)
        client.answers["mcp/message"] = lambda params: {"result": {"result": {"asked": params["method"]}}}
        answer = await agent.ask("mcp/message", about)
        for number in range(10):
            client.write(method="mcp/message", params={**about, "method": f"notifications/{number}"})
        await agent.until("mcp/message", 10)

    assert answer["result"] == {"result": {"asked": "tools/list"}}
    assert [call["method"] for call in agent.calls("mcp/message")] == [f"notifications/{n}" for n in range(10)]


async def test_files_and_terminals_pass_where_both_ends_have_them(tmp_path: Path) -> None:
    async def handler(turn: Any) -> None:
        await turn.files.write("a.txt", "hello")
        ran = await turn.run("cat", "a.txt")
        await turn.say(f"{await turn.files.read('a.txt')} {ran.output}")

    options: dict[str, Any] = {"permissions": Permissions.allow_everything()}
    async with (
        asyncio.timeout(60),
        across(agent_of_version(1, handler), 1, 1, workspace=Workspace(), terminals=Terminals(), **options) as remote,
        remote.new_session(tmp_path) as session,
    ):
        turn = await session.prompt("go")

    assert turn.text == "hello hello"


@both_directions
@pytest.mark.parametrize("how", ["session/close", "session/delete"])
async def test_a_session_that_ends_in_a_turn_ends_the_turn(version: int, agent_version: int, how: str) -> None:
    begun = asyncio.Event()

    async def handler(turn: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    agent = agent_of_version(agent_version, handler)
    agent.persist_sessions(MemoryStore())
    async with wire_across(agent, version, agent_version) as client:
        session = await opened(client, version)
        waiting = client.prompt(session, "go")
        await begun.wait()
        await client.ask(how, sessionId=session)
        answer = await waiting

    ended = answer["result"] if version == 1 else client.ends()[0]
    assert ended["stopReason"] == "cancelled"


@both_directions
async def test_a_turn_that_the_agent_forgets_when_it_closes_its_session_has_ended(
    version: int, agent_version: int
) -> None:
    agent, is_over = scripted(agent_version), asyncio.Event()

    async def never(params: Json) -> Json:
        await is_over.wait()
        return error(-32603)

    if agent_version == 1:
        agent.answers["session/prompt"] = never
        agent.welcome["agentCapabilities"] = {"sessionCapabilities": {"close": {}}}
    async with wire_across(agent, version, agent_version) as client:
        session = await opened(client, version)
        waiting = client.prompt(session, "go")
        await agent.until("session/prompt")
        await client.ask("session/close", sessionId=session)
        answer = await waiting
        is_over.set()

    ended = answer["result"] if version == 1 else client.ends()[0]
    assert ended["stopReason"] == "cancelled"


async def test_a_prompt_behind_another_is_withdrawn_alone() -> None:
    agent, is_over = NewerAgent(), asyncio.Event()

    async def prompt(params: Json) -> Json:
        if len(agent.calls("session/prompt")) == 2:
            await is_over.wait()
        return result(messageId="m")

    agent.answers["session/prompt"] = prompt
    async with wire_across(agent, 1, 2) as client:
        session = await opened(client, 1)
        first = client.prompt(session, "one")
        await agent.until("session/prompt")
        second = client.start_as("two", "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "two"}])
        await agent.until("session/prompt", 2)
        client.notify("$/cancel_request", requestId="two")
        withdrawn = await second
        await agent.until("$/cancel_request")
        agent.update({"sessionUpdate": "state_update", "state": "running"})
        agent.update({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})
        ended = await first
        is_over.set()

    assert withdrawn["result"]["stopReason"] == "cancelled"
    assert ended["result"]["stopReason"] == "end_turn"
    assert agent.calls("session/cancel") == []


@both_directions
async def test_a_session_that_was_opened_too_late_is_closed_again(version: int, agent_version: int) -> None:
    agent, may_open = scripted(agent_version), asyncio.Event()

    async def new(params: Json) -> Json:
        await may_open.wait()
        return result(sessionId="late")

    agent.answers["session/new"] = new
    if agent_version == 1:
        agent.welcome["agentCapabilities"] = {"sessionCapabilities": {"close": {}}}
    async with wire_across(agent, version, agent_version) as client:
        await initialize(client, version)
        waiting = client.start_as("n", "session/new", cwd="/tmp", mcpServers=[])
        await agent.until("session/new")
        client.notify("$/cancel_request", requestId="n")
        given_up = await waiting
        await agent.until("$/cancel_request")
        may_open.set()
        closed = await agent.until("session/close")

    assert given_up["error"]["code"] == -32800
    assert closed == {"sessionId": "late"}


async def test_meta_of_a_compaction_is_the_same_in_both_versions() -> None:
    def compaction(**rest: Any) -> Json:
        return {"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress", **rest}

    newer = NewerAgent()
    newer.sends(compaction(_meta={"a": 1, "b": 1}), compaction(_meta={"b": None, "c": 1}))
    async with wire_across(newer, 1, 2) as client:
        session = await opened(client, 1, session={"compaction": {}})
        await client.prompt(session, "go")
        replaced = [update["_meta"] for update in client.of("compaction_update")]
    older = ScriptedAgent()
    async with wire_across(older, 2, 1) as client:
        await opened(client, 2)
        older.update(compaction(_meta={"a": 1, "b": 1}), compaction(_meta={"c": 1}))
        await client.until(lambda: len(client.of("compaction_update")) == 2)
        patched = [update["_meta"] for update in client.of("compaction_update")]

    assert replaced == [{"a": 1, "b": 1}, {"a": 1, "c": 1}]
    assert patched == [{"a": 1, "b": 1}, {"a": None, "b": None, "c": 1}]


async def test_a_single_tool_call_is_not_cancelled_at_an_agent_that_cannot() -> None:
    async with wire_across(ScriptedAgent(), 2, 1) as client:
        session = await opened(client, 2)
        tool = await client.refused("tool_call/cancel", sessionId=session, toolCallId="c")
        terminal = await client.refused("terminal/cancel", sessionId=session, terminalId="t")

    assert (tool["code"], terminal["code"]) == (-32601, -32601)


async def test_models_are_settings_of_a_category(caplog: pytest.LogCaptureFixture) -> None:
    agent = NewerAgent({"session": {"mcp": {}}})
    value = ["big"]

    def options() -> list[Json]:
        sizes = [{"value": size, "name": size} for size in ("big", "small")]
        switch = {"type": "boolean", "configId": "fast", "name": "Fast", "currentValue": True}
        model = {"type": "select", "configId": "m", "name": "M", "category": "model", "options": sizes}
        return [{**model, "currentValue": value[0]}, switch]

    async def new(params: Json) -> Json:
        return result(sessionId="s1", configOptions=options())

    async def change(params: Json) -> Json:
        value[0] = params["value"]
        return result(configOptions=options())

    agent.answers |= {"session/new": new, "session/set_config_option": change}
    async with wire_across(agent, 1, 2) as client:
        await initialize(client, 1)
        models = (await client.ask("session/new", cwd="/tmp", mcpServers=[]))["models"]
        await client.ask("session/set_model", sessionId="s1", modelId="small")
        (update,) = client.of("config_option_update")
        agent.update({"sessionUpdate": "config_option_update", "configOptions": options()})
        await client.until(lambda: len(client.of("config_option_update")) == 2)
        refused = await client.refused("session/set_mode", sessionId="s1", modeId="ask")

    assert models["currentModelId"] == "big"
    assert [(option["id"], option["currentValue"]) for option in update["configOptions"]] == [("m", "small")]
    assert refused["code"] == -32602
    assert "does not support boolean settings" in caplog.text
    assert "starts no MCP servers itself" in caplog.text


async def test_each_kind_of_loss_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    agent = NewerAgent()
    work = {"type": "tool_call", "toolCallId": "c"}
    tool = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Dig", "rawInput": {"a": 1}}
    agent.sends(
        {"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Child"},
        {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "# Plan"}},
        {"sessionUpdate": "agent_message", "messageId": "a", "content": [{"type": "text", "text": "x"}]},
        {"sessionUpdate": "agent_message", "messageId": "a", "content": []},
        tool,
        {**tool, "rawInput": None},
        {"sessionUpdate": "state_update", "state": "running", "background": [work]},
    )
    async with wire_across(agent, 1, 2) as client:
        session = await opened(client, 1)
        for _ in range(2):
            await client.prompt(session, "go")

    for words in (
        "sessions that the agent starts",
        "only its steps",
        "withdrew a message",
        "cleared a part",
        "between the turns",
    ):
        assert caplog.text.count(words) == 1
