"""Transcripts as text, compared with files, and shown when a test fails."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, Workspace
from duologue.testing import (
    AgentTester,
    SnapshotMismatch,
    Step,
    acp_recordings,
    assert_transcript,
    assert_turn,
    drive,
    transcript_text,
)
from tests.testing.test_plugin import AGENT, EXAMPLES, run_pytest


def make_agent(word: str = "Done.") -> Agent[Any]:
    agent = Agent("writer")

    @agent.on_prompt
    async def answer(turn: Turn) -> None:
        await turn.plan("Read", "Write")
        async with turn.tool("Read a.txt", kind="read", locations=[turn.cwd / "a.txt"]) as tool:
            await tool.show("one\ntwo")
        await turn.say(f"{word} In {turn.cwd} at 2026-01-02T03:04:05Z, session {turn.session.id}.")

    return agent


TEXT = """\
user: go
tool read 'Read a.txt': completed
    at <cwd>/a.txt
    output:
        one
        two
agent: Done. In <cwd> at <time>, session <id-1>.
plan:
    [pending] Read
    [pending] Write
"""


async def test_a_session_is_the_same_text_in_every_run(acp: AgentTester, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        session = await acp.new_session(make_agent(), tmp_path / name)
        await session.prompt("go")
        text = transcript_text(session)
        assert text + "\n" == TEXT
    assert [f"{text}\n" for text in acp.transcripts()] == [TEXT, TEXT]


async def test_a_transcript_is_written_compared_and_reported(acp: AgentTester, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "greeting.snap"
    session = await acp.new_session(make_agent())
    await session.prompt("go")
    with pytest.raises(SnapshotMismatch, match=r"there is no snapshot .*greeting.snap; write it with --acp-update"):
        assert_transcript(session, path)
    assert_transcript(session, path, update=True)
    assert path.read_text() == f"# duologue transcript 1\n{TEXT}"
    assert_transcript(session, path)

    other = await acp.new_session(make_agent("Ready."))
    await other.prompt("go")
    with pytest.raises(AssertionError) as caught:
        assert_transcript(other, path)
    assert "-agent: Done. In <cwd>" in str(caught.value)
    assert "+agent: Ready. In <cwd>" in str(caught.value)
    assert "whole transcript:\nuser: go" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            "# duologue transcript 2\nuser: go\n",
            "has version 2 of the format, and this duologue reads up to 1; install",
        ),
        ("user: go\n", "is not a snapshot: its first line is not `# duologue transcript 1`"),
        ("", "is not a snapshot"),
    ],
)
async def test_a_file_that_is_no_snapshot_or_a_newer_one_is_refused(
    acp: AgentTester, tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "a.snap").write_text(content)

    with pytest.raises(ValueError, match=problem):
        assert_transcript(await acp.new_session(make_agent()), tmp_path / "a.snap")


async def test_the_messages_of_a_scripted_client_are_a_transcript_as_well(tmp_path: Path) -> None:
    params = {"sessionId": "$session", "prompt": [{"type": "text", "text": "go"}]}
    steps = [Step(send={"id": 1, "method": "session/prompt", "params": params}), Step(expect={"id": 1})]
    texts: list[str] = []
    for name in "ab":
        (tmp_path / name).mkdir()
        texts.append(transcript_text(await drive(make_agent(), steps, cwd=tmp_path / name)))

    assert texts[0] == texts[1]
    assert '"sessionId":"<id-1>"' in texts[0]
    assert '"version":"<version>"' in texts[0]
    assert str(tmp_path) not in texts[0]


async def test_a_turn_that_ended_otherwise_is_reported_with_the_transcript(acp: AgentTester, tmp_path: Path) -> None:
    session = await acp.new_session(make_agent(), workspace=Workspace(tmp_path))
    turn = await session.prompt("go")

    assert_turn(turn, text="Done.", tool_calls=["Read a.txt"])
    assert_turn(turn, stop_reason=None, tool_calls=[{"kind": "read", "status": "completed"}])
    with pytest.raises(AssertionError) as caught:
        assert_turn(turn, stop_reason="refusal", text="Gone.", tool_calls=[{"kind": "edit"}, "More"])
    problems, _, transcript = str(caught.value).partition("transcript:\n")
    assert problems.splitlines()[0] == "the turn ended with 'end_turn', not 'refusal'"
    assert "the text has no 'Gone.'" in problems
    assert "the turn has 1 tool calls, not 2: ['Read a.txt']" in problems
    assert "tool call 1: kind is 'read', not 'edit'" in problems
    assert transcript + "\n" == TEXT


SNAPSHOT_TESTS = (
    AGENT
    + """
@pytest.mark.parametrize("word", ["hello", "good bye"])
async def test_it(acp, acp_snapshot, word):
    session = await acp.new_session(agent)
    await session.prompt(word)
    acp_snapshot(session)
    acp_snapshot(session, "again")
"""
)


def test_the_fixture_writes_and_compares_one_file_for_each_test(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, SNAPSHOT_TESTS)
    assert (code, "2 failed" in output) == (1, True), output
    assert "--acp-update-snapshots" in output

    code, output = run_pytest(tmp_path, SNAPSHOT_TESTS, "[pytest]\nasyncio_mode = auto\n", "--acp-update-snapshots")
    assert code == 0, output
    names = sorted(path.name for path in (tmp_path / "snapshots" / "test_it").iterdir())
    assert names == [f"test_it-{word}{more}.snap" for word in ("good-bye", "hello") for more in ("-again", "")]

    changed = SNAPSHOT_TESTS.replace("turn.text.upper()", "turn.text.upper().replace('HELLO', 'Hello')")
    code, output = run_pytest(tmp_path, changed)
    assert "1 failed, 1 passed" in output
    assert "-agent: HELLO" in output
    assert "+agent: Hello" in output
    assert code == 1


def test_a_failed_test_shows_what_happened_in_its_sessions(tmp_path: Path) -> None:
    tests = (
        AGENT
        + """
async def test_it(acp):
    session = await acp.new_session(agent)
    turn = await session.prompt("hello")
    assert turn.text == "other"
"""
    )
    code, output = run_pytest(tmp_path, tests)

    assert code == 1
    assert "acp transcript" in output
    assert "user: hello\nagent: HELLO" in output


def test_each_recording_of_a_directory_is_a_case(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    for name in ("one.acp", "two.acp"):
        shutil.copy(EXAMPLES / "janitor.acp", tmp_path / "recordings" / name)
    agent = (EXAMPLES / "test_a_recording.py").read_text("utf-8").partition("async def test_the_agent")[0]
    tests = (
        agent
        + """
from duologue.testing import acp_recordings

@acp_recordings("recordings/")
async def test_it(acp: AgentTester, recording: Path) -> None:
    await acp.replay(recording, agent)
"""
    )
    code, output = run_pytest(tmp_path, tests, "[pytest]\n", "-rp")

    assert (code, "2 passed" in output) == (0, True), output
    assert "test_it[one.acp]" in output


def test_a_directory_without_recordings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no recording \*\.acp in .*; make one with `duologue tap"):
        acp_recordings(tmp_path)
