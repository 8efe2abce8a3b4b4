"""Our agent with clients of seed 003 or seed 004, on the raw wire: `Agent(dialect=…)`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from duologue.agent.settings import Settings, choice, toggle
from duologue.agent.turn import Turn
from duologue.conversation.content import JsonObject
from duologue.conversation.session_setup import StdioMcpServer
from duologue.conversation.settings import Option
from duologue.errors import AuthenticationRequired
from duologue.store.memory import MemoryStore
from tests.agent.wire_client import RawClient, raw_client

pytestmark = pytest.mark.timeout(60)

FIVE = dict.fromkeys(("create", "output", "waitForExit", "kill", "release"), True)


class SampleSettings(Settings):
    """The modes of seed 004."""

    mode = choice(Option("code", "Code Mode", "Full implementation mode"), Option("ask", "Ask Mode"), category="mode")


def old_agent(dialect: Any, handler: Any = None, **options: Any) -> Agent[Any]:
    agent: Agent[Any] = Agent("old", dialect=dialect, **options)

    async def echo(turn: Turn[Any]) -> None:
        await turn.say(turn.text)

    agent.on_prompt(handler or echo)
    return agent


async def opened(client: RawClient, cwd: Path, **capabilities: Any) -> str:
    await client.initialize(clientCapabilities=capabilities)
    answer = await client.ask("new", "session/new", {"cwd": str(cwd), "mcpServers": []})
    return str(answer["result"]["sessionId"])


async def until_answered(client: RawClient, id: str, answers: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Receive every message up to the answer of a request; answer requests of the agent by their method."""
    seen: list[dict[str, Any]] = []
    while True:
        message = await client.receive()
        seen.append(message)
        if "method" in message and "id" in message:
            client.send(id=message["id"], result=(answers or {})[message["method"]])
        elif message.get("id") == id:
            return seen


def updates(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message["params"]["update"] for message in seen if message.get("method") == "session/update"]


async def test_initialize_is_answered_with_the_modes_and_an_empty_list_of_methods() -> None:
    async with asyncio.timeout(60), raw_client(old_agent("seed-004", settings=SampleSettings)) as client:
        answer = await client.initialize(clientCapabilities={"terminal": FIVE})

    assert answer["result"]["authenticationMethods"] == []
    assert answer["result"]["agentCapabilities"]["sessionModes"] == [
        {"modeId": "code", "title": "Code Mode", "description": "Full implementation mode"},
        {"modeId": "ask", "title": "Ask Mode"},
    ]


async def test_a_mode_is_set_and_reported_in_the_form_of_seed_004(tmp_path: Path) -> None:
    async def switch(turn: Turn[Any]) -> None:
        await turn.say(turn.settings.mode)
        await turn.set_option(mode="code")

    async with asyncio.timeout(60), raw_client(old_agent("seed-004", switch, settings=SampleSettings)) as client:
        session = await opened(client, tmp_path)
        answer = await client.ask("mode", "session/set_mode", {"sessionId": session, "modeId": "ask"})
        client.send(id="p", method="session/prompt", params={"sessionId": session, "prompt": [TEXT]})
        sent = updates(await until_answered(client, "p"))

    assert answer["result"] is None
    (message,) = [update for update in sent if update["type"] == "message"]
    assert (message["role"], message["content"]) == ("agent", [{"type": "text", "text": "ask"}])
    assert {"type": "current_mode_update", "modeId": "code"} in sent


TEXT = {"type": "text", "text": "hello"}


@pytest.mark.fault("WLD-13")
@pytest.mark.parametrize(("given", "code"), [("right", None), ("wrong", -32001)])
async def test_credentials_reach_the_method_that_validates_them(given: str, code: int | None) -> None:
    agent = old_agent("seed-004", login_required=True)
    seen: list[JsonObject] = []

    @agent.login("api_key", "API Key", description="Authenticate with API key")
    async def check(credentials: JsonObject) -> None:
        seen.append(credentials)
        if credentials.get("apiKey") != "right":
            raise AuthenticationRequired("Invalid API key")

    async with asyncio.timeout(60), raw_client(agent) as client:
        hello = await client.initialize()
        params = {"methodId": "api_key", "credentials": {"apiKey": given}}
        answer = await client.ask(1, "authenticate", params)
        unknown = await client.ask(2, "authenticate", {"methodId": "other", "credentials": {}})
        session = await client.ask(3, "session/new", {"cwd": "/", "mcpServers": []})

    assert hello["result"]["authenticationMethods"] == [
        {"methodId": "api_key", "title": "API Key", "description": "Authenticate with API key"}
    ]
    assert seen == [{"apiKey": given}]
    assert unknown["error"]["code"] == -32002
    assert answer.get("error", {}).get("code") == code
    assert ("result" in session) == (code is None)
    assert "result" not in answer or answer["result"] is None


@pytest.mark.parametrize("credentials", ["text", ["list"], 7, None])
async def test_missing_credentials_are_an_empty_mapping(credentials: Any) -> None:
    agent = old_agent("seed-004")
    seen: list[JsonObject] = []

    @agent.login("api_key", "API Key")
    async def check(credentials: JsonObject) -> None:
        seen.append(credentials)

    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.initialize()
        await client.ask(1, "authenticate", {"methodId": "api_key", "credentials": credentials})

    assert seen == [{}]


@pytest.mark.parametrize("dialect", ["seed-003", "seed-004"])
async def test_a_session_loaded_without_a_directory_keeps_its_own(tmp_path: Path, dialect: str) -> None:
    directories: list[str] = []
    agent = old_agent(dialect)
    agent.persist_sessions(MemoryStore())

    @agent.on_open
    async def note(session: Any) -> None:
        directories.append(session.cwd)

    async with asyncio.timeout(60), raw_client(agent) as client:
        session = await opened(client, tmp_path)
        await client.ask("p", "session/prompt", {"sessionId": session, "prompt": [TEXT]})
    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.initialize()
        client.send(id="load", method="session/load", params={"sessionId": session})
        seen = await until_answered(client, "load")
        unknown = await client.ask("none", "session/load", {"sessionId": "sess_none"})

    assert [Path(directory) for directory in directories] == [tmp_path, tmp_path]
    assert "error" not in seen[-1]
    assert "hello" in str(updates(seen))
    assert unknown["error"]["code"] == (-32005 if dialect == "seed-004" else -32002)


async def test_without_a_dialect_a_session_is_not_loaded_without_a_directory(tmp_path: Path) -> None:
    agent = old_agent(None)
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), raw_client(agent) as client:
        session = await opened(client, tmp_path)
        answer = await client.ask("load", "session/load", {"sessionId": session})

    assert answer["error"]["code"] == -32602


@pytest.mark.fault("WLD-12")
async def test_a_client_of_seed_003_never_sees_a_tool_call_update(tmp_path: Path) -> None:
    async def work(turn: Turn[Any]) -> None:
        async with turn.tool("Read", kind="read", raw_input={"file_path": "/a"}) as tool:
            await tool.update(title="Read it")
            await tool.show("done")
        await turn.say("Of course!")

    async with asyncio.timeout(60), raw_client(old_agent("seed-003", work)) as client:
        session = await opened(client, tmp_path)
        client.send(id="p", method="session/prompt", params={"sessionId": session, "prompt": [TEXT]})
        seen = await until_answered(client, "p")

    sent = [update for update in updates(seen) if update["sessionUpdate"].startswith("tool_call")]
    assert {update["sessionUpdate"] for update in sent} == {"tool_call"}
    assert [update["status"] for update in sent][-1] == "completed"
    assert "running" in [update["status"] for update in sent]
    assert all(update["title"] in ("Read", "Read it") for update in sent)
    assert all(update["rawInput"] == {"file_path": "/a"} for update in sent)
    assert seen[-1]["result"]["content"] == [{"type": "text", "text": "Of course!"}]


async def test_a_permission_request_has_a_title_a_description_and_labels(tmp_path: Path) -> None:
    allowed: list[bool] = []

    async def work(turn: Turn[Any]) -> None:
        async with turn.tool("Delete test files?", kind="delete") as tool:
            await tool.show("Remove 5 temporary test files")
            allowed.append(await tool.request_permission())

    async with asyncio.timeout(60), raw_client(old_agent("seed-004", work)) as client:
        session = await opened(client, tmp_path)
        client.send(id="p", method="session/prompt", params={"sessionId": session, "prompt": [TEXT]})
        while (question := await client.receive()).get("method") != "session/request_permission":
            pass
        options = question["params"]["options"]
        chosen = next(option["optionId"] for option in options if option["kind"] == "allow_once")
        client.send(id=question["id"], result={"selectedOptionId": chosen})
        await until_answered(client, "p")

    assert question["params"]["title"] == "Delete test files?"
    assert question["params"]["description"] == "Remove 5 temporary test files"
    assert all("label" in option and "name" not in option for option in options)
    assert allowed == [True]


async def test_an_agent_waits_for_a_command_of_a_client_of_seed_004(tmp_path: Path) -> None:
    results: list[Any] = []

    async def work(turn: Turn[Any]) -> None:
        done = await turn.run("npm", "test", env={"NODE_ENV": "test"})
        results.append((done.exit_code, done.output))

    answers = {
        "terminal/create": {"terminalId": "term_xyz789"},
        "terminal/wait_for_exit": {"output": "Hello Terminal\n", "exitCode": 0},
        "terminal/output": {"output": "Hello Terminal\n", "exitCode": 0},
        "terminal/release": None,
    }
    async with asyncio.timeout(60), raw_client(old_agent("seed-004", work)) as client:
        session = await opened(client, tmp_path, terminal=FIVE)
        client.send(id="p", method="session/prompt", params={"sessionId": session, "prompt": [TEXT]})
        seen = await until_answered(client, "p", answers)

    assert results == [(0, "Hello Terminal\n")]
    (created,) = [message["params"] for message in seen if message.get("method") == "terminal/create"]
    assert created["env"]["NODE_ENV"] == "test"


def test_an_unknown_dialect_is_rejected() -> None:
    with pytest.raises(ValueError, match="seed-003, seed-004"):
        Agent("a", dialect="seed-005")  # type: ignore[arg-type]


SERVER_004 = {
    "transport": "stdio",
    "command": "/usr/local/bin/mcp-server",
    "args": ["--verbose"],
    "env": {"API_KEY": "k"},
}


async def test_servers_of_seed_004_are_read_without_a_name_and_with_an_object_of_variables(tmp_path: Path) -> None:
    named: list[Any] = []
    agent = old_agent("seed-004")

    @agent.on_open
    async def note(session: Any) -> None:
        named.extend(session.setup.mcp_servers)

    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.initialize()
        answer = await client.ask(1, "session/new", {"cwd": str(tmp_path), "mcpServers": [SERVER_004]})

    assert "result" in answer
    (server,) = named
    assert isinstance(server, StdioMcpServer)
    assert server.name
    assert (server.command, server.args, server.env) == (SERVER_004["command"], ["--verbose"], {"API_KEY": "k"})


async def test_an_option_of_a_client_of_seed_004_is_set_by_its_name_and_a_bare_value(tmp_path: Path) -> None:
    class Switches(Settings):
        autoApproveTools = toggle(False)  # noqa: N815 # the seed's own example

    seen: list[bool] = []

    async def read_setting(turn: Turn[Any]) -> None:
        seen.append(turn.settings.autoApproveTools)

    async with asyncio.timeout(60), raw_client(old_agent("seed-004", read_setting, settings=Switches)) as client:
        session = await opened(client, tmp_path)
        params = {"sessionId": session, "option": "autoApproveTools", "value": True}
        answer = await client.ask(1, "session/set_config_option", params)
        unknown = await client.ask(2, "session/set_config_option", {**params, "option": "nothing"})
        await client.ask(3, "session/prompt", {"sessionId": session, "prompt": [TEXT]})

    assert answer["result"] is None
    assert unknown["error"]["code"] == -32602
    assert seen == [True]


@pytest.mark.parametrize("missing", FIVE)
async def test_a_client_that_lacks_one_terminal_method_gets_no_terminal_requests(tmp_path: Path, missing: str) -> None:
    able: list[bool] = []

    async def read_capabilities(turn: Turn[Any]) -> None:
        able.append(turn.client_capabilities.terminals)

    async with asyncio.timeout(60), raw_client(old_agent("seed-004", read_capabilities)) as client:
        session = await opened(client, tmp_path, terminal={**FIVE, missing: False})
        await client.ask(1, "session/prompt", {"sessionId": session, "prompt": [TEXT]})

    assert able == [False]


async def test_a_client_of_seed_003_gets_a_message_and_labels_and_every_kind_of_update(
    tmp_path: Path,
) -> None:
    allowed: list[bool] = []

    async def work(turn: Turn[Any]) -> None:
        async with turn.tool("Allow reading /etc/passwd?", kind="read") as tool:
            allowed.append(await tool.request_permission())

    agent = old_agent("seed-003", work)

    @agent.command("clear", "Forget everything")
    async def clear(turn: Turn[Any], argument: str) -> None:
        await turn.say("cleared")

    async with asyncio.timeout(60), raw_client(agent) as client:
        session = await opened(client, tmp_path)
        client.send(id="p", method="session/prompt", params={"sessionId": session, "prompt": [TEXT]})
        seen: list[dict[str, Any]] = []
        while (question := await client.receive()).get("method") != "session/request_permission":
            seen.append(question)
        options = question["params"]["options"]
        denied = next(option["optionId"] for option in options if option["kind"] == "deny")
        client.send(id=question["id"], result={"outcome": {"outcome": "selected", "optionId": denied}})
        await until_answered(client, "p")

    assert question["params"]["message"] == "Allow reading /etc/passwd?"
    assert [option["kind"] for option in options][:2] == ["allow_once", "allow_always"]
    assert all("label" in option and "name" not in option for option in options)
    assert allowed == [False]
    assert "available_commands_update" in [update["sessionUpdate"] for update in updates(seen)]
