"""`duologue run` before a person: questions, diffs, Ctrl-C."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.program import ODD_AGENT, terminal


def test_the_diff_is_shown_before_the_question(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello") as console:
        before = console.until("The agent asks to: Write note.txt")
        options = console.until("Your choice")
        console.type("1\n")
        console.until("I wrote note.txt")

        assert "+hello" in before
        assert "1. Allow once" in options
        assert console.wait() == 0
        assert console.text.count("+hello") == 1
    assert (tmp_path / "note.txt").read_text() == "hello\n"


@pytest.mark.parametrize("answer", ["\n", "0\n", "99\n", "yes\n", "\x04"])
def test_any_other_input_rejects_the_request(tmp_path: Path, answer: str) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello") as console:
        console.until("Your choice")
        console.type(answer)

        assert console.wait() == 5
    assert not (tmp_path / "note.txt").exists()


def test_an_answer_for_the_directory_holds_in_later_runs(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with terminal(tmp_path, "run", "/write note.txt hello", cwd=work) as console:
        console.until("6. Allow, and do not ask about this again in this directory")
        console.until("Your choice")
        console.type("6\n")
        assert console.wait() == 0
    (work / "note.txt").unlink()
    with terminal(tmp_path, "run", "/write note.txt hello", cwd=work) as console:
        assert console.wait() == 0
        assert "Your choice" not in console.text
    assert (work / "note.txt").exists()


def test_markdown_is_rendered_and_control_characters_do_nothing(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/echo **bold** \x07 and \x9b31m") as console:
        assert console.wait() == 0
        assert "You said: bold  and  " in console.text


def test_on_a_dumb_terminal_the_words_come_as_they_are(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/echo **bold**", TERM="dumb") as console:
        assert console.wait() == 0
        assert "You said: **bold**" in console.text


def test_without_the_extra_packages_everything_works_in_plain_text(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules.update({'rich': None, 'prompt_toolkit': None})\n"
    )
    with terminal(tmp_path, "chat", PYTHONPATH=str(tmp_path)) as console:
        console.until("Ctrl-D exits.")
        console.type("/echo **bold**\n")
        console.until("You said: **bold**")
        console.until("(end_turn")
        console.type("\x04")

        assert console.wait() == 0


def test_ctrl_c_cancels_the_turn(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/cancel-me") as console:
        console.until("other: Wait to be cancelled")
        console.interrupt()

        assert console.wait() == 130
        assert "You cancelled me." in console.text
        assert "(cancelled, " in console.text


def test_ctrl_c_twice_leaves_an_agent_that_does_not_listen(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "hi", "--", *ODD_AGENT, "stuck") as console:
        console.until("I never end")
        console.interrupt()
        console.until("press Ctrl-C again to exit immediately")
        console.interrupt()

        assert console.wait() == 130


def test_ctrl_c_while_the_agent_starts_leaves(tmp_path: Path) -> None:
    ready = tmp_path / "sign"
    os.mkfifo(ready)
    with terminal(tmp_path, "run", "hi", "--", *ODD_AGENT, "deaf", str(ready)) as console:
        assert ready.read_text() == "here"  # waits until the agent has opened it
        console.interrupt()

        assert console.wait() == 130


def test_ctrl_c_in_the_middle_of_a_question_cancels_it(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello") as console:
        console.until("Your choice")
        console.interrupt()

        assert console.wait() == 130
    assert not (tmp_path / "note.txt").exists()


@pytest.mark.rule(130)
def test_a_url_is_shown_in_full_with_its_host_before_the_user_agrees(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/ask url") as console:
        shown = console.until("Open it?")
        console.type("y\n")

        assert "Open this URL: https://example.com/login\n  Host: example.com\n" in shown
        assert console.wait() == 0


def test_a_command_can_be_allowed_once_for_long_or_with_others_like_it(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/run echo hello") as console:
        asked = console.until("Your choice")
        console.type("7\n")

        assert "  7. Allow `echo *` in this session\n" in asked
        assert "  8. " not in asked
        assert console.wait() == 0


@pytest.mark.fault("PRM-19")
@pytest.mark.parametrize("url", ["https://evil.example\\@github.com/login", "javascript:alert(1)"])
def test_a_url_that_is_read_in_two_ways_is_never_put_before_a_person(tmp_path: Path, url: str) -> None:
    with terminal(tmp_path, "run", "hi", "--", *ODD_AGENT, "asks-url", url) as console:
        assert console.wait() == 0
        assert "Open it?" not in console.text
        assert "refused with -32602: url: the URL " in console.text


def test_a_form_is_filled_in_field_by_field(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/ask form") as console:
        console.until("Answer?")
        console.type("y\n")
        console.until(": ")
        console.type("\x04")

        assert console.wait() == 0
