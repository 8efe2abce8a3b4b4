"""Asking for an answer as text: what is not a complete answer is an error that has the text so far."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Permissions, Session, Turn, Workspace, connect, sync
from duologue.builtin.agent import builtin_agent
from duologue.errors import StartError, TurnIncomplete, TurnTimeout


def agent_that(ends: Any) -> Agent[Any]:
    agent: Agent[Any] = Agent("answers")

    @agent.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        await turn.say("So far.")
        if ends == "denied":
            async with turn.tool("Delete everything", kind="delete") as tool:
                await tool.request_permission()
        elif ends == "never":
            await asyncio.Event().wait()
        elif ends == "writes":
            await turn.files.write("notes.txt", "text")
        else:
            turn.stop(ends)

    return agent


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("refusal", "refused the prompt"),
        ("max_tokens", "limit of tokens"),
        ("max_turn_requests", "limit of requests"),
        ("cancelled", "was cancelled"),
    ],
)
async def test_a_turn_that_does_not_end_by_itself_is_an_error_with_the_text_so_far(
    tmp_path: Path, reason: str, meaning: str
) -> None:
    async with asyncio.timeout(60), connect(agent_that(reason)) as agent, await agent.new_session(tmp_path) as session:
        with pytest.raises(TurnIncomplete, match=meaning) as raised:
            await session.ask("go")
        assert (raised.value.text, raised.value.stop_reason, raised.value.denied) == ("So far.", reason, [])
        assert await session.ask("go", check=False) == "So far."


async def test_a_denied_act_is_named_although_the_turn_ended_well(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        connect(agent_that("denied")) as agent,
        await agent.new_session(tmp_path) as session,
    ):
        with pytest.raises(TurnIncomplete, match=r"Delete everything \(delete\)") as raised:
            await session.ask("go")
        assert (raised.value.text, raised.value.stop_reason) == ("So far.", "end_turn")
        assert raised.value.denied == ["Delete everything (delete)"]
        turn = await session.prompt("again")
        assert turn.denied == raised.value.denied
        assert await session.ask("go", check=False) == "So far."


async def test_an_allowed_act_is_no_error(tmp_path: Path) -> None:
    permissions = Permissions.allow_everything()
    async with (
        asyncio.timeout(60),
        connect(agent_that("denied"), permissions=permissions) as agent,
        await agent.new_session(tmp_path) as session,
    ):
        assert await session.ask("go") == "So far."


async def test_a_file_that_may_not_be_written_is_named_with_its_path(tmp_path: Path) -> None:
    permissions = Permissions(edit="reject")
    async with (
        asyncio.timeout(60),
        connect(agent_that("writes"), permissions=permissions, workspace=Workspace()) as agent,
        await agent.new_session(tmp_path) as session,
    ):
        turn = session.prompt("go")
        with pytest.raises(Exception, match="not permitted"):
            await turn
        assert turn.denied == [f"write {tmp_path / 'notes.txt'}"]


async def test_a_turn_without_an_answer_in_time_is_cancelled_and_the_session_goes_on(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(agent_that("never")) as agent, await agent.new_session(tmp_path) as session:
        for check in (True, False):
            with pytest.raises(TurnTimeout, match=r"within 1 s") as raised:
                await session.ask("go", timeout=1.0, check=check)
            assert (raised.value.text, raised.value.stop_reason) == ("So far.", "cancelled")
            assert not session.is_busy


SILENT = [sys.executable, "-c", "import sys; sys.stdin.read()"]


def test_the_timeout_of_one_call_covers_the_start_and_the_session(tmp_path: Path) -> None:
    with pytest.raises(TurnTimeout, match=r"did not answer `initialize` within 0.5 s") as raised:
        sync.ask(SILENT, "go", cwd=tmp_path, timeout=0.5)
    assert (raised.value.text, raised.value.stop_reason) == ("", None)
    agent: Agent[Any] = Agent("never-opens")

    @agent.on_open
    async def wait(session: Session[Any]) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TurnTimeout, match=r"did not open a session within 5 s"):
        sync.ask(agent, "go", cwd=tmp_path, timeout=5)
    with pytest.raises(TurnTimeout, match=r"did not answer within 5 s, so the turn was cancelled") as raised:
        sync.ask(agent_that("never"), "go", cwd=tmp_path, timeout=5)
    assert raised.value.text == "So far."


async def test_a_prompt_with_a_timeout_fails_as_ask_does_however_its_turn_is_read(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(agent_that("never")) as agent, await agent.new_session(tmp_path) as session:
        awaited = session.prompt("go", timeout=0.5)
        with pytest.raises(TurnTimeout, match=r"within 0.5 s, so the turn was cancelled"):
            await awaited
        iterated = session.prompt("go", timeout=0.5)
        with pytest.raises(TurnTimeout):
            async for _ in iterated:
                pass
        entered = session.prompt("go", timeout=0.5)
        with pytest.raises(TurnTimeout):
            async with entered:
                async for _ in entered:
                    pass
        left = session.prompt("go", timeout=30)
        async with left:
            pass
        for turn in (awaited, iterated, entered):
            assert isinstance(turn.error, TurnTimeout)
            assert (turn.error.text, turn.error.stop_reason, turn.stop_reason) == ("So far.", "cancelled", "cancelled")
        assert (left.error, left.stop_reason) == (None, "cancelled")


async def test_a_prompt_that_waits_for_another_one_has_its_timeout_too(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(agent_that("never")) as agent, await agent.new_session(tmp_path) as session:
        async with session.prompt("go") as first:
            with pytest.raises(TurnTimeout):
                await session.prompt("and then", timeout=0.05)
            assert not first.is_over


async def test_an_answer_in_time_ends_the_timer(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        connect(agent_that("end_turn")) as agent,
        await agent.new_session(tmp_path) as session,
    ):
        assert await session.ask("go") == "So far."
        before = asyncio.all_tasks()
        assert await session.ask("go", timeout=600) == "So far."
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before


BUSY = """
import signal, duologue

signal.signal(signal.SIGTERM, signal.SIG_IGN)

async def answer(prompt):
    yield "So far."
    while True:
        pass

duologue.run(answer)
"""


def test_one_call_ends_an_agent_soon_that_ignores_the_end_of_its_time(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(TurnTimeout, match=r"did not answer within 8 s, so the turn was cancelled") as raised:
        sync.ask([sys.executable, "-c", BUSY], "go", cwd=tmp_path, timeout=8)
    assert raised.value.stop_reason == "cancelled"
    assert time.monotonic() - began < 8 + 9  # about 3 on an idle machine; 18 with the times of a session that goes on


@pytest.mark.parametrize("ignores", ["initialize", "session/new"])
def test_one_call_ends_an_agent_soon_that_never_starts(tmp_path: Path, ignores: str) -> None:
    answer = """
        line = sys.stdin.readline()
        result = {"protocolVersion": 1, "agentCapabilities": {}}
        print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": result}), flush=True)
    """
    silent = f"""
        import json, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        {answer if ignores == "session/new" else ""}
        time.sleep(600)
    """
    lines = "\n".join(line.strip() for line in silent.splitlines())
    began = time.monotonic()
    with pytest.raises(TurnTimeout, match=r"within 4 s"):
        sync.ask([sys.executable, "-c", lines], "go", cwd=tmp_path, timeout=4)
    assert time.monotonic() - began < 4 + 7


def test_a_session_without_an_event_loop_outlives_an_agent_that_ignores_its_time(tmp_path: Path) -> None:
    with (
        sync.connect([sys.executable, "-c", BUSY], cancel_timeout=0.1) as agent,
        agent.new_session(tmp_path) as session,
    ):
        for _ in range(2):
            with pytest.raises(TurnTimeout, match=r"within 1 s"):
                session.ask("go", timeout=1)
            assert not session.is_busy
        with pytest.raises(TurnTimeout):
            session.prompt("go", timeout=0.1).wait()
        with session.prompt("go") as turn:
            pass
        assert turn.stop_reason == "cancelled"
    assert not session.is_open


def test_one_call_looks_a_name_up_in_the_lock_file_it_is_given(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="there is no lock file"):
        sync.ask("scout", "go", cwd=tmp_path, lock=tmp_path / "no.lock")
    with pytest.raises(ValueError, match="`lock` needs the name of an agent"):
        sync.ask(builtin_agent(), "go", cwd=tmp_path, lock=tmp_path / "no.lock")


def test_one_call_logs_in_with_the_method_it_is_given(tmp_path: Path) -> None:
    locked: Agent[Any] = Agent("locked", login_required=True)
    logins: list[str] = []

    @locked.login("key", "API key")
    async def log_in() -> None:
        logins.append("key")

    @locked.on_prompt
    async def answer(turn: Turn[Any]) -> None:
        await turn.say("open")

    assert sync.ask(locked, "go", cwd=tmp_path, login="key") == "open"
    assert logins == ["key"]


def test_one_call_takes_files_and_checks_the_answer(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    shows: Agent[Any] = Agent("shows")

    @shows.on_prompt
    async def show(turn: Turn[Any]) -> None:
        await turn.say(f"{len(turn.prompt)} blocks")

    assert sync.ask(shows, "read", cwd=tmp_path, files=["notes.txt"], timeout=30) == "2 blocks"
    with pytest.raises(TurnIncomplete, match="refused"):
        sync.ask(builtin_agent(), "/refuse", cwd=tmp_path)
    assert isinstance(sync.ask(builtin_agent(), "/refuse", cwd=tmp_path, check=False), str)
