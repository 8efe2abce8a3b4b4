"""Logging in, and agents that are lost or silent, as a person and as a script sees them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.program import duologue, terminal

AGENTS = Path(__file__).parents[1] / "client"
LOCKED = [sys.executable, str(AGENTS / "locked_agent.py")]
EXITING_AGENT = [sys.executable, str(AGENTS / "exiting_agent.py")]


@pytest.mark.rule(38)
@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_person_chooses_a_method_and_logs_in_on_the_terminal(tmp_path: Path, command: str) -> None:
    prompt = ["hello"] if command == "run" else []
    with terminal(tmp_path, command, *prompt, "--", *LOCKED, str(tmp_path), TERM="dumb") as console:
        listed = console.until("Your choice")
        console.type("1\n")
        console.until("Your name? ")
        console.type("Ada\n")
        if command == "chat":
            console.until("Ctrl-D exits.")
            console.type("hello\n")
        console.until("welcome")
        console.until("(end_turn")
        if command == "chat":
            console.type("\x04")

        assert console.wait() == 0
    assert "1. Shell (in a terminal)" in listed
    assert "2. Older (in a terminal: tool login)" in listed
    assert "3. Key (by the environment: LOCKED_KEY)" in listed


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("\n", "--login shell: Shell (in a terminal)"),
        ("3\n", "set LOCKED_KEY in the environment first"),
        ("2\n", "cannot run 'tool'"),
        ("1\nBob\n", "ended with 3"),
    ],
)
def test_a_login_that_did_not_happen_has_its_own_code(tmp_path: Path, choice: str, message: str) -> None:
    with terminal(tmp_path, "run", "hello", "--", *LOCKED, str(tmp_path)) as console:
        console.until("Your choice")
        for line in choice.splitlines(keepends=True):
            console.type(line)
            if line == "1\n":
                console.until("Your name? ")
        console.until(message)

        assert console.wait() == 7


def test_off_a_terminal_the_methods_are_listed_and_a_terminal_is_missed(tmp_path: Path) -> None:
    refused = duologue(tmp_path, "run", "hello", "--", *LOCKED, str(tmp_path))
    alone = duologue(tmp_path, "run", "hello", "--login", "shell", "--", *LOCKED, str(tmp_path))
    by_key = duologue(tmp_path, "run", "hello", "--login", "key", "--", *LOCKED, str(tmp_path), LOCKED_KEY="secret")

    assert (refused.returncode, refused.stdout) == (7, "")
    assert "the agent requires a login: who are you?\n  --login shell: Shell (in a terminal)\n" in refused.stderr
    assert (alone.returncode, alone.stdout) == (7, "")
    assert "this login needs a terminal, and this process has none" in alone.stderr
    assert (by_key.returncode, by_key.stdout) == (0, "welcome")


def test_a_chat_goes_on_after_its_agent_has_crashed(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", TERM="dumb") as console:
        console.until("Ctrl-D exits.")
        console.type("/crash 3\n")
        console.until("exited with code 3")
        console.until("your next line starts the agent again")
        console.type("/echo still here\n")
        console.until("You said: still here")
        console.until("(end_turn")
        console.type("\x04")

        assert console.wait() == 0


def test_a_stalled_agent_is_reported_and_its_turn_cancelled(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "wait", "--stall-timeout", "0.3", "--", *EXITING_AGENT, str(tmp_path))

    assert ended.returncode == 6
    assert "no activity for 0.3 s\n" in ended.stderr
    assert "no activity for 0.6 s; the turn was cancelled" in ended.stderr
