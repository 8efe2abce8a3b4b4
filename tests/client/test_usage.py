"""Usage as a client shows it: of turns and sessions, live, loaded, restarted and recorded."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect
from duologue.client.recorded_sessions import recorded_sessions
from duologue.client.supervisor import Restart
from duologue.events import UsageChanged
from duologue.types import TokenUsage
from tests.client.scripted_agent import Json, ScriptedAgent, error, result, text_chunk
from tests.client.v2.scripted_agent import Prompted, WireAgent, idle
from tests.usage.sequences import CLAUDE, HERMES, QWEN, SEQUENCES, WireSequence, WireTurn, plain, used, wire

pytestmark = pytest.mark.timeout(30)

QUICK = Restart(pause=0.01)


def agent_of(sequence: WireSequence, **capabilities: Any) -> ScriptedAgent:
    """Return an agent that plays the turns of a sequence."""
    turns = iter(sequence.turns)
    agent = ScriptedAgent(capabilities, agentInfo={"name": sequence.name, "version": sequence.version})

    async def play(params: Json) -> Json:
        turn: WireTurn = next(turns)
        agent.update(text_chunk("ok"), *turn.updates, session_id=params["sessionId"])
        usage = {} if turn.usage is None else {"usage": wire(turn.usage)}
        return result(stopReason="end_turn", **usage, **({} if turn.meta is None else {"_meta": turn.meta}))

    agent.answers["session/prompt"] = play
    return agent


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda each: f"{each.name} {each.version}")
async def test_known_agents_are_counted_on_the_wire(sequence: WireSequence, tmp_path: Path) -> None:
    changes: list[UsageChanged] = []
    record = tmp_path / "session.jsonl"
    async with (
        asyncio.timeout(60),
        connect(agent_of(sequence), record=record) as remote,
        remote.new_session(tmp_path) as session,
    ):
        session.watch(lambda event: changes.append(event) if isinstance(event, UsageChanged) else None)
        turns = [await session.prompt("go") for _ in sequence.turns]

        assert [turn.usage.provenance for turn in turns if turn.usage] == list(sequence.of_turns)
        assert session.usage.provenance == sequence.provenance
        reported = [turn.usage for turn in turns if turn.usage and turn.usage.text]
        assert [change.turn for change in changes] == reported
        if changes:
            assert changes[-1].session == session.usage
    (recorded,) = recorded_sessions(record)
    assert recorded.usage == session.usage


async def test_the_requests_of_a_replay_are_not_counted_twice(tmp_path: Path) -> None:
    agent = agent_of(QWEN, loadSession=True)

    async def load(params: Json) -> Json:
        agent.update(*QWEN.turns[0].updates, session_id=params["sessionId"])
        return result()

    agent.answers["session/load"] = load
    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.load_session("s1", tmp_path)
        turn = await session.prompt("go")

        assert turn.usage is not None
        assert (turn.usage.total, turn.usage.provenance) == (QWEN.turns[0].provided.total, "derived")
        assert (session.usage.total, session.usage.provenance) == (turn.usage.total, "partial")


async def test_running_totals_of_a_restarted_agent_are_added(tmp_path: Path) -> None:
    agent = agent_of(HERMES, sessionCapabilities={"resume": {}})
    async with asyncio.timeout(60), connect(agent, restart=QUICK) as remote:
        async with remote.new_session(tmp_path) as session:
            for turn in HERMES.turns:
                if turn.restarts:
                    await agent.transport.aclose()
                await session.prompt("go")

            provided = sum(turn.provided.total or 0 for turn in HERMES.turns)
            assert (session.usage.total, session.usage.provenance) == (provided, "cumulative")


async def test_saved_usage_is_counted_on_by_another_program(tmp_path: Path) -> None:
    agent = agent_of(CLAUDE, sessionCapabilities={"resume": {}})
    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.new_session(tmp_path)
        await session.prompt("go")
        state = session.usage_state
    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.resume_session("s1", tmp_path)
        session.restore_usage(state)
        turn = await session.prompt("go")

        assert turn.usage is not None
        assert (turn.usage.cost, session.usage.turns, session.usage.cost) == (0.014, 2, 0.284)
        assert session.usage.total == 42_678 + 42_735
        assert session.usage.provenance == "reported_per_turn"


async def test_a_failed_turn_reports_nothing_and_is_counted(tmp_path: Path) -> None:
    agent = agent_of(CLAUDE)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        await session.prompt("go")

        async def fail(params: Json) -> Json:
            agent.update(used(42_700, 200_000, 0.3))
            return error(-32603)

        agent.answers["session/prompt"] = fail
        turn = session.prompt("go")
        with pytest.raises(Exception, match="no"):
            await turn

        assert turn.usage is not None
        assert (turn.usage.provenance, turn.usage.cost) == ("not_reported", 0.03)
        assert (session.usage.provenance, session.usage.turns, session.usage.cost) == ("partial", 2, 0.3)


async def test_version_2_reports_usage_with_the_idle_state(tmp_path: Path) -> None:
    async def script(agent: WireAgent, prompted: Prompted) -> None:
        prompted.accept()
        agent.update(used(10, 100, 0.5), idle("end_turn", usage=wire(plain(8, 2))))

    record = tmp_path / "session.jsonl"
    async with (
        asyncio.timeout(60),
        connect(WireAgent(script), protocol_versions=(2,), record=record) as remote,
        remote.new_session("/tmp") as session,
    ):
        turn = await session.prompt("go")

        assert turn.usage is not None
        assert (turn.usage.total, turn.usage.cost, session.usage.used) == (10, 0.5, 10)
    (recorded,) = recorded_sessions(record)
    assert recorded.usage == session.usage


async def test_agents_made_with_this_package_say_that_tokens_are_of_the_turn(tmp_path: Path) -> None:
    agent = Agent("notes", unstable={"usage", "fork"}, store=tmp_path / "store.db")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        turn.tokens = TokenUsage(total=3, input=1, output=2)
        await turn.say("ok")

    async with asyncio.timeout(60), connect(agent, unstable=True) as remote:
        session = await remote.new_session(tmp_path)
        await session.prompt("go")
        await session.prompt("go")
        assert (session.usage.total, session.usage.provenance) == (6, "reported_per_turn")
        forked = await remote.fork_session(session.id, session.cwd)
        await forked.prompt("go")

        assert (forked.usage.total, forked.usage.provenance) == (3, "partial")


def test_the_example_of_counting_shows_what_its_page_says() -> None:
    root = Path(__file__).parents[2]
    program = root / "examples" / "count_usage.py"
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    shown = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True, env=env)

    assert shown.stdout in (root / "docs" / "how-to" / "count-usage.md").read_text("utf-8")


async def test_the_usage_of_the_example_agent_adds_up(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "examples" / "usage_agent.py"
    async with (
        asyncio.timeout(60),
        connect([sys.executable, str(program)]) as remote,
        remote.new_session(tmp_path) as session,
    ):
        turns = [(await session.prompt("hello")).usage for _ in range(2)]

        assert [(turn.total, turn.provenance, turn.cost) for turn in turns if turn] == [
            (22, "reported_per_turn", 6.6e-05)
        ] * 2
        assert (session.usage.total, session.usage.cost, session.usage.used) == (44, 0.000132, 11)
