"""A bridge ends when either end does, after all open requests were answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duologue.errors import CommandNotFound
from duologue.relay.bridge.bridge import Bridge
from duologue.runtime.tasks import TaskScope
from duologue.transports.base import Transport
from duologue.transports.memory import memory_pair
from tests.agent.v2.wire_client import WireClient
from tests.client.scripted_agent import Json, ScriptedAgent, result
from tests.relay.bridge.spans import (
    BOTH_DIRECTIONS,
    SECONDS,
    LocalTarget,
    NewerAgent,
    agent_of_version,
    initialize,
    opened,
    wire_across,
)

both_directions = pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)


def scripted(version: int) -> ScriptedAgent:
    return ScriptedAgent() if version == 1 else NewerAgent()


def prompt(client: WireClient, session: str, text: str = "hi") -> asyncio.Future[Json]:
    return client.start("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


@both_directions
async def test_an_agent_that_is_lost_in_a_turn_ends_it_with_an_error_and_then_the_connection(
    version: int, agent_version: int
) -> None:
    agent, is_over = scripted(agent_version), asyncio.Event()

    async def never(params: Json) -> Json:
        await is_over.wait()
        return result()

    agent.answers["_never"] = never
    if agent_version == 1:
        agent.answers["session/prompt"] = never
    async with wire_across(agent, version, agent_version) as client:
        session = await opened(client, version)
        waiting = [prompt(client, session), client.start("_never")]
        await agent.until("session/prompt")
        await agent.until("_never")
        await agent.transport.aclose()
        answers = [await each for each in waiting]
        await client.ended.wait()
        is_over.set()

    assert "the agent is gone" in str(answers[0] if version == 1 else client.ends())
    assert answers[1]["error"]["code"] == -32603
    if version == 2:
        assert client.ends()[0]["error"]["code"] == -32603


@both_directions
async def test_an_editor_that_leaves_ends_the_agent_and_what_it_does(version: int, agent_version: int) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handler(turn: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    before = asyncio.all_tasks()
    async with wire_across(agent_of_version(agent_version, handler), version, agent_version) as client:
        session = await opened(client, version)
        prompt(client, session)
        await begun.wait()
    assert ended.is_set()
    assert asyncio.all_tasks() == before


@both_directions
async def test_an_agent_that_cannot_be_started_is_an_error_in_the_initialize_response(
    version: int, agent_version: int
) -> None:
    def open_nothing() -> Transport:
        raise CommandNotFound("no such command: far")

    near, far = memory_pair()
    bridge = Bridge(open_nothing, version=version, agent_version=agent_version)
    client, tasks = WireClient(near), TaskScope()
    async with asyncio.timeout(SECONDS):
        serving = tasks.start(bridge.serve(far))
        tasks.start(client.read())
        refused = await client.refused("initialize", protocolVersion=version, info={"name": "n", "version": "1"})
        await serving

    assert (refused["code"], refused["message"]) == (-32603, "no agent: no such command: far")
    assert isinstance(bridge.failure, CommandNotFound)


@both_directions
async def test_an_agent_of_another_version_than_was_promised_is_refused(version: int, agent_version: int) -> None:
    near, far = memory_pair()
    target = LocalTarget(agent_of_version(version))  # it speaks the editor's own
    bridge = Bridge(target.open, version=version, agent_version=agent_version)
    client, tasks = WireClient(near), TaskScope()
    async with asyncio.timeout(SECONDS):
        serving = tasks.start(bridge.serve(far))
        tasks.start(client.read())
        refused = await client.refused("initialize", protocolVersion=version, info={"name": "n", "version": "1"})
        await client.hang_up()
        await serving
        await target.tasks.settle()

    assert refused["code"] in (-32603, -32022)


@both_directions
async def test_a_thousand_requests_at_once_have_an_answer_each(version: int, agent_version: int) -> None:
    agent = scripted(agent_version)

    async def echo(params: Json) -> Json:
        return {"result": params}

    agent.answers["_far/echo"] = echo
    async with wire_across(agent, version, agent_version) as client:
        await initialize(client, version)
        client.answers["_near/echo"] = lambda params: {"result": params}
        ours = [client.start("_far/echo", number=number) for number in range(1000)]
        theirs = [agent.ask("_near/echo", {"number": number}) for number in range(1000)]
        answers = [(await answer)["result"]["number"] for answer in (*ours, *theirs)]

    assert answers == [*range(1000), *range(1000)]


@both_directions
async def test_concurrent_sessions_do_not_receive_updates_of_each_other(version: int, agent_version: int) -> None:
    async def handler(turn: Any) -> None:
        for piece in turn.text.split():
            await turn.say(piece)
            await asyncio.sleep(0)

    async with wire_across(agent_of_version(agent_version, handler), version, agent_version) as client:
        first = await opened(client, version)
        more: Json = {"mcpServers": []} if version == 1 else {}
        sessions = [first] + [(await client.ask("session/new", cwd="/tmp", **more))["sessionId"] for _ in range(49)]
        for number, session in enumerate(sessions):
            prompt(client, session, " ".join(f"{number}/{step}" for step in range(20)))
        ends = [f"{number}/19" for number in range(50)]
        await client.until(lambda: all(any(end == words for words in _texts(client)) for end in ends))
        received = {session: _texts(client, session) for session in sessions}

    assert received == {session: [f"{number}/{step}" for step in range(20)] for number, session in enumerate(sessions)}


@both_directions
async def test_an_agent_waits_for_an_editor_that_does_not_read(version: int, agent_version: int) -> None:
    sent = 0

    async def handler(turn: Any) -> None:
        nonlocal sent
        for _ in range(150):
            await turn.say("x" * 1024 * 1024)
            sent += 1

    async with wire_across(agent_of_version(agent_version, handler), version, agent_version) as client:
        session = await opened(client, version)
        client.reads.clear()
        waiting = prompt(client, session)
        before = -1
        while sent != before or not sent:
            before = sent
            for _ in range(500):
                await asyncio.sleep(0)
        at_rest = sent
        client.reads.set()
        await waiting
        await client.until(lambda: len(client.of("agent_message_chunk")) == 150)

    assert at_rest < 100  # what the queues between the two hold


def _texts(client: WireClient, session: str | None = None) -> list[str]:
    calls = [call["params"] for call in client.validator.calls("session/update")]
    return [
        call["update"]["content"]["text"]
        for call in calls
        if call["update"]["sessionUpdate"] == "agent_message_chunk" and session in (None, call["sessionId"])
    ]
