"""A permission request is evaluated with all updates of its session that arrived before it, and none that came later.

The attacks hide what a tool call does: behind a flood of updates, behind a slow reader, in an update after the
question, or in one before the session is open. The rules reject commands and allow everything that they cannot name.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from tests.client.scripted_agent import ScriptedAgent, result
from tests.client.test_order import VERSIONS, ask, outcome, send_chunks, session_with

pytestmark = [pytest.mark.timeout(60), pytest.mark.fault("ORD-20")]

RULES = Permissions(execute="reject", other="allow")
COMMAND: dict[str, Any] = {
    "toolCallId": "t",
    "title": "Look around",
    "kind": "execute",
    "rawInput": {"command": "rm -rf ."},
}


def announce(agent: ScriptedAgent, is_new: bool, **fields: Any) -> None:
    """Tell of a tool call as the agent's version does."""
    first = "tool_call" if is_new and agent.welcome["protocolVersion"] == 1 else "tool_call_update"
    agent.update({"sessionUpdate": first, "toolCallId": "t", **fields})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("chunks", [0, 1, 255, 256, 257, 600, 5_000])
async def test_no_flood_of_updates_hides_what_a_tool_call_does(chunks: int, version: int, tmp_path: Path) -> None:
    async def attack(agent: ScriptedAgent) -> None:
        send_chunks(agent, chunks)
        announce(agent, True, **COMMAND)
        assert outcome(await ask(agent))["optionId"] == "o0"  # reject_once

    async with session_with(version, attack, tmp_path, permissions=RULES) as (session, _):
        async with session.prompt("go") as turn:
            async for _event in turn:
                await asyncio.sleep(0)  # a reader that takes its time


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_flood_that_drops_a_tool_call_from_the_transcript_does_not_hide_it(
    version: int, tmp_path: Path
) -> None:
    async def attack(agent: ScriptedAgent) -> None:
        announce(agent, True, **COMMAND)
        send_chunks(agent, 100, "x" * 4096)
        assert outcome(await ask(agent))["optionId"] == "o0"

    async with (
        asyncio.timeout(60),
        session_with(version, attack, tmp_path, permissions=RULES, max_transcript_bytes=65536) as (session, _),
    ):
        await session.prompt("go")
        assert session.transcript.dropped > 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_update_after_the_permission_request_hides_nothing(version: int, tmp_path: Path) -> None:
    async def attack(agent: ScriptedAgent) -> None:
        announce(agent, True, **COMMAND)
        answer = ask(agent)
        announce(agent, False, kind="read", rawInput={}, title="Look around")
        assert outcome(await answer)["optionId"] == "o0"

    async with session_with(version, attack, tmp_path, permissions=RULES) as (session, _):
        await session.prompt("go")


async def test_a_permission_request_before_its_session_is_open_is_not_allowed(tmp_path: Path) -> None:
    answers: list[asyncio.Future[Any]] = []

    async def new(params: Any) -> Any:
        announce(agent, True, **COMMAND)
        answers.append(ask(agent))
        return result(sessionId="s1")  # in one go with the question

    agent = ScriptedAgent()
    agent.answers["session/new"] = new
    async with asyncio.timeout(60), connect(agent, permissions=RULES) as remote, remote.new_session(tmp_path):
        answer = await answers[0]

    assert "error" in answer or outcome(answer)["optionId"] == "o0"
