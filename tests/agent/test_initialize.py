"""`initialize`: versions, capabilities that follow from what was registered, and clients of every kind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.session_setup import Implementation
from duologue.schema import v1
from duologue.store.memory import MemoryStore
from tests.agent.complete import complete_agent
from tests.agent.wire_client import EVERYTHING, agent_with, client_for, raw_client


@pytest.mark.rule(26, 27)
@pytest.mark.fault("SCH-08")
@pytest.mark.parametrize("asked", [1, 0, 2, 99, 65_535])
async def test_whatever_version_is_asked_for_the_answer_is_one_we_speak(asked: int) -> None:
    async with asyncio.timeout(60), raw_client(agent_with()) as client:
        answer = await client.ask(0, "initialize", {"protocolVersion": asked})

        assert answer["result"]["protocolVersion"] == 1


@pytest.mark.fault("SCH-08")
@pytest.mark.parametrize("asked", [-1, 65_536, 2**40, 1.5, "1", True, None, []])
async def test_an_invalid_version_is_rejected_and_initialize_can_be_sent_again(asked: object) -> None:
    async with asyncio.timeout(60), raw_client(agent_with()) as client:
        refused = await client.ask(1, "initialize", {"protocolVersion": asked})
        assert refused["error"]["code"] == -32602
        assert "protocolVersion" in refused["error"]["message"]

        assert "result" in await client.initialize()


@pytest.mark.rule(31)
@pytest.mark.fault("LIF-01")
async def test_before_initialize_requests_are_rejected_and_notifications_ignored(tmp_path: Path) -> None:
    async with asyncio.timeout(60), raw_client(agent_with()) as client:
        client.send(method="session/cancel", params={"sessionId": "s"})
        client.send(method="_custom/hello")
        for id, method in enumerate(["session/new", "authenticate", "session/prompt", "_custom/ask", "nonsense"]):
            refused = await client.ask(id, method, {"cwd": str(tmp_path), "mcpServers": []})
            assert refused["error"]["code"] == -32600

        await client.initialize()
        assert "result" in await client.ask(9, "session/new", {"cwd": str(tmp_path), "mcpServers": []})


@pytest.mark.fault("LIF-02")
async def test_a_second_initialize_is_rejected_and_the_first_stays_in_force(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.say(f"terminals: {turn.client_capabilities.terminals}")

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, terminal=True) as client:
        request = v1.InitializeRequest(protocol_version=1, client_capabilities=v1.ClientCapabilities(terminal=False))
        with pytest.raises(Exception, match="already called"):
            await client.connection.request(v1.INITIALIZE, request)

        await client.prompt(await client.new(), "go")
        assert client.text == "terminals: True"


@pytest.mark.rule(32)
@pytest.mark.parametrize(
    "capabilities",
    [
        {"fs": "x", "terminal": [], "session": 5, "auth": None, "elicitation": "yes", "plan": 1, "subagents": False},
        {"fs": {"readTextFile": "yes", "writeTextFile": 1}, "terminal": {"create": True}},
        "everything",
        None,
    ],
)
async def test_capabilities_that_make_no_sense_are_none(tmp_path: Path, capabilities: Any) -> None:
    seen: list[Any] = []

    async def answer(turn: Turn[Settings]) -> None:
        seen.append(turn.client_capabilities)

    async with asyncio.timeout(60), raw_client(agent_with(answer)) as client:
        assert "result" in await client.initialize(clientCapabilities=capabilities)
        opened = await client.ask(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session = opened["result"]["sessionId"]
        await client.ask(2, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})

        assert not any(getattr(seen[0], name) for name in seen[0].__struct_fields__)


@pytest.mark.parametrize("info", [None, v1.Implementation(name="zed", version="1.2", title="Zed")])
@pytest.mark.parametrize("capabilities", [{}, EVERYTHING], ids=["nothing", "everything"])
@pytest.mark.parametrize("first_id", [0, "a", 2**53 + 1, -5])
async def test_clients_that_say_who_they_are_or_not_and_number_as_they_like(
    tmp_path: Path, info: v1.Implementation | None, capabilities: dict[str, Any], first_id: int | str
) -> None:
    """In the wild, agents 1: clientInfo or none, nothing or everything, ids of every kind."""
    seen: list[Implementation | None] = []

    async def answer(turn: Turn[Settings]) -> None:
        seen.append(turn.session.client_info)

    async with asyncio.timeout(60), raw_client(agent_with(answer)) as client:
        wire: dict[str, Any] = {"clientCapabilities": {"terminal": bool(capabilities)}}
        if info is not None:
            wire["clientInfo"] = {"name": info.name, "version": info.version, "title": info.title}
        assert "result" in await client.ask(first_id, "initialize", {"protocolVersion": 1, **wire})
        # The same id again: the first request with it has been answered.
        opened = await client.ask(first_id, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        prompt = {"sessionId": opened["result"]["sessionId"], "prompt": [{"type": "text", "text": "go"}]}
        assert (await client.ask(f"{first_id}", "session/prompt", prompt))["result"] == {"stopReason": "end_turn"}

        assert seen == [None if info is None else Implementation("zed", "1.2", "Zed")]


@pytest.mark.rule(29, 30)
async def test_capabilities_follow_from_what_was_registered_never_more(tmp_path: Path) -> None:
    async with client_for(agent_with(accepts=()), tmp_path) as client:
        sessions = v1.SessionCapabilities(
            close=v1.SessionCloseCapabilities(), additional_directories=v1.SessionAdditionalDirectoriesCapabilities()
        )
        assert client.hello == v1.InitializeResponse(
            protocol_version=1,
            agent_capabilities=v1.AgentCapabilities(session_capabilities=sessions),
            agent_info=v1.Implementation(name="tested", version="1.0"),
        )
    async with client_for(complete_agent()[0], tmp_path, **EVERYTHING) as client:
        capabilities = client.hello.agent_capabilities
        assert capabilities.load_session
        assert capabilities.providers is not None
        assert capabilities.auth.logout is not None
        assert capabilities.auth.status is not None
        assert capabilities.prompt_capabilities == v1.PromptCapabilities(image=True, audio=True, embedded_context=True)
        session_capabilities = capabilities.session_capabilities
        for name in session_capabilities.__struct_fields__:
            assert getattr(session_capabilities, name) is not None or name == "meta", name
        assert session_capabilities.system_prompt is not None
        assert session_capabilities.system_prompt.mode is not None


@pytest.mark.rule(157)
async def test_custom_methods_and_capabilities_are_advertised_in_meta_and_the_clients_can_be_read(
    tmp_path: Path,
) -> None:
    seen: list[Any] = []

    async def answer(turn: Turn[Settings]) -> None:
        seen.append(turn.client_capabilities.meta)

    agent = agent_with(answer, meta={"example.com/telepathy": {"range": 3}})

    @agent.extension("_example/hello")
    async def hello(params: dict[str, Any]) -> dict[str, Any]:
        return params

    async with asyncio.timeout(60), client_for(agent, tmp_path, meta={"example.com/x": True}) as client:
        assert client.hello.agent_capabilities.meta == {
            "example.com/telepathy": {"range": 3},
            "duologue": {"extensions": ["_example/hello"]},
        }
        await client.prompt(await client.new(), "go")
        assert seen == [{"example.com/x": True}]


@pytest.mark.fault("SCH-11")
@pytest.mark.parametrize(
    "method",
    [
        *("session/load", "session/resume", "session/list", "session/delete", "session/fork", "session/archive"),
        *("session/unarchive", "session/status", "session/set_title", "logout", "auth/status", "providers/list"),
        *("providers/set", "providers/disable", "nonsense", "_custom/nonsense", "proxy/initialize"),
    ],
)
async def test_a_method_that_was_not_advertised_is_not_found(tmp_path: Path, method: str) -> None:
    async with asyncio.timeout(60), raw_client(agent_with()) as client:
        await client.initialize()
        params: dict[str, Any] = {"sessionId": "s", "cwd": str(tmp_path), "mcpServers": []}
        refused = await client.ask(1, method, params)

        assert refused["error"]["code"] == -32601
        assert method in refused["error"]["message"]


async def test_a_store_brings_everything_that_needs_one() -> None:
    agent: Agent[Any] = agent_with()
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), raw_client(agent) as client:
        await client.initialize()

        assert (await client.ask(1, "session/list", {}))["result"] == {"sessions": []}


@pytest.mark.rule(14, 16)
async def test_unknown_notifications_and_answers_to_nothing_are_met_with_silence(tmp_path: Path) -> None:
    """In the wild, agents 3: clients that answer notifications with errors."""
    async with asyncio.timeout(60), raw_client(agent_with()) as client:
        await client.initialize()
        client.send(method="_custom/unknown", params={"a": 1})
        client.send(method="nonsense")
        client.send(id=99, result={})
        client.send(id="a", error={"code": 400, "message": "unknown notification", "data": None})
        client.send(method="session/update", params={"sessionId": "s"})
        client.send(id=1, method="session/new", params={"cwd": str(tmp_path), "mcpServers": []})

        assert (await client.receive())["id"] == 1
