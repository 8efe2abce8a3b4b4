"""Steering passes a bridge: the extension, and the proposal for version 2 as the extension."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue import Turn
from tests.client.scripted_agent import Json, error, result
from tests.relay.bridge.spans import BOTH_DIRECTIONS, NewerAgent, across, agent_of_version


@pytest.mark.parametrize(("version", "agent_version"), BOTH_DIRECTIONS)
async def test_a_text_joins_the_turn_behind_a_bridge_and_an_untaken_one_is_the_clients_again(
    tmp_path: Path, version: int, agent_version: int
) -> None:
    ends = asyncio.Event()

    async def work(turn: Turn[Any]) -> None:
        await turn.say("one")
        message = await anext(aiter(turn.steering()))
        await turn.say(f"[{message.text}]")
        await ends.wait()

    agent = agent_of_version(agent_version, work, steering=True)
    async with across(agent, version, agent_version) as remote, remote.new_session(tmp_path) as session:
        assert remote.capabilities.steering
        async with session.prompt("go") as turn, asyncio.TaskGroup() as group:
            async for event in turn:
                if getattr(event, "text", None) == "one":
                    break
            assert (await turn.steer("use pytest")).outcome == "injected"
            late = group.create_task(turn.steer("late"))
            ends.set()
        assert late.result().outcome == "prompt_required"
        assert turn.text == "one[use pytest]"
        assert [each.text for each in session.transcript.messages if each.role == "user"] == ["go", "use pytest"]


@pytest.mark.parametrize("has_turn", [True, False])
async def test_a_client_of_version_1_steers_an_agent_with_the_proposal_for_version_2(
    tmp_path: Path, has_turn: bool
) -> None:
    agent = NewerAgent({"session": {"inject": {"modes": ["steer"], "steerInStream": ["defer"]}}})

    async def inject(params: Json) -> Json:
        agent.update({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})
        return result(messageId="m2") if has_turn else error(-32010, "no turn")

    agent.answers["session/inject"] = inject
    agent.turn = [{"sessionUpdate": "state_update", "state": "running"}]
    async with across(agent, 1, 2) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            await agent.until("session/prompt")
            got = await turn.steer("use pytest")
        assert got.outcome == ("injected" if has_turn else "prompt_required")
        [sent] = agent.calls("session/inject")
        del sent["_meta"]  # the client's, which always passes
        assert sent == {"sessionId": "s1", "mode": "steer", "content": [{"type": "text", "text": "use pytest"}]}


async def test_a_bridge_offers_no_steering_that_the_agent_has_not(tmp_path: Path) -> None:
    async with across(agent_of_version(2), 1, 2) as remote, remote.new_session(tmp_path) as session:
        assert not remote.capabilities.steering
        async with session.prompt("go") as turn:
            assert (await turn.steer("x")).outcome == "not_supported"
