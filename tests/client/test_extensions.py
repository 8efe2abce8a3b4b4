"""Methods of one's own between a client and an agent: what is called, and what is offered to be called."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn
from duologue.client.connect import connect
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method
from tests.client.scripted_agent import Answer, Json, ScriptedAgent, result, text_chunk

NAME = Method("_name", dict[str, Any], dict[str, Any])


@pytest.mark.fault("RPC-23")
@pytest.mark.parametrize("kind", [object, list[object], dict[str, object]])
async def test_an_answer_read_as_a_type_that_no_json_fits_is_refused_before_the_call_is_sent(kind: Any) -> None:
    scripted = ScriptedAgent()
    async with asyncio.timeout(60), connect(scripted) as agent:
        with pytest.raises(TypeError, match="cannot be read from JSON"):
            await agent.call("_anything", {}, kind)
        assert await agent.call("_anything", {}) == {}
    assert len(scripted.calls("_anything")) == 1


@pytest.mark.fault("RPC-23")
def test_an_extension_of_an_agent_with_such_a_parameter_is_refused_when_it_is_registered() -> None:
    async def search(query: object) -> dict[str, Any]:
        return {}

    with pytest.raises(TypeError, match="cannot be read from JSON"):
        Agent("test").extension("_search")(search)


def answering(agent: ScriptedAgent, text: str) -> Answer:
    async def answer(params: Json) -> Json:
        agent.update(text_chunk(text))
        return result(stopReason="end_turn")

    return answer


@pytest.mark.fault("LIF-18")
async def test_two_connections_that_share_a_table_hear_each_its_own_agent(tmp_path: Path) -> None:
    """Handlers that `connect` registers for one agent must not replace those of another."""
    table = Handlers()
    table.on(NAME)(lambda context, params: named("before"))
    agents = [ScriptedAgent(), ScriptedAgent()]
    for agent, text in zip(agents, ("one", "two"), strict=True):
        agent.answers["session/prompt"] = answering(agent, text)

    async with (
        asyncio.timeout(60),
        connect(agents[0], handlers=table) as first,
        connect(agents[1], handlers=table) as second,
        first.new_session(tmp_path) as of_first,
        second.new_session(tmp_path) as of_second,
    ):
        assert [await of_first.ask("?"), await of_second.ask("?")] == ["one", "two"]
        assert [(await agent.ask("_name", {}))["result"] for agent in agents] == [{"name": "before"}] * 2
        # What the caller registers later counts for both.
        table.on(NAME)(lambda context, params: named("after"))
        assert [(await agent.ask("_name", {}))["result"] for agent in agents] == [{"name": "after"}] * 2
        table.off(NAME)
        assert [(await agent.ask("_name", {}))["error"]["code"] for agent in agents] == [-32601] * 2

    assert not table.requests
    assert not table.notifications


async def named(name: str) -> Json:
    return {"name": name}


async def test_a_handler_registered_at_one_connection_serves_only_that_connection() -> None:
    table = Handlers()
    agents = [ScriptedAgent(), ScriptedAgent()]
    async with (
        asyncio.timeout(60),
        connect(agents[0], handlers=table) as first,
        connect(agents[1], handlers=table),
    ):

        @first.connection.handlers.on(NAME)
        async def name(context: Context, params: Json) -> Json:
            return {"name": "first"}

        answers = [await agent.ask("_name", {}) for agent in agents]
    assert answers[0]["result"] == {"name": "first"}
    assert answers[1]["error"]["code"] == -32601


@pytest.mark.parametrize("version", [1, 2])
async def test_custom_capabilities_are_advertised_and_read_at_both_ends(version: int, tmp_path: Path) -> None:
    ours, theirs = {"zed.dev": {"workspace": True}}, {"example.com/telepathy": {"range": 3}}
    seen: list[Any] = []
    agent: Agent[Any] = Agent("able", protocol_versions=(1, 2), meta=theirs)

    @agent.on_prompt
    async def read_capabilities(turn: Turn[Any]) -> None:
        seen.append(turn.client_capabilities.meta)

    async with asyncio.timeout(60), connect(agent, protocol_versions=(version,), meta=ours) as remote:
        assert (remote.version, remote.capabilities.meta) == (version, theirs)
        async with remote.new_session(tmp_path) as session:
            await session.prompt("go")
    assert seen == [ours]
