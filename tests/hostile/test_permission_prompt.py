"""A permission prompt shows everything that an answer grants, in our own text, which agents cannot imitate."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import ODD_AGENT, Terminal, terminal

pytestmark = [pytest.mark.timeout(60), pytest.mark.fault("PRM-18")]

AGENT = [sys.executable, str(Path(__file__).with_name("asking_agent.py"))]
OPTIONS = [
    {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


@contextmanager
def asked(home: Path, *calls: dict[str, Any], options: list[dict[str, Any]] = OPTIONS) -> Generator[Terminal]:
    """Run the program on a terminal with an agent that requests permission for these tool calls."""
    questions: list[dict[str, Any]] = [
        {"toolCall": {"toolCallId": f"t{number}", **call}, "options": options} for number, call in enumerate(calls)
    ]
    script = home / "questions.json"
    script.write_text(json.dumps(questions))
    work = home / "work"
    work.mkdir(exist_ok=True)
    with terminal(home, "run", "--ask", "go", "--", *AGENT, str(script), cwd=work) as console:
        yield console


def test_each_choice_begins_with_our_word_for_its_kind(tmp_path: Path) -> None:
    options = [
        {"optionId": "a", "name": "No, do not allow this", "kind": "allow_always"},
        {"optionId": "b", "name": "Reject", "kind": "allow_once"},
        {"optionId": "c", "name": "Yes", "kind": "reject_once"},
        {"optionId": "d", "name": "Whatever", "kind": "reject_always"},
        {"optionId": "e", "name": "Cancel", "kind": "allow_for_ever"},
        {"optionId": "same", "name": "One of two", "kind": "allow_once"},
        {"optionId": "same", "name": "The other", "kind": "reject_once"},
    ]
    with asked(tmp_path, {"title": "x", "kind": "other"}, options=options) as console:
        shown = re.sub(r"\n    \| ", "", console.until("Your choice"))
        console.type("n\n")
        console.until("answer 0: c")

        assert '1. [y] Allow once (agent: "Reject")' in shown
        assert '2. [a] Always allow; the agent decides what that covers (agent: "No, do not' in shown
        assert '3. [n] Reject (agent: "Yes")' in shown
        assert '4. Always reject; the agent decides what that covers (agent: "Whatever")' in shown
        assert '5. Unknown kind of answer "allow_for_ever", which may allow it (agent: "Cancel")' in shown
        assert "6. " not in shown
        assert console.wait() == 5


def test_commands_and_all_files_are_shown_with_their_number(tmp_path: Path) -> None:
    files = [f"/elsewhere/{number}.txt" for number in range(120)]
    call = {
        "title": "Tidy up",
        "kind": "delete",
        "rawInput": {"command": "rm -rf / --no-preserve-root"},
        "locations": [{"path": path} for path in files],
    }
    with asked(tmp_path, call) as console:
        shown = console.until("Your choice")
        console.type("1\n")
        console.until("answer 0: once")

        assert "actions (121):" in shown
        assert "    execute: rm -rf / --no-preserve-root\n" in shown
        assert [path for path in files if f"    delete: {path}\n" not in shown] == []


def test_a_safe_command_does_not_hide_another_kind_of_effect(tmp_path: Path) -> None:
    with asked(tmp_path, {"title": "List", "kind": "delete", "rawInput": {"command": "ls"}}) as console:
        shown = console.until("Your choice")
        console.type("n\n")
        console.until("answer 0: no")

        assert "actions (2):\n    execute: ls\n    delete: no file or command is named\n" in shown


def test_details_that_are_only_in_content_or_input_are_shown(tmp_path: Path) -> None:
    text = {"type": "content", "content": {"type": "text", "text": "rm -rf /\nreally"}}
    call = {"title": "Run", "kind": "execute", "content": [text], "rawInput": {"target": "production"}}
    with asked(tmp_path, call) as console:
        shown = console.until("Your choice")
        console.type("1\n")
        console.until("answer 0: once")

        assert "actions (1):\n    execute: no file or command is named\n" in shown
        assert '    | input: {"target":"production"}\n    | rm -rf /\n    | really\n' in shown


def test_a_request_that_cannot_be_shown_whole_cannot_be_allowed(tmp_path: Path) -> None:
    many = {"title": "Edit", "kind": "edit", "locations": [{"path": f"/w/{number}"} for number in range(300)]}
    long = {"title": "Run", "kind": "execute", "rawInput": {"code": "x" * 70_000 + "; rm -rf /"}}
    with asked(tmp_path, many, long) as console:
        for number, hidden in enumerate(("44 more files and 0 more characters", "0 more files and 4,49")):
            shown = console.until("Your choice")
            console.type("1\n")
            console.until(f"answer {number}: no")

            assert hidden in shown
            assert f"actions ({256 if number == 0 else 1}):" in shown
            assert "  1. [n] Reject\nYour choice" in shown
        assert console.wait() == 5


def test_a_decision_on_an_unspecific_request_cannot_be_remembered(tmp_path: Path) -> None:
    with asked(tmp_path, {"title": "Run a command", "kind": "execute"}) as console:
        shown = console.until("Your choice")
        console.type("3\n")
        console.until("Not an answer. ")
        console.type("2\n")
        console.until("answer 0: no")

        assert "your answer applies once" in shown
        assert "lways" not in shown


@pytest.mark.parametrize("padding", [" ", "x", "\u3000", "\u2003"])
def test_wrapped_text_of_an_agent_does_not_look_like_ours(tmp_path: Path, padding: str) -> None:
    """Text is padded so that a terminal of 80 columns would put its end at the beginning of a line."""
    imitations = ("  actions (1):", "  1. Reject", "Your choice (y, a, n, 1 to 3, arrow keys): ")
    fake = [padding * columns + imitation for imitation in imitations for columns in range(30, 79)]
    call = {
        "title": padding * 61 + "  1. Reject",
        "kind": "other",
        "content": [{"type": "content", "content": {"type": "text", "text": "\n".join(fake)}}],
        "locations": [{"path": "/" + padding * 67 + imitation} for imitation in imitations],
    }
    names = [{"optionId": "x", "name": padding * 20 + "  2. Reject", "kind": "allow_always"}, *OPTIONS]
    with asked(tmp_path, call, options=names) as console:
        shown = console.until("1 to 3, arrow keys; v shows all; m lists more): ")
        console.type("m")
        shown += console.until("1 to 5, arrow keys; v shows all): ")
        console.type("n\n")
        console.until("answer 0: no")

    shown = shown[shown.rindex("\nThe agent asks to: ") :]
    lines = [line for line in shown.split("\n") if not line.startswith("    ")]
    assert [line for line in lines if line.startswith("  actions")] == ["  actions (3):"]
    assert [line[:5] for line in lines if re.match(r"  \d", line)] == [
        *("  1. ", "  2. ", "  3. "),
        *("  1. ", "  2. ", "  3. ", "  4. ", "  5. "),
    ]
    assert "Reject" in next(line for line in lines if line.startswith("  5. "))
    # No line is longer than the terminal, so that none goes on in a line that it begins.
    drawn = re.split(r"\n|(?=Your choice: )", shown)  # the answer replaces the line of the prompt
    assert max(sum(1 if character.isascii() else 2 for character in line) for line in drawn) <= 80


def test_the_message_of_a_url_elicitation_cannot_name_a_host(tmp_path: Path) -> None:
    url = "https://evil.example/" + "a" * 33 + "  Host: github.com".replace(" ", "_")
    with terminal(tmp_path, "run", "hi", "--", *ODD_AGENT, "asks-url", url) as console:
        shown = console.until("Open it?")
        console.type("n\n")
        assert console.wait() == 0
    assert [line for line in shown.split("\n") if line.startswith("  Host")] == ["  Host: evil.example"]


LONG_TEXT = {
    "title": "Run",
    "kind": "execute",
    "content": [
        {"type": "content", "content": {"type": "text", "text": "\n".join(f"step {number}" for number in range(100))}}
    ],
}


@pytest.mark.parametrize("answer", ["y", "a", "v"])
def test_nothing_is_allowed_before_all_text_of_the_agent_was_shown(tmp_path: Path, answer: str) -> None:
    with asked(tmp_path, LONG_TEXT) as console:
        cut = console.until("v shows all): ")
        console.type(answer)
        whole = console.until("Your choice (y, a, n, 1 to 4, arrow keys): ")
        console.type("y")
        console.until("answer 0: once")

    assert "    | step 29\n    … 62 lines are not shown; v shows all\n    | step 92\n" in cut
    assert [number for number in range(100) if f"    | step {number}\n" not in whole] == []


def test_a_long_text_can_be_rejected_unseen(tmp_path: Path) -> None:
    with asked(tmp_path, LONG_TEXT) as console:
        console.until("v shows all): ")
        console.type("n")
        console.until("answer 0: no")


def test_options_that_look_the_same_are_shown_once(tmp_path: Path) -> None:
    options = [
        {"optionId": f"o{number}", "name": name, "kind": "allow_once"}
        for number, name in enumerate(["Yes", "Yes", " Yes"])
    ]
    with asked(tmp_path, {"title": "x", "kind": "other"}, options=options) as console:
        shown = console.until("Your choice (")
        console.type("n")
        console.until("answer 0: cancelled")

    assert shown.count('Allow once (agent: "Yes")') == 1
    assert "  2. [n] Reject (cancels the request)\n" in shown


def test_pasted_text_is_no_answer(tmp_path: Path) -> None:
    with asked(tmp_path, {"title": "x", "kind": "other"}) as console:
        console.until("Your choice (")
        console.type("yes, and then")
        console.until("Not an answer. ")
        console.type("n")
        console.until("answer 0: no")
