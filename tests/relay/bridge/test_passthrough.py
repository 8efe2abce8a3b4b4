"""Custom methods and `_meta` pass a bridge unchanged."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.agent.v2.wire_client import WireClient
from tests.client.scripted_agent import Json, ScriptedAgent, error, result, text_chunk
from tests.relay.bridge.spans import BOTH_DIRECTIONS, NewerAgent, agent_of_version, initialize, opened, wire_across

both_directions = pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)

STRANGE: Json = {"n": 2**70, "list": [None, 1.5, {"_meta": {}}], "text": "\u2028"}


def scripted(version: int) -> ScriptedAgent:
    return ScriptedAgent() if version == 1 else NewerAgent()


@both_directions
async def test_custom_methods_pass_both_ways_untouched(version: int, agent_version: int) -> None:
    agent = scripted(agent_version)

    async def answer(params: Any) -> Json:
        return {"result": None} if params == [1] else {"result": {"given": params}}

    async def refuse(params: Any) -> Json:
        return error(7, "not today", data=STRANGE)

    agent.answers |= {"_far/echo": answer, "_far/refuse": refuse}
    async with wire_across(agent, version, agent_version) as client:
        await initialize(client, version)
        echoed = await client.ask("_far/echo", **STRANGE)
        refused = await client.refused("_far/refuse")
        client.write(id="list", method="_far/echo", params=[1])
        await client.until(lambda: any(message.get("id") == "list" for message in client.validator.received))
        client.answers["_near/echo"] = lambda params: {"result": params}
        asked = await agent.ask("_near/echo", STRANGE)
        unknown = await client.refused("far/echo")
        unregistered = await agent.ask("near/echo", {})

    assert echoed == {"given": STRANGE}
    assert (refused["code"], refused["data"]) == (7, STRANGE)
    assert next(each for each in client.validator.received if each.get("id") == "list")["result"] is None
    assert asked["result"] == STRANGE
    assert (unknown["code"], unregistered["error"]["code"]) == (-32601, -32601)


@both_directions
async def test_custom_notifications_pass_both_ways_in_order(version: int, agent_version: int) -> None:
    agent = scripted(agent_version)
    async with wire_across(agent, version, agent_version) as client:
        await initialize(client, version)
        for number in range(100):
            client.notify("_far/told", number=number)
            agent.send({"method": "_near/told", "params": {"number": number}})
        await agent.until("_far/told", 100)
        await client.until(lambda: len(client.validator.calls("_near/told")) == 100)
        agent.send({"method": "near/unknown"})
        client.notify("far/unknown")
        await client.refused("far/unknown")

    assert [call["number"] for call in agent.calls("_far/told")] == [*range(100)]
    assert [call["params"]["number"] for call in client.validator.calls("_near/told")] == [*range(100)]
    assert "far/unknown" not in [message.get("method") for message in agent.received]
    assert client.validator.calls("near/unknown") == []


@both_directions
async def test_cancelling_a_custom_request_cancels_it_on_the_other_side(version: int, agent_version: int) -> None:
    agent = scripted(agent_version)
    asked = asyncio.Event()

    async def wait(params: Json) -> Json:
        asked.set()
        await agent.until("$/cancel_request")
        return error(-32800, "cancelled")

    agent.answers["_far/wait"] = wait
    async with wire_across(agent, version, agent_version) as client:
        await initialize(client, version)
        waiting = client.start_as("mine", "_far/wait")
        await asked.wait()
        client.notify("$/cancel_request", requestId="mine")
        ended = await waiting
        await agent.until("$/cancel_request")
        there = next(message for message in agent.received if message.get("method") == "_far/wait")

    assert ended["error"]["code"] == -32800
    assert agent.calls("$/cancel_request") == [{"requestId": there["id"]}]


@both_directions
async def test_meta_passes_with_its_message(version: int, agent_version: int) -> None:
    agent = scripted(agent_version)
    agent.welcome["_meta"] = {"from": "welcome"}

    async def new(params: Json) -> Json:
        return result(sessionId="s1", _meta={"from": "new"})

    async def listed(params: Json) -> Json:
        return result(sessions=[{"sessionId": "s1", "cwd": "/tmp", "_meta": {"from": "info"}}], _meta={"from": "list"})

    async def prompt(params: Json) -> Json:
        agent.update(text_chunk("hi", messageId="a", _meta={"on": "chunk"}), _meta={"on": "notification"})
        if agent_version == 1:
            return result(stopReason="end_turn", _meta={"from": "prompt"})
        return result(messageId="m1")

    agent.answers |= {"session/new": new, "session/list": listed, "session/prompt": prompt}
    if isinstance(agent, NewerAgent):
        agent.sends(_meta={"from": "prompt"})
    agent.welcome.setdefault("agentCapabilities", {})["sessionCapabilities"] = {"list": {}}
    async with wire_across(agent, version, agent_version) as client:
        attached = {"_meta": {"trace": "1"}}
        welcome = await client.ask(
            "initialize", protocolVersion=version, info={"name": "near", "version": "1"}, **attached
        )
        new_session = await client.ask("session/new", cwd="/tmp", mcpServers=[], **attached)
        sessions = await client.ask("session/list", **attached)
        answer = await client.ask("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "x"}], **attached)
        if version == 2:
            await client.until(client.ends)
            answer = client.ends()[0]
        client.notify("session/cancel", sessionId="s1", **attached)
        await agent.until("session/cancel")

    assert (welcome["_meta"], new_session["_meta"], sessions["_meta"], answer["_meta"]) == tuple(
        {"from": name} for name in ("welcome", "new", "list", "prompt")
    )
    assert sessions["sessions"][0]["_meta"] == {"from": "info"}
    for method in ("initialize", "session/new", "session/list", "session/prompt", "session/cancel"):
        assert agent.calls(method)[0]["_meta"] == {"trace": "1"}
    chunk = next(call["params"] for call in client.validator.calls("session/update") if "chunk" in str(call))
    assert (chunk["_meta"], chunk["update"]["_meta"]) == ({"on": "notification"}, {"on": "chunk"})
    others = [
        call["params"].get("_meta") for call in client.validator.calls("session/update") if call["params"] != chunk
    ]
    assert others == [None] * len(others)


@both_directions
async def test_meta_of_a_request_and_of_its_response_passes(version: int, agent_version: int) -> None:
    agent = scripted(agent_version)
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once", "_meta": {"on": "option"}}]
    tool = {"toolCallId": "c", "title": "Dig"}
    about: Json = {"toolCall": tool} if agent_version == 1 else {"title": "Dig", "subject": None}
    async with wire_across(agent, version, agent_version) as client:
        session = await opened(client, version)
        outcome = {"outcome": "selected", "optionId": "yes"}
        client.answers["session/request_permission"] = lambda _: {"result": {"outcome": outcome, "_meta": {"a": 1}}}
        question = {"sessionId": session, "options": options, "_meta": {"q": 1}, **about}
        answer = await agent.ask("session/request_permission", question)
        (asked,) = client.asked

    assert asked["params"]["_meta"] == {"q": 1}
    assert asked["params"]["options"] == options
    assert answer["result"] == {"outcome": outcome, "_meta": {"a": 1}}


@both_directions
async def test_a_question_comes_after_what_was_said_before_it(version: int, agent_version: int) -> None:
    words = "x" * 3000

    async def handler(turn: Any) -> None:
        for _ in range(100):
            await turn.say(words)
        async with turn.tool("Dig") as tool:
            await tool.request_permission()

    async with wire_across(agent_of_version(agent_version, handler), version, agent_version) as client:
        session = await opened(client, version)
        client.prompt(session, "dig")
        question = await client.until_asked("session/request_permission")
        before = client.validator.received[: client.validator.received.index(question)]
        client.write(id=question["id"], result={"outcome": {"outcome": "cancelled"}})
        await _until_it_ends(client, version)

    assert json.dumps(before).count(words) == 100


async def _until_it_ends(client: WireClient, version: int) -> None:
    if version == 2:
        await client.until(client.ends)
    else:
        await client.until(lambda: any("stopReason" in str(each.get("result")) for each in client.validator.received))
