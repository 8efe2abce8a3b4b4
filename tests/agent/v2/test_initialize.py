"""How an agent of both versions and its client agree on one, seen on the wire."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from tests.agent.v2.wire_client import WireClient, both, wire_client

CLIENT_INFO = {"name": "someone", "version": "7"}


def uninitialized(agent: Agent[Any]) -> Any:
    return wire_client(agent, is_initialized=False)


@pytest.mark.rule(137)
@pytest.mark.parametrize(
    ("versions", "asked", "answered"), [((1, 2), 1, 1), ((1, 2), 2, 2), ((1, 2), 9, 2), ((2,), 9, 2), ((1,), 9, 1)]
)
async def test_the_highest_version_at_or_below_the_requested_one_is_negotiated(
    versions: tuple[int, ...], asked: int, answered: int
) -> None:
    async with uninitialized(both(protocol_versions=versions)) as client:
        params = {"protocolVersion": asked} if asked == 1 else {"protocolVersion": asked, "info": CLIENT_INFO}
        result = (await client.start("initialize", **params))["result"]

        assert result["protocolVersion"] == answered
        client.validator.complaints.clear()  # it judges by the schema of version 2


@pytest.mark.rule(137)
@pytest.mark.parametrize(("versions", "asked"), [((1, 2), 0), ((2,), 1), ((2,), 0), ((1, 2), -3)])
async def test_a_version_below_all_supported_ones_is_rejected_and_they_are_named(
    versions: tuple[int, ...], asked: int
) -> None:
    async with uninitialized(both(protocol_versions=versions)) as client:
        error = await client.refused("initialize", protocolVersion=asked)

        assert error["code"] == -32022
        assert error["data"] == {"requested": asked, "supported": list(versions)}
        assert (await client.initialize())["protocolVersion"] == 2


@pytest.mark.rule(138)
async def test_both_sides_say_who_they_are() -> None:
    seen: list[str] = []
    agent = both()

    @agent.on_open
    async def read_client(session: Any) -> None:
        seen.append(session.client_info.name)

    async with uninitialized(agent) as client:
        assert (await client.refused("initialize", protocolVersion=2))["code"] == -32602
        assert (await client.initialize())["info"] == {"name": "tested", "version": "1.0"}
        await client.new()
        assert seen == ["tested"]


@pytest.mark.parametrize("params", [{}, {"protocolVersion": "2"}, {"protocolVersion": None}, {"protocolVersion": 1.5}])
async def test_an_invalid_version_is_rejected_and_initialize_may_be_repeated(params: dict[str, Any]) -> None:
    async with uninitialized(both()) as client:
        assert (await client.refused("initialize", **params))["code"] == -32602
        assert (await client.initialize())["protocolVersion"] == 2


async def test_a_client_of_a_later_version_is_taken_as_far_as_it_can_be_understood() -> None:
    seen: list[str] = []
    agent = both()

    @agent.on_open
    async def read_client(session: Any) -> None:
        seen.append(session.client_info.name)

    async with uninitialized(agent) as client:
        result = await client.ask("initialize", protocolVersion=3, identity={"who": "a later client"})
        await client.new()

        assert result["protocolVersion"] == 2
        assert seen == ["unknown"]


async def test_before_initialize_every_other_request_is_rejected() -> None:
    async with uninitialized(both()) as client:
        client.notify("session/cancel", sessionId="s")
        assert (await client.refused("session/list"))["code"] == -32600
        assert (await client.initialize())["protocolVersion"] == 2


async def test_a_client_may_introduce_itself_again_until_it_asks_for_something_else() -> None:
    async with wire_client(both()) as client:
        assert (await client.initialize())["protocolVersion"] == 2
        await client.ask("session/list")
        assert (await client.refused("initialize", protocolVersion=2, info=CLIENT_INFO))["code"] == -32600
        assert await client.ask("session/list") == {"sessions": []}


async def test_a_client_that_introduces_itself_again_may_choose_the_other_version() -> None:
    async with wire_client(both()) as client:
        older = (await client.start("initialize", protocolVersion=1))["result"]
        assert older["protocolVersion"] == 1
        assert "agentCapabilities" in older
        opened = (await client.start("session/new", cwd="/tmp", mcpServers=[]))["result"]
        prompt = [{"type": "text", "text": "hi"}]
        answer = await client.start("session/prompt", sessionId=opened["sessionId"], prompt=prompt)
        assert answer["result"]["stopReason"] == "end_turn"
        refused = await client.start("auth/login", methodId="x")
        assert refused["error"]["code"] == -32601
        client.validator.complaints.clear()  # it judges by the schema of version 2


async def test_requests_right_behind_the_first_one_are_answered(tmp_path: Path) -> None:
    async with uninitialized(both()) as client:
        started = [
            client.start("initialize", protocolVersion=2, info=CLIENT_INFO),
            client.start("session/new", cwd=str(tmp_path)),
            client.start("session/list"),
            client.start("session/prompt", sessionId="none", prompt=[{"type": "text", "text": "x"}]),
            client.start("providers/list"),
        ]
        hello, opened, listed, prompt, gated = await asyncio.gather(*started)

        assert hello["result"]["protocolVersion"] == 2
        assert opened["result"]["sessionId"]
        assert "sessions" in listed["result"]
        assert prompt["error"]["code"] == -32002
        assert gated["error"]["code"] == -32601


async def test_methods_of_version_1_are_unknown_in_version_2(tmp_path: Path) -> None:
    async with wire_client(both()) as client:
        session = await client.new(tmp_path)
        for method in ("session/load", "session/set_mode", "authenticate", "logout"):
            error = await client.refused(method, sessionId=session, cwd=str(tmp_path), modeId="x", methodId="x")
            assert error["code"] == -32601, method


@pytest.mark.rule(136)
@pytest.mark.parametrize("id", ["null", "1.5", "true", "[]", "{}"])
async def test_an_id_is_a_string_or_an_integer(id: str) -> None:
    async with wire_client(both()) as client:
        client.write_nonsense(f'{{"jsonrpc":"2.0","id":{id},"method":"session/list"}}')
        await client.until(lambda: _nameless(client))

        assert [answer["error"]["code"] for answer in _nameless(client)] == [-32600]
        assert (await client.start_as("1", "session/list"))["result"] == {"sessions": []}
        client.validator.complaints.clear()  # an answer to no id at all


def _nameless(client: WireClient) -> list[dict[str, Any]]:
    return [message for message in client.validator.received if "method" not in message and message["id"] is None]


@pytest.mark.rule(140)
async def test_an_agent_with_sessions_advertises_all_session_methods(tmp_path: Path) -> None:
    async with wire_client(both()) as client:
        assert "session" in (await client.initialize())["capabilities"]
        session = await client.new(tmp_path)
        assert (await client.turn(session, "hi"))["stopReason"] == "end_turn"
        client.notify("session/cancel", sessionId=session)
        assert [each["sessionId"] for each in (await client.ask("session/list"))["sessions"]] == [session]
        assert await client.ask("session/close", sessionId=session) == {}
        await client.ask("session/resume", sessionId=session, cwd=str(tmp_path))
        assert client.text == "hi"


@pytest.mark.rule(139)
async def test_an_agent_with_ways_to_log_in_has_login_and_logout() -> None:
    agent = both(login_required=True)
    done: list[str] = []

    @agent.login("key", "With a key")
    async def login() -> None:
        done.append("in")

    async with wire_client(agent) as client:
        hello = await client.initialize()
        assert [(each["type"], each["methodId"]) for each in hello["authMethods"]] == [("agent", "key")]
        assert (await client.refused("session/new", cwd="/tmp"))["code"] == -32000
        assert (await client.refused("auth/login", methodId="other"))["code"] == -32602
        await client.ask("auth/login", methodId="key")
        await client.new()
        await client.ask("auth/logout")
        assert (await client.refused("session/new", cwd="/tmp"))["code"] == -32000
    assert done == ["in"]


@pytest.mark.rule(139)
async def test_an_agent_without_ways_to_log_in_has_neither() -> None:
    async with wire_client(both()) as client:
        for method in ("auth/login", "auth/logout"):
            assert (await client.refused(method, methodId="key"))["code"] == -32601


async def test_a_login_in_the_terminal_is_offered_to_clients_with_a_terminal() -> None:
    agent = both()
    agent.login_in_terminal("tty", "In the terminal", args=("login",), env={"A": "b"})
    async with wire_client(agent) as client:
        (method,) = (await client.initialize(auth={"terminal": {}}))["authMethods"]
        assert method == {
            "type": "terminal",
            "methodId": "tty",
            "name": "In the terminal",
            "args": ["login"],
            "env": [{"name": "A", "value": "b"}],
        }
        assert "authMethods" not in await client.initialize()
