"""`duologue dev`: a chat with an agent that is being written, in a real terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.program import Terminal, duologue, terminal

AGENT = """\
import asyncio
import contextlib
import logging
import os
import sys
import time

from duologue import Agent, Turn

agent = Agent("draft")
agent.persist_sessions("store")
tasks = []


async def forgotten() -> None:
    pass


async def flood() -> None:
    while True:
        sys.stderr.write(("x" * 60 + "\\n") * 2000)
        await asyncio.sleep(0)


@agent.on_prompt
async def answer(turn: Turn) -> None:
    match turn.text:
        case "print":
            print("a printed line")
            logging.getLogger("mine").info("a logged line")
        case "fail":
            raise KeyError("missing")
        case "forget":
            forgotten()
        case "block":
            time.sleep(2.0)
        case "wait":
            await turn.say("waiting for a file")
            while not os.path.exists("go"):  # the test makes it
                await asyncio.sleep(0.01)
        case "crash":
            os._exit(3)
        case "hang":
            await turn.say("hanging")
            while True:
                time.sleep(0.01)
        case "stubborn":
            await turn.say("not ending")
            while not os.path.exists("go"):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(1000)
        case "flood":
            tasks.append(asyncio.create_task(flood()))
    await turn.say("answer 1")


agent.run()
"""
RELOAD = "agent.py changed: starting the agent again"
RESUMED = "the agent was started again, and the session goes on"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the source of an agent."""
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return path


def save(file: Path, text: str) -> None:
    """Save as an editor does that replaces files."""
    copy = file.with_suffix(".tmp")
    copy.write_text(text)
    os.replace(copy, file)


def leave(user: Terminal) -> None:
    user.type(":quit\r")
    assert user.wait() == 0


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_a_save_starts_the_agent_again_and_the_session_goes_on(tmp_path: Path, file: Path, kind: str) -> None:
    with terminal(tmp_path, "dev", "agent.py", TERM=kind) as user:
        user.until("Connected to draft")
        user.until("Watching 1 file; a save starts the agent again.")
        user.type("hello\r")
        user.until("answer 1")
        user.until("(end_turn")
        save(file, AGENT.replace("answer 1", "answer 2"))
        user.until(RELOAD)
        user.until(RESUMED)
        user.type("hello\r")
        user.until("answer 2")
        leave(user)


def test_a_print_a_failure_and_a_blocked_loop_are_shown_with_their_lines(tmp_path: Path, file: Path) -> None:
    lines = AGENT.splitlines()

    def line_of(text: str) -> int:
        return next(number for number, line in enumerate(lines, 1) if text in line)

    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        user.type("print\r")
        user.until(f"  | print at agent.py:{line_of('print(')}: a printed line")
        user.until("  | INFO mine: a logged line")
        user.type("fail\r")
        shown = user.until("KeyError: 'missing'")
        user.until("the agent answered with an error")
        user.type("forget\r")
        user.until(f"agent.py:{line_of('   forgotten()')}: RuntimeWarning: coroutine 'forgotten' was never awaited")
        user.type("block\r")
        blocked = user.until("time.sleep(2.0)")
        leave(user)

    assert f'agent.py", line {line_of("raise KeyError")}, in answer' in shown
    assert "prompt_queue.py" not in shown
    assert "the event loop is blocked" in blocked
    assert f"agent.py:{line_of('time.sleep')}" in blocked.replace("\n", "")


def test_a_syntax_error_is_shown_and_the_session_resumes_after_the_next_save(tmp_path: Path, file: Path) -> None:
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        save(file, "x = (\n" + AGENT)
        user.until(RELOAD)
        shown = user.until("a save, or `:reload`, starts it again")
        user.type("hello\r")
        user.until("the agent does not run, so your prompt waits; a save, or `:reload`, starts it again")
        user.until("1. hello")
        file.unlink()
        user.until("agent.py does not exist")
        user.until("starts it again")
        save(file, AGENT)
        user.until(RESUMED)
        user.until("answer 1")
        leave(user)

    assert f'File "{file}", line 1\n' in shown
    assert "SyntaxError: '(' was never closed" in shown
    assert "launcher" not in shown


@pytest.mark.parametrize("first", ["1 / 0\n", "import time\ntime.sleep(1000)\n", "from duologue import Agent\n"])
def test_an_agent_that_does_not_start_is_started_after_a_save(tmp_path: Path, file: Path, first: str) -> None:
    file.write_text(first)
    with terminal(tmp_path, "dev", "agent.py") as user:
        if "sleep" in first:
            user.until("starting agent.py ...")
        else:
            shown = user.until("waiting for a save; Ctrl-C exits")
            expected = "ZeroDivisionError" if "1 / 0" in first else "agent.py ended without serving an agent"
            assert expected in shown
        save(file, AGENT)
        user.until(RELOAD)
        user.until("Connected to draft")
        leave(user)


@pytest.mark.parametrize("first", ["1 / 0\n", "import time\ntime.sleep(1000)\n"])
def test_ctrl_c_exits_while_no_agent_runs(tmp_path: Path, file: Path, first: str) -> None:
    file.write_text(first)
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("waiting for a save" if "1 / 0" in first else "starting agent.py ...")
        user.interrupt()
        assert user.wait() == 130


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_save_during_a_turn_waits_for_its_end(tmp_path: Path, file: Path, is_cancelled: bool) -> None:
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        user.type("wait\r")
        user.until("waiting for a file")
        save(file, AGENT.replace("answer 1", "answer 2"))
        user.until("agent.py changed: the agent starts again after this turn (Ctrl-C cancels it)")
        if is_cancelled:
            user.interrupt()
        else:
            (tmp_path / "go").touch()
            user.until("answer 1")
        user.until(f"the turn {'was cancelled' if is_cancelled else 'has ended'}: starting the agent again")
        user.until(RESUMED)
        user.type("hello\r")
        user.until("answer 2")
        leave(user)


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
@pytest.mark.parametrize("how", ["Ctrl-C", "a save", ":reload"])
def test_an_agent_that_hangs_is_ended_and_started_again(tmp_path: Path, file: Path, how: str, kind: str) -> None:
    with terminal(tmp_path, "dev", "agent.py", TERM=kind) as user:
        user.until("Connected to draft")
        user.type("hang\r")
        user.until("hanging")
        if how == "a save":
            save(file, AGENT)
        elif how == ":reload":
            user.type(":reload\r")
        else:
            user.interrupt()
        user.until("starting it again")
        shown = user.until(RESUMED)
        user.type("hello\r")
        user.until("answer 1")
        leave(user)

    assert "your next line starts the agent again" not in shown


def test_reload_ends_an_agent_that_does_not_end_its_turn(tmp_path: Path, file: Path) -> None:
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        user.type("stubborn\r")
        user.until("not ending")
        user.type(":reload\r")
        user.until("cancelling the turn, then starting the agent again")
        user.until("the turn does not end: ending the agent and starting it again")
        user.until(RESUMED)
        user.type("hello\r")
        user.until("answer 1")
        leave(user)


def test_reload_cancels_the_turn_that_runs(tmp_path: Path, file: Path) -> None:
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        user.type("wait\r")
        user.until("waiting for a file")
        user.type(":reload\r")
        user.until("cancelling the turn, then starting the agent again")
        user.until("(cancelled")
        user.until(RESUMED)
        user.type("hello\r")
        user.until("answer 1")
        leave(user)


def test_ctrl_c_twice_exits_at_once(tmp_path: Path, file: Path) -> None:
    file.write_text(AGENT.replace("await asyncio.sleep(0.01)", "time.sleep(0.01)"))
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        user.type("wait\r")
        user.until("waiting for a file")
        user.interrupt()
        user.until("press Ctrl-C again")
        user.interrupt()
        assert user.wait() == 130


def test_an_agent_that_crashes_again_and_again_waits_for_a_save(tmp_path: Path, file: Path) -> None:
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        for _ in range(4):
            user.type("crash\r")
            user.until("exited with code 3")
            user.until("your next line starts the agent again")
        user.type("crash\r")
        user.until("was lost each time")
        user.until("a save, or `:reload`, starts it again")
        save(file, AGENT.replace("answer 1", "answer 2").replace("os._exit(3)", "pass"))
        user.until(RESUMED)
        user.until("answer 2")
        leave(user)


def test_a_session_that_the_agent_cannot_resume_is_replaced_and_the_screen_says_so(tmp_path: Path, file: Path) -> None:
    text = AGENT.replace('agent.persist_sessions("store")\n', "")
    file.write_text(text)
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        user.type(":reload\r")
        user.until("it can neither resume nor load sessions; opening a new one")
        user.until("switched to session ")
        user.type("hello\r")
        user.until("answer 1")
        leave(user)


def test_a_flood_of_stderr_leaves_the_user_the_terminal(tmp_path: Path, file: Path) -> None:
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("Connected to draft")
        user.type("flood\r")
        user.until("lines left out: the agent writes too fast)", seconds=60)
        user.type(":stderr\r")
        user.until("stderr: off", seconds=60)
        user.type("hello\r")
        user.until("answer 1", seconds=60)
        leave(user)


def test_messages_and_stray_output_are_shown(tmp_path: Path, file: Path) -> None:
    file.write_text("import os\nos.write(1, b'no message\\n')\n" + AGENT)
    with terminal(tmp_path, "dev", "agent.py") as user:
        user.until("  | stdout, which belongs to the protocol: no message")
        user.until("Connected to draft")
        user.type(":wire\r")
        user.until("wire: on")
        user.type("hello\r")
        user.until('  -> {"jsonrpc":"2.0"')
        user.until('  <- {"jsonrpc":"2.0"')
        leave(user)


@pytest.mark.parametrize(
    "arguments", [("agent.py",), ("agent.py:agent",), ("agent:agent",), ("agent",), ("--", sys.executable, "agent.py")]
)
def test_one_prompt_needs_no_terminal(tmp_path: Path, file: Path, arguments: tuple[str, ...]) -> None:
    text = AGENT if ":" not in arguments[0] else AGENT.replace("agent.run()\n", "")
    file.write_text(text)

    ended = duologue(tmp_path, "dev", "--prompt", "print", *arguments)

    assert (ended.returncode, ended.stdout) == (0, "answer 1")
    assert "a printed line\n" in ended.stderr
    assert "INFO mine: a logged line\n" in ended.stderr


def test_lines_of_a_pipe_are_prompts_and_no_files_are_watched(tmp_path: Path, file: Path) -> None:
    ended = duologue(tmp_path, "dev", "agent.py", stdin="hello\n")

    assert (ended.returncode, ended.stdout) == (0, "answer 1")
    assert "without a terminal no files are watched" in ended.stderr


def test_all_frames_of_a_traceback_are_shown_on_request(tmp_path: Path, file: Path) -> None:
    ended = duologue(tmp_path, "dev", "agent.py", "--full-tracebacks", "--prompt", "fail")

    assert ended.returncode == 1
    assert "prompt_queue.py" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "dev needs a Python file"),
        (("nothing.py",), "nothing.py: no such file"),
        (("agent.py", "--watch", "nothing"), "--watch"),
        (("other.py:agnet", "--prompt", "hello"), "did you mean 'agent'?"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    tmp_path: Path, file: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "other.py").write_text(AGENT.replace("agent.run()\n", ""))

    ended = duologue(tmp_path, "dev", *arguments)

    assert ended.returncode in (1, 2)
    assert message in ended.stderr


def test_the_smallest_example_runs_as_the_tutorial_says(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "smallest_agent.py"
    with terminal(tmp_path, "dev", str(example)) as user:
        user.until("Connected to answer")
        user.type("hello\r")
        user.until("You said: hello")
        user.type(":reload\r")
        user.until("opening a new one")
        user.type("again\r")
        user.until("You said: again")
        leave(user)
