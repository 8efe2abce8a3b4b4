"""The client's side without an event loop, also where one is running."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.client import blocking
from duologue.errors import CommandNotFound, RequestError
from duologue.events import Text

BUILTIN = [sys.executable, "-m", "duologue.cli.main", "agent"]


def test_one_call_asks_an_agent_and_gets_a_string(tmp_path: Path) -> None:
    command = [*BUILTIN, "--sessions", str(tmp_path / "kept")]

    assert blocking.ask(command, "hello", cwd=tmp_path).startswith("Hello!")


def test_turns_are_iterated_waited_for_and_left_early(tmp_path: Path) -> None:
    with blocking.connect(builtin_agent()) as agent, agent.session(tmp_path) as session:
        texts = [event.text for event in session.prompt("/stream 5") if isinstance(event, Text)]
        assert texts == ["0 ", "1 ", "2 ", "3 ", "4 "]
        turn = session.prompt("/slow")
        for _ in turn:
            break
        assert turn.stop_reason == "cancelled"
        assert session.prompt("/refuse").wait().stop_reason == "refusal"
        session.set_mode("code")
        assert session.modes is not None
        assert session.modes.current == "code"
        with pytest.raises(RequestError):
            session.ask("/error")
    assert agent.info is not None


async def test_it_works_where_a_loop_is_already_running(tmp_path: Path) -> None:
    """A notebook runs one; each call still waits, on another thread."""
    with blocking.connect(builtin_agent()) as agent, agent.session(tmp_path) as session:
        assert session.ask("/echo from a notebook").startswith("You said: from a notebook")


def test_an_agent_that_cannot_be_started_is_an_error_here() -> None:
    with pytest.raises(CommandNotFound), blocking.connect("no-such-agent-anywhere"):
        pass
