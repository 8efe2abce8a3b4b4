"""`duologue trace replay`, as a user runs it: a recording made by the tap is an agent, and a client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from duologue.cli.parsers import replay
from duologue.trace.replay import agent_player
from tests.cli.program import PROGRAM, duologue

AGENT = """\
from duologue import Agent

agent = Agent("greeter")

@agent.on_prompt
async def answer(turn):
    await turn.say("Good morning.")
    return {end}

agent.run()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory with an agent, and a recording of it that the tap has made."""
    (tmp_path / "agent.py").write_text(AGENT.format(end=None))
    tap = [*PROGRAM, "tap", "-o", "run.acp", "--", sys.executable, "agent.py"]
    ended = duologue(tmp_path, "run", "hello", "--", *tap)
    assert (ended.returncode, ended.stdout) == (0, "Good morning."), ended.stderr
    return tmp_path


def test_a_recording_of_the_tap_is_an_agent(home: Path) -> None:
    command = [*PROGRAM, "trace", "replay", "run.acp", "--as", "agent"]
    ended = duologue(home, "run", "hello", "--", *command)
    assert (ended.returncode, ended.stdout) == (0, "Good morning."), ended.stderr

    ended = duologue(home, "run", "hello", "--", *command, "--strict", "--speed", "original")
    assert (ended.returncode, ended.stdout) == (0, "Good morning."), ended.stderr

    ended = duologue(home, "run", "bye", "--", *command, "--strict")
    assert ended.returncode == 1
    assert '$.params.prompt[0].text: expected "hello", received "bye"' in ended.stderr

    ended = duologue(home, "run", "bye", "--", *command, "--strict", "--ignore", "$.params.prompt*")
    assert (ended.returncode, ended.stdout) == (0, "Good morning."), ended.stderr


def test_a_recording_of_the_tap_tests_the_agent(home: Path) -> None:
    as_client = ["trace", "replay", "run.acp", "--as", "client"]
    command = ["--", sys.executable, "agent.py"]
    ended = duologue(home, *as_client, "--compare", "text", *command)
    assert (ended.returncode, ended.stdout) == (0, "run.acp: no deviation in 4 requests (text compared)\n"), (
        ended.stderr
    )

    (home / "agent.py").write_text(AGENT.format(end='"refusal"'))
    ended = duologue(home, *as_client, *command)
    assert ended.returncode == 1
    assert ended.stdout == (
        "run.acp: 1 deviation in 4 requests (structure compared)\n"
        'session/prompt, frame 7: different result at $.result.stopReason\n  - "end_turn"\n  + "refusal"\n'
    )
    ended = duologue(home, *as_client, "--json", *command)
    report = json.loads(ended.stdout)
    assert (ended.returncode, report["format"], report["is_same"]) == (1, 1, False)
    assert report["deviations"][0]["path"] == "$.result.stopReason"


def test_a_client_that_ends_its_input_ends_the_agent(home: Path) -> None:
    ended = duologue(home, "trace", "replay", "run.acp", "--as", "agent", stdin="not json\n")
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["error"]["code"] == -32700

    ended = duologue(home, "trace", "replay", "run.acp", "--as", "agent", "--strict")
    assert ended.returncode == 1
    assert ended.stderr == (
        "duologue trace replay: the client disconnected, but the request initialize (frame 1) was expected\n"
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--as", "client"], "replay --as client needs a command after `--`"),
        (["--as", "agent", "--", "x"], "--as agent accepts neither"),
        ([], "the following arguments are required: --as"),
        (["--as", "agent", "--speed", "0"], "expected max, original or a positive number, not '0'"),
        (["--as", "agent", "--speed", "fast"], "expected max, original or a positive number, not 'fast'"),
    ],
)
def test_wrong_arguments_are_explained(tmp_path: Path, arguments: list[str], problem: str) -> None:
    (tmp_path / "run.acp").write_text("{}")
    ended = duologue(tmp_path, "trace", "replay", "run.acp", *arguments)

    assert ended.returncode == 2
    assert problem in ended.stderr


def test_the_default_timeout_is_that_of_the_library() -> None:
    assert replay.TIMEOUT_SECONDS == agent_player.TIMEOUT_SECONDS


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.acp").write_text("{}")
    ended = duologue(tmp_path, "trace", "replay", "run.acp", "--as", "agent")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "run.acp is not a recording" in ended.stderr
