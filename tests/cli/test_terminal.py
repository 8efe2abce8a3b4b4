"""`duologue run` before a person: questions, diffs, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.program import ACTING_AGENT, ODD_AGENT, PROGRAM, terminal


def test_the_diff_is_shown_before_the_question(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello") as console:
        before = console.until("The agent asks to: Write note.txt")
        options = console.until("Your choice (")
        console.type("1")
        console.until("I wrote note.txt")

        assert "+hello" in before
        assert "1. [y] Allow once" in options
        assert console.wait() == 0
        assert console.text.count("+hello") == 1
    assert (tmp_path / "note.txt").read_text() == "hello\n"


CAPABILITIES = pytest.mark.parametrize("kind", ["xterm", "dumb"])


@CAPABILITIES
@pytest.mark.parametrize("answer", ["", "0", "99", "maybe", "y or n", "\x1b[C"])
def test_anything_that_is_no_answer_asks_again(tmp_path: Path, kind: str, answer: str) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello", TERM=kind) as console:
        console.until("Your choice (")
        console.type(f"{answer}\n")
        console.until("Not an answer. Your choice (")
        console.type("n\n")

        assert console.wait() == 5
    assert not (tmp_path / "note.txt").exists()


@CAPABILITIES
def test_the_end_of_the_input_rejects_the_request(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello", TERM=kind) as console:
        console.until("Your choice (")
        console.type("\x04")

        assert console.wait() == 5
    assert not (tmp_path / "note.txt").exists()


@pytest.mark.parametrize(
    ("kind", "keys", "code"),
    [
        ("xterm", "y", 0),
        ("xterm", "Y", 0),
        ("xterm", "a", 0),
        ("xterm", "n", 5),
        ("xterm", "1", 0),
        ("xterm", "3", 5),
        ("xterm", "\x1b[B\n", 0),
        ("xterm", "\x1b[A\r", 5),
        ("xterm", "\x1bOB\x1b[A\n", 5),
        ("dumb", "y\n", 0),
        ("dumb", "3\n", 5),
    ],
)
def test_a_letter_a_number_and_the_arrow_keys_choose_an_answer(tmp_path: Path, kind: str, keys: str, code: int) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello", TERM=kind) as console:
        console.until("3. [n] Reject")
        console.until("m lists more): ")
        console.type(keys)

        assert console.wait() == code
    assert (tmp_path / "note.txt").exists() == (code == 0)


@CAPABILITIES
def test_rare_answers_are_listed_on_request(tmp_path: Path, kind: str) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello", TERM=kind) as console:
        console.until("m lists more): ")
        console.type("m" if kind == "xterm" else "m\n")
        console.until("6. Always reject; the agent decides what that covers\n")
        console.until("Your choice (")
        console.type("6\n")

        assert console.wait() == 5
    assert not (tmp_path / "note.txt").exists()


def test_keys_that_were_pressed_before_the_question_are_no_answer(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/write note.txt hello") as console:
        console.until("The agent asks to: Write note.txt")
        console.type("y")
        console.until("Your choice (")
        console.type("n")

        assert console.wait() == 5


def test_the_terminal_is_as_before_after_a_question_and_after_ctrl_c(tmp_path: Path) -> None:
    for answer in ("y", "\x03", "\x03\x03"):
        with terminal(tmp_path, "run", "/write note.txt hello") as console:
            before = console.modes()
            console.until("Your choice (")
            during = console.modes()
            console.type(answer)
            console.wait()

            assert during != before
            assert console.modes() == before


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
@pytest.mark.parametrize("command", ["run", "chat"])
def test_ctrl_c_at_a_question_ends_its_line_and_shows_one_mark(tmp_path: Path, command: str, kind: str) -> None:
    with terminal(tmp_path, command, *(["/tour"] if command == "run" else []), TERM=kind) as console:
        if command == "chat":
            console.until("Ctrl-D exits.")
            console.type("/tour\r")
        console.until("Your choice (")
        console.until(": ")
        console.type("\x03")
        shown = console.until("(cancelled")
        if command == "chat":
            console.type(":quit\r")
        console.wait()

    assert re.match(r"(\^C)?\n+cancelling; press Ctrl-C again to exit immediately\n– edit: [^\n]*\n", shown), shown
    assert "✗" not in shown


def test_a_long_change_is_cut_and_can_be_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "call.json").write_text(json.dumps(LONG_CHANGE))
    with terminal(tmp_path, "run", "hi", "--", *ODD_AGENT, "ask", str(tmp_path / "call.json")) as console:
        cut = console.until("v shows all): ")
        console.type("v")
        whole = console.until("1 to 4, arrow keys): ")
        console.type("y")
        console.until("you chose allow_once")

    assert "+line 56\n" in cut
    assert "… 43 more lines; v shows all\n" in cut
    assert "+line 99\n" not in cut
    assert "+line 99\n" in whole


def test_a_line_of_a_change_that_was_cut_is_shown_whole_before_it_can_be_allowed(tmp_path: Path) -> None:
    text = f"x = 1{' ' * 1200}; evil()\n"
    call = {**LONG_CHANGE, "content": [{"type": "diff", "path": "/w/a", "newText": text}]}
    (tmp_path / "call.json").write_text(json.dumps(call))
    with terminal(tmp_path, "run", "hi", "--", *ODD_AGENT, "ask", str(tmp_path / "call.json")) as console:
        cut = console.until("v shows all): ")
        console.type("y")
        whole = console.until("1 to 4, arrow keys): ")
        console.type("y")
        console.until("you chose allow_once")

    assert "evil()" not in cut
    assert "… long lines are cut; v shows all\n" in cut
    assert "evil()" in whole


LONG_CHANGE = {
    "toolCallId": "t",
    "title": "Write",
    "kind": "edit",
    "content": [{"type": "diff", "path": "/w/a", "newText": "".join(f"line {number}\n" for number in range(100))}],
}


def test_a_file_that_is_written_without_asking_is_shown_with_its_change(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("old text\n")
    with terminal(tmp_path, "run", "write", "--", *ACTING_AGENT) as console:
        shown = console.until("Your choice (")
        console.type("y")

        assert console.wait() == 0
    assert "    -old text\n    +new text\n" in shown
    assert "decides what that covers" not in shown
    assert (tmp_path / "note.txt").read_text() == "new text\n"


@pytest.mark.parametrize(("how", "questions"), [("named", 1), ("unnamed", 2)])
def test_one_act_is_one_question_only_if_the_first_named_the_command(tmp_path: Path, how: str, questions: int) -> None:
    with terminal(tmp_path, "run", f"{how} echo hello", "--", *ACTING_AGENT) as console:
        for _ in range(questions):
            console.until("Your choice (")
            console.type("y")
        console.until("That is all.")

        assert console.wait() == 0
        assert console.text.count("The agent asks to: ") == questions
        assert "    execute: echo hello\n" in console.text


def test_an_answer_for_the_directory_holds_in_later_runs(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with terminal(tmp_path, "run", "/write note.txt hello", cwd=work) as console:
        console.until("Your choice (")
        console.type("m")
        console.until("3. Always allow for ")
        console.until("Your choice (")
        console.type("3")
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


def test_each_answer_that_is_remembered_names_what_it_covers_and_nothing_wider(tmp_path: Path) -> None:
    with terminal(tmp_path, "run", "/run echo hello") as console:
        usual = re.sub(r"\n    \| ", "", console.until("Your choice ("))
        console.type("m")
        more = re.sub(r"\n    \| ", "", console.until("1 to 6, arrow keys): "))
        console.type("y")

        here = tmp_path.resolve()
        session = f"  2. [a] Always allow in this session: execute echo hello in {here}\n"
        assert usual.endswith(f"  1. [y] Allow once\n{session}  3. [n] Reject\nYour choice (")
        assert session in more
        assert f"  3. Always allow for {here}, also in later sessions with this agent: the same\n" in more
        assert "  4. Always allow; the agent decides what that covers\n" in more
        assert "  6. Always reject; the agent decides what that covers\n" in more
        assert "echo *" not in console.text
        assert console.wait() == 0


def test_the_summary_is_not_glued_to_text_that_another_program_shows(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(UNENDED)
    line = shlex.join([*PROGRAM, "run", "hi", "--", sys.executable, str(tmp_path / "agent.py")])
    with terminal(tmp_path, program=["/bin/sh", "-c", f"{line} | cat > text"]) as console:
        console.wait()

        assert console.text.count("\n\n") == 0
        assert re.fullmatch(r"(starting .*\n)?\n\(end_turn, .*\)\n", console.text)
    assert (tmp_path / "text").read_text() == "no line end"


UNENDED = """from duologue import Agent, Turn

agent = Agent("unended")


@agent.on_prompt
async def answer(turn: Turn) -> None:
    await turn.say("no line end")


agent.run()
"""


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
