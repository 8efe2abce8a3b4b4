"""A stalled turn is reported and then cancelled; a pause with a known reason is not a stall."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from duologue.client.connect import connect
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.services.terminals import Terminals
from duologue.errors import TurnStalled
from duologue.events import Event, StallDetected, Text
from duologue.protocol.values import Elicitation, ElicitationAnswer
from tests.client.scripted_agent import ALL_OPTIONS, Json, ScriptedAgent, result, text_chunk

pytestmark = pytest.mark.timeout(30)

SECONDS = 0.1
LONG_SECONDS = 0.75
"""Long enough to pass 40 MB to a reader on a busy machine without a pause of this length."""
TOOL = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look", "status": "in_progress"}
FORM: Json = {
    "mode": "form",
    "sessionId": "s1",
    "message": "?",
    "requestedSchema": {"type": "object", "properties": {}},
}


async def four_silences(agent: ScriptedAgent, seconds: float = SECONDS) -> bool:
    """Work without updates for four times the stall timeout; return True if the client did not cancel."""
    with suppress(TimeoutError):
        async with asyncio.timeout(4 * seconds):
            await agent.until("session/cancel")
            return False
    return True


async def test_a_stall_is_reported_once_and_then_ends_the_turn(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        agent.update(text_chunk("one moment"))
        await agent.until("session/cancel")
        return result(stopReason="cancelled")

    agent = ScriptedAgent(prompt=prompt)
    async with (
        asyncio.timeout(60),
        connect(agent, stall_timeout=SECONDS) as remote,
        remote.new_session(tmp_path) as session,
    ):
        events: list[Event] = []
        session.watch(events.append)
        turn = session.prompt("go")
        with pytest.raises(TurnStalled, match=r"no activity for 0\.2 s"):
            await turn
        assert turn.stop_reason == "cancelled"
        assert [type(event) for event in events] == [Text, StallDetected]
        assert isinstance(events[1], StallDetected)
        assert events[1].seconds == SECONDS
        agent.answers["session/prompt"] = agent_ends
        assert (await session.prompt("again")).stop_reason == "end_turn"


async def agent_ends(params: Json) -> Json:
    return result(stopReason="end_turn")


async def test_a_stalled_turn_that_the_agent_does_not_cancel_is_abandoned(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        await asyncio.Event().wait()
        return result()

    agent = ScriptedAgent(prompt=prompt)
    async with asyncio.timeout(60), connect(agent, stall_timeout=SECONDS) as remote:
        remote._cancel_timeout = 0.05
        session = await remote.new_session(tmp_path)
        with pytest.raises(TurnStalled):
            async with session.prompt("go") as turn:
                assert [type(event) async for event in turn] == [StallDetected]


async def test_activity_ends_a_stall(tmp_path: Path) -> None:
    noticed = asyncio.Event()

    async def prompt(params: Json) -> Json:
        for word in ("here", "and here"):
            noticed.clear()
            await noticed.wait()
            agent.update(text_chunk(word))
        return result(stopReason="end_turn")

    def watch(event: Event) -> None:
        if isinstance(event, StallDetected):
            noticed.set()

    agent = ScriptedAgent(prompt=prompt)
    async with (
        asyncio.timeout(60),
        connect(agent, stall_timeout=SECONDS) as remote,
        remote.new_session(tmp_path) as session,
    ):
        session.watch(watch)
        async with session.prompt("go") as turn:
            assert [type(event) async for event in turn] == [StallDetected, Text, StallDetected, Text]


async def test_an_open_tool_call_is_no_silence(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        agent.update(TOOL)
        went_on = await four_silences(agent)
        agent.update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"})
        return result(stopReason="end_turn" if went_on else "cancelled")

    agent = ScriptedAgent(prompt=prompt)
    async with (
        asyncio.timeout(60),
        connect(agent, stall_timeout=SECONDS) as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert (await session.prompt("go")).stop_reason == "end_turn"


@pytest.mark.parametrize("asks", ["permission", "question"])
async def test_an_agent_that_waits_for_our_user_is_not_silent(tmp_path: Path, asks: str) -> None:
    went_on: list[bool] = []

    async def decide(question: PermissionRequest) -> bool:
        went_on.append(await four_silences(agent))
        return False

    async def fill_in(question: Elicitation) -> ElicitationAnswer:
        went_on.append(await four_silences(agent))
        return ElicitationAnswer(action="decline")

    async def prompt(params: Json) -> Json:
        if asks == "question":
            await agent.ask("elicitation/create", FORM)
        else:
            # A call that is over excuses nothing by itself.
            tool = {"toolCallId": "t", "title": "Look", "kind": "edit", "status": "completed"}
            await agent.ask_permission(tool, ALL_OPTIONS)
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=prompt)
    rules = Permissions(on_request=decide)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, on_elicit=fill_in, stall_timeout=SECONDS) as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert (await session.prompt("go")).stop_reason == "end_turn"
    assert went_on == [True]


async def test_a_command_that_runs_for_the_agent_is_no_silence(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        made = await agent.ask("terminal/create", {"sessionId": "s1", "command": "sleep", "args": ["60"]})
        went_on = await four_silences(agent)
        terminal = {"sessionId": "s1", "terminalId": made["result"]["terminalId"]}
        await agent.ask("terminal/release", terminal)
        return result(stopReason="end_turn" if went_on else "cancelled")

    async def allow(question: PermissionRequest) -> bool:
        return True

    agent = ScriptedAgent(prompt=prompt)
    rules = Permissions(on_request=allow)
    async with (
        asyncio.timeout(60),
        connect(agent, permissions=rules, terminals=Terminals(grace=0.2), stall_timeout=SECONDS) as remote,
        remote.new_session(tmp_path) as session,
    ):
        assert (await session.prompt("go")).stop_reason == "end_turn"


async def test_an_agent_that_waits_for_a_slow_reader_is_not_silent(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        for _ in range(40):  # more than may wait for its reader
            agent.update(text_chunk("x" * 1024 * 1024))
            if agent.transport.is_congested:
                await agent.transport.drain()
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=prompt)
    async with (
        asyncio.timeout(60),
        connect(agent, stall_timeout=LONG_SECONDS) as remote,
        remote.new_session(tmp_path) as session,
    ):
        async with session.prompt("go") as turn:
            kinds: list[type[Event]] = []
            async for event in turn:
                if not kinds:
                    assert await four_silences(agent, LONG_SECONDS)
                kinds.append(type(event))
        assert kinds == [Text] * 40


async def test_stalls_are_not_detected_unless_requested(tmp_path: Path) -> None:
    async def prompt(params: Json) -> Json:
        return result(stopReason="end_turn" if await four_silences(agent) else "cancelled")

    agent = ScriptedAgent(prompt=prompt)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        assert (await session.prompt("go")).stop_reason == "end_turn"
