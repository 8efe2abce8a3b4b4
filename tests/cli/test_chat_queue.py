"""Prompts that are typed in a chat while the agent works: queued, shown, edited, dropped, sent in turn."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from duologue.cli.chat.queued_prompts import MOST_QUEUED, QueuedPrompt, QueuedPrompts
from duologue.cli.exit_codes import UsageError
from tests.cli.program import ACTING_AGENT, SECONDS, terminal

TERMINALS = pytest.mark.parametrize("kind", ["xterm", "dumb"])


def pipe(directory: Path) -> Path:
    """Return a named pipe; a turn that waits for it ends when something is written to it."""
    path = directory / "end"
    os.mkfifo(path)
    return path


@TERMINALS
def test_a_prompt_that_is_typed_during_a_turn_is_sent_after_it(tmp_path: Path, kind: str) -> None:
    end = pipe(tmp_path)
    with terminal(tmp_path, "chat", "--", *ACTING_AGENT, TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type(f"wait {end}\r")
        if kind == "xterm":
            console.until("working; Enter queues, Ctrl-C cancels")
        console.type("say first\r")
        console.until("1. say first" if kind == "xterm" else "queued as 1; ")
        console.type("say second\r")
        console.until("2. say second" if kind == "xterm" else "queued as 2; ")
        end.write_text("")
        console.until("(end_turn")
        console.until("say first\n")
        console.until("firstThat is all.")
        console.until("say second\n")
        console.until("secondThat is all.")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0


@TERMINALS
def test_a_queued_prompt_is_replaced_and_dropped(tmp_path: Path, kind: str) -> None:
    end = pipe(tmp_path)
    with terminal(tmp_path, "chat", "--", *ACTING_AGENT, TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type(f"wait {end}\r")
        for number, text in enumerate(["alpha", "beta", "gamma"], 1):
            console.type(f"say {text}\r")
            console.until(f"{number}. say {text}" if kind == "xterm" else f"queued as {number}; ")
        console.type(":drop 2\r:edit 1 say delta\r:drop 9\r:queue\r")
        console.until("no queued prompt has the number 9; `:queue` lists them")
        console.until("  1. say delta\n  2. say gamma\n")
        end.write_text("")
        console.until("deltaThat is all.")
        console.until("gammaThat is all.")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0
        assert "alphaThat" not in console.text
        assert "betaThat" not in console.text


def test_a_queued_prompt_is_edited_in_the_line_that_is_being_typed_and_not_sent_meanwhile(tmp_path: Path) -> None:
    end = pipe(tmp_path)
    with terminal(tmp_path, "chat", "--", *ACTING_AGENT) as console:
        console.until("Ctrl-D exits.")
        console.type(f"wait {end}\r")
        console.type("say hello\r")
        console.until("1. say hello")
        console.type(":edit\r")
        console.until("editing 1: Enter saves it")
        end.write_text("")
        console.until("(end_turn")
        console.type(" again\r")
        console.until("hello againThat is all.")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0
        assert console.text.count("(end_turn") == 2


@TERMINALS
def test_ctrl_c_keeps_the_queue_and_says_how_it_goes_on(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type("/cancel-me\r")
        console.until("other: Wait to be cancelled")
        console.type("/echo one\r")
        console.until("1. /echo one" if kind == "xterm" else "queued as 1; ")
        console.type("/echo two\r")
        console.until("2. /echo two" if kind == "xterm" else "queued as 2; ")
        console.type("\x03")
        console.until("(cancelled")
        console.until("queued (on hold: Enter sends them, a new prompt goes first):")
        console.type("/echo now\r")
        console.until("You said: now")
        console.until("You said: one")
        console.until("You said: two")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0


@TERMINALS
def test_an_empty_line_sends_a_queue_that_is_on_hold(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type("/cancel-me\r")
        console.until("other: Wait to be cancelled")
        console.type("/echo one\r")
        console.until("1. /echo one" if kind == "xterm" else "queued as 1; ")
        console.type("\x03")
        console.until("queued (on hold: ")
        console.type("\r")
        console.until("You said: one")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0


@TERMINALS
def test_a_question_leaves_the_line_that_is_being_typed_as_it_was(tmp_path: Path, kind: str) -> None:
    end = pipe(tmp_path)
    with terminal(tmp_path, "chat", "--", *ACTING_AGENT, TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type(f"wait-and-write {end}\r")
        console.type("say queued\r")
        console.until("1. say queued" if kind == "xterm" else "queued as 1; ")
        console.type("say half a")
        console.until("say half a")
        end.write_text("")
        console.until("Your choice (")
        console.type("y\r" if kind == "dumb" else "y")
        console.until("queuedThat is all.")
        console.until("(end_turn")
        console.type(" line\r")
        console.until("half a lineThat is all.")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0


def test_keys_that_come_before_a_question_can_be_answered_are_typed_text(tmp_path: Path) -> None:
    end = pipe(tmp_path)
    with terminal(tmp_path, "chat", "--", *ACTING_AGENT) as console:
        console.until("Ctrl-D exits.")
        console.type(f"wait-and-write {end}\r")
        console.type("say one ")
        console.until("say one")
        end.write_text("")
        console.until("The agent asks to: ")
        console.type("and two")
        console.until("Your choice (")
        console.type("y")
        console.until("(end_turn")
        console.type(" more\r")
        console.until("one and two moreThat is all.")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0


@TERMINALS
def test_leaving_during_a_turn_waits_for_its_end_and_shows_what_was_not_sent(tmp_path: Path, kind: str) -> None:
    end = pipe(tmp_path)
    with terminal(tmp_path, "chat", "--", *ACTING_AGENT, TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type(f"wait {end}\r")
        console.type("say never\r")
        console.until("1. say never" if kind == "xterm" else "queued as 1; ")
        console.type(":quit\r")
        console.until("not sent:\n  say never\n")
        console.until("the chat exits when this turn has ended; Ctrl-C cancels it")
        end.write_text("")
        console.until("(end_turn")

        assert console.wait() == 0
        assert "neverThat" not in console.text


@TERMINALS
def test_other_sessions_have_to_wait_for_the_end_of_a_turn(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type("/cancel-me\r")
        console.until("other: Wait to be cancelled")
        console.type(":new\r")
        console.until("`:new` has to wait until the turn has ended; Ctrl-C cancels it")
        console.type(":mode code\r")
        console.until("mode = code")
        console.type(":cancel\r")
        console.until("(cancelled")
        console.type(":quit\r")

        assert console.wait() == 0


def test_the_terminal_is_as_before_after_ctrl_c_was_pressed_twice(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--", *ACTING_AGENT) as console:
        before = console.modes()
        console.until("Ctrl-D exits.")
        console.type(f"hang {pipe(tmp_path)}\r")  # a turn that ends meanwhile leaves nothing to exit from
        console.until("working; ")
        during = console.modes()
        console.type("\x03")
        console.until("press Ctrl-C again to exit immediately")
        deadline = time.monotonic() + SECONDS
        while console.process.poll() is None and time.monotonic() < deadline:
            console.type("\x03")  # again, as a key is lost if it is pressed while the terminal changes its mode
            with contextlib.suppress(subprocess.TimeoutExpired):
                console.process.wait(1)

        assert console.wait() == 130
        assert during != before
        assert console.modes() == before


# --- the queue itself


async def test_a_prompt_is_sent_at_once_if_none_is_being_handled() -> None:
    queue = QueuedPrompts()
    following = asyncio.ensure_future(queue.next())
    await queue.wait_until_idle()

    assert queue.add("one") == 0
    assert await following == QueuedPrompt("one", has_waited=False)
    assert queue.add("two") == 1
    assert await queue.next() == QueuedPrompt("two", has_waited=True)


def test_the_queue_is_bounded() -> None:
    queue = QueuedPrompts()
    for number in range(MOST_QUEUED):
        queue.add(f"prompt {number}")

    with pytest.raises(UsageError, match="not queued: 20 prompts wait already; `:drop N` drops one"):
        queue.add("one too many")
    assert len(queue) == MOST_QUEUED


def test_a_prompt_is_shown_shortened_in_one_line() -> None:
    queue = QueuedPrompts()
    queue.add("first line\nsecond \x1b[31mline")
    queue.add("a" * 100)
    queue.add("third")

    assert queue.lines(40, 2) == [
        r"  1. first line second \x1b[31mline",
        f"  2. {'a' * 32}…",
        "  … 1 more; :queue shows them",
    ]


@pytest.mark.parametrize("name", ["0", "3", "x", "-1", "²", "99999999999999999999"])
def test_a_number_that_no_prompt_has_is_refused(name: str) -> None:
    queue = QueuedPrompts()
    with pytest.raises(UsageError, match="no prompt is queued"):
        queue.number_of(name)
    queue.add("one")
    queue.add("two")

    assert queue.number_of("") == 2
    with pytest.raises(UsageError, match="`:queue` lists them"):
        queue.number_of(name)


# --- steering


@TERMINALS
def test_text_is_sent_into_the_running_turn_of_an_agent_that_can_be_steered(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "chat", TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type("/steer\r")
        console.until("Enter queues, Ctrl-S steers, Ctrl-C cancels" if kind == "xterm" else "Send me text while I work")
        console.type("use pytest\x13" if kind == "xterm" else ":steer use pytest\r")
        console.until("sent into the running turn")  # before the agent's own words about it
        console.until("You sent: use pytest")
        console.type(":steer stop\r")
        console.until("You sent: stop")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0
        assert console.text.count("sent into the running turn\n") == 2
        assert console.text.count("(end_turn") == 1


@TERMINALS
def test_text_for_an_agent_that_cannot_be_steered_is_queued_before_the_others(tmp_path: Path, kind: str) -> None:
    end = pipe(tmp_path)
    with terminal(tmp_path, "chat", "--", *ACTING_AGENT, TERM=kind) as console:
        console.until("Ctrl-D exits.")
        console.type(f"wait {end}\r")
        console.type("say later\r")
        console.until("1. say later" if kind == "xterm" else "queued as 1; ")
        console.type("say now\x13" if kind == "xterm" else ":steer say now\r")
        console.until("queued, as this agent cannot be steered: say now\n")
        end.write_text("")
        console.until("nowThat is all.")
        console.until("laterThat is all.")
        console.until("(end_turn")
        console.type(":steer say once more\r")
        console.until("once moreThat is all.")
        console.until("(end_turn")
        console.type(":steer\r:quit\r")

        assert console.wait() == 0
        assert "`:steer` needs the text to send into the running turn" in console.text


def test_text_that_a_cancelled_turn_did_not_take_is_kept_on_hold(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat") as console:
        console.until("Ctrl-D exits.")
        console.type("/cancel-me\r")
        console.until("other: Wait to be cancelled")
        console.type("/echo instead\x13")
        console.until("sent into the turn, not taken yet: /echo instead")
        console.type("\x03")
        console.until("not taken by the turn, so it is queued: /echo instead\n")
        console.until("(cancelled")
        console.until("queued (on hold: ")
        console.type("\r")
        console.until("You said: instead")
        console.until("(end_turn")
        console.type(":quit\r")

        assert console.wait() == 0


def test_text_that_was_not_taken_before_the_exit_is_shown(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat") as console:
        console.until("Ctrl-D exits.")
        console.type("/cancel-me\r")
        console.until("other: Wait to be cancelled")
        console.type("/echo never\x13")
        console.until("sent into the turn, not taken yet: /echo never")
        console.type(":quit\r")
        console.until("the chat exits when this turn has ended")
        console.type("\x03")
        console.until("not queued: the chat exits; this was not sent: /echo never")

        assert console.wait() == 0
