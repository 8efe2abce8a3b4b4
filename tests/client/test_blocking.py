"""The client's side without an event loop, also where one is running."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from duologue import sync
from duologue.builtin.agent import builtin_agent
from duologue.errors import CommandNotFound, ConnectionLost, RequestError
from duologue.events import BackgroundTask, Text
from tests.client.processes import is_running

BUILTIN = [sys.executable, "-m", "duologue.cli.main", "agent"]


def test_one_call_asks_an_agent_and_gets_a_string(tmp_path: Path) -> None:
    command = [*BUILTIN, "--sessions", str(tmp_path / "kept")]

    assert sync.ask(command, "hello", cwd=tmp_path).startswith("Hello!")


def test_turns_are_iterated_waited_for_and_left_early(tmp_path: Path) -> None:
    with sync.connect(builtin_agent()) as agent, agent.new_session(tmp_path) as session:
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


def test_a_block_around_a_turn_cancels_it_at_its_end_and_not_before(tmp_path: Path) -> None:
    with sync.connect(builtin_agent()) as agent, agent.new_session(tmp_path) as session:
        with session.prompt("/stream 5") as turn:
            for _ in turn:
                break
            assert not turn.is_cancelling
            assert any(isinstance(event, Text) for event in turn)
        assert (turn.stop_reason, turn.text) == ("end_turn", "0 1 2 3 4 ")
        with session.prompt("/slow") as turn:
            pass
        assert turn.stop_reason == "cancelled"
        with pytest.raises(RequestError), session.prompt("/error") as turn:
            assert list(turn) == []


async def test_it_works_where_a_loop_is_already_running(tmp_path: Path) -> None:
    """A notebook runs one; each call still waits, on another thread."""
    with sync.connect(builtin_agent()) as agent, agent.new_session(tmp_path) as session:
        assert session.ask("/echo from a notebook").startswith("You said: from a notebook")


def test_an_agent_that_cannot_be_started_is_an_error_here() -> None:
    with pytest.raises(CommandNotFound), sync.connect("no-such-agent-anywhere"):
        pass


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background of a shell
import sys
from duologue import sync
print("starting", flush=True)
with sync.connect(["sh", "-c", f"echo $$ > {sys.argv[1]}; kill -INT $PPID; exec sleep 1000"]):
    pass
"""


def test_ctrl_c_while_an_agent_starts_does_not_wait_for_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "pid")]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in ended.stderr
    assert not is_running((tmp_path / "pid").read_text().strip())


MISSED = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background of a shell
from concurrent.futures import Future
from duologue.client.blocking.loop_thread import LoopThread, wait_for
thread = LoopThread()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # another thread takes it, and no wait here is interrupted
try:
    thread.call(lambda: os.kill(os.getpid(), signal.SIGINT))
    wait_for(Future())
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)
"""


def test_ctrl_c_that_interrupts_no_wait_ends_it_all_the_same() -> None:
    """As when it comes between two instructions, the second of which is the wait."""
    ended = subprocess.run([sys.executable, "-c", MISSED], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.stdout, ended.stderr) == ("interrupted\n", "")


def test_an_agent_that_was_started_stays_until_it_is_closed(tmp_path: Path) -> None:
    agent = sync.open([*BUILTIN, "--sessions", str(tmp_path / "kept")])
    session = agent.new_session(tmp_path)
    assert session.ask("/echo one").startswith("You said: one")
    assert session.ask("/echo two").startswith("You said: two")
    agent.close()
    agent.close()

    assert agent.is_closed
    with pytest.raises(ConnectionLost, match="the connection is closed"):
        session.ask("/echo three")
    with pytest.raises(CommandNotFound):
        sync.open("no-such-agent-anywhere")


def test_the_failure_of_a_turn_and_the_state_of_a_session_can_be_read(tmp_path: Path) -> None:
    with sync.connect(builtin_agent()) as agent, agent.new_session(tmp_path) as session:
        assert agent.capabilities is agent.capabilities
        turn = session.prompt("/error")
        with pytest.raises(RequestError):
            turn.wait()
        assert isinstance(turn.error, RequestError)
        assert turn.meta is None
        assert (session.cwd, session.is_open, session.lost_reason) == (tmp_path, True, None)
    assert not session.is_open


def test_the_state_of_a_session_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word\n")
    with sync.connect(builtin_agent(unstable=True), unstable=True) as agent:
        with agent.new_session(tmp_path, additional_directories=[tmp_path]) as session:
            received = session.events()
            turn = session.prompt("/search word").wait()
            assert turn.is_over
            assert (session.is_busy, session.state, session.background) == (False, "idle", [])
            assert session.location is not None
            assert session.location.path.endswith("a.txt")
            assert "search" in [command.name for command in session.commands]
            session.prompt("/background 1").wait()
            assert isinstance(next(event for event in received if "between turns" in getattr(event, "text", "")), Text)
        assert all(isinstance(event, BackgroundTask) for event in received)  # at most the end of the task
        with agent.resume_session(session.id, tmp_path, mcp_servers=[]) as resumed:
            assert resumed.id == session.id
        assert [provider.provider_id for provider in agent.providers()] == ["example"]
        agent.set_provider("example", api_type="openai", base_url="https://h")
        agent.disable_provider("example")
        assert (agent.version, agent.is_closed) == (1, False)
