"""The stderr of an agent: always shown with `--stderr`, and by itself when the agent fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.program import duologue, terminal

AGENT = """\
import sys
from duologue import Agent, Turn

agent = Agent("failing")


def helper(key: str) -> str:
    return {}[key]


@agent.on_prompt
async def answer(turn: Turn) -> None:
    print("a line of the log", file=sys.stderr, flush=True)
    if turn.text == "fail":
        helper("missing")
    if turn.text == "forget":
        turn.say("never sent")
    await turn.say("the answer")


agent.run()
"""


@pytest.fixture
def agent(tmp_path: Path) -> list[str]:
    """Return the command of an agent that logs, and fails on request."""
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return [sys.executable, str(path)]


def test_an_agent_that_answers_is_shown_without_its_log(tmp_path: Path, agent: list[str]) -> None:
    ended = duologue(tmp_path, "run", "hello", "--", *agent)

    assert (ended.returncode, ended.stdout) == (0, "the answer")
    assert "a line of the log" not in ended.stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_log_is_shown_always_if_that_is_wanted(tmp_path: Path, agent: list[str], options: tuple[str, ...]) -> None:
    ended = duologue(tmp_path, "run", "--stderr", *options, "hello", "--", *agent)

    assert ended.returncode == 0
    assert "  | a line of the log\n" in ended.stderr
    assert "a line of the log" not in ended.stdout


def test_a_failure_shows_the_log_with_a_traceback_of_the_authors_own_frames(tmp_path: Path, agent: list[str]) -> None:
    ended = duologue(tmp_path, "run", "fail", "--", *agent)

    assert ended.returncode == 1
    assert "KeyError (reference " in ended.stderr
    assert "(-32603)" in ended.stderr
    assert "the agent wrote to stderr:\n  | a line of the log\n" in ended.stderr
    assert f'  |   File "{agent[1]}", line 15, in answer\n' in ended.stderr
    assert "KeyError: 'missing'" in ended.stderr
    assert "prompt_queue.py" not in ended.stderr


def test_a_call_without_await_is_named_with_its_line(tmp_path: Path, agent: list[str]) -> None:
    ended = duologue(tmp_path, "run", "forget", "--", *agent)

    assert ended.returncode == 1
    assert "`say` was called without `await` at agent.py:17" in ended.stderr
    assert f"so nothing was sent: {agent[1]}:17" in ended.stderr


def test_an_agent_that_cannot_start_says_why_once(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import nothing_of_this_name\n")

    ended = duologue(tmp_path, "run", "hello", "--", sys.executable, str(path))

    assert ended.returncode == 1
    assert ended.stderr.count("ModuleNotFoundError: No module named 'nothing_of_this_name'") == 1


def test_the_chat_shows_the_log_of_a_turn_that_failed_and_goes_on(tmp_path: Path, agent: list[str]) -> None:
    with terminal(tmp_path, "chat", "--", *agent) as user:
        user.until("Connected to failing")
        user.type("fail\r")
        user.until("the agent wrote to stderr:")
        user.until("KeyError: 'missing'")
        user.type("hello\r")
        assert "a line of the log" not in user.until("the answer")
        user.until("(end_turn")
        user.type(":quit\r")
        assert user.wait() == 0


def test_the_chat_shows_the_log_always_if_that_is_wanted(tmp_path: Path, agent: list[str]) -> None:
    with terminal(tmp_path, "chat", "--stderr", "--", *agent) as user:
        user.until("Connected to failing")
        user.type("hello\r")
        user.until("  | a line of the log")
        user.until("the answer")
        user.until("(end_turn")
        user.type(":quit\r")
        assert user.wait() == 0
