"""The command line over version 2: one flag, and a person sees the same."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from duologue.cli.console.diff import diff_lines
from duologue.cli.console.renderer import ConsoleOutput
from duologue.client.services.terminals import Terminals
from duologue.conversation.content import TextContent
from duologue.conversation.updates import FileChange, Role, TerminalPart
from duologue.conversation.work_state import TerminalExit
from duologue.events import Message, StateChanged, Terminal, TerminalOutput, Text, Thought, ToolCall
from tests.cli.program import duologue

PATCH = "/w/a /w/a\n--- /dev/null\n+++ /w/a\n@@ -0,0 +1 @@\n+x\n"


def shown(home: Path, *arguments: str, stdin: str = "") -> tuple[str, str]:
    ended = duologue(home, *arguments, stdin=stdin)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, re.sub(r"\d+\.\d s", "N s", ended.stderr)


def test_the_tour_looks_the_same_in_both_versions(tmp_path: Path) -> None:
    tours: list[tuple[str, str]] = []
    for flags in ([], ["--v2"]):
        (tmp_path / "duologue-example.txt").unlink(missing_ok=True)
        tours.append(shown(tmp_path, "run", "/tour", "--yes", *flags))

    assert tours[0] == tours[1]
    assert "I was changed by an agent." in tours[1][1]


def test_the_flag_makes_the_difference_on_the_wire(tmp_path: Path) -> None:
    for flags, has_states in (([], False), (["--v2"], True)):
        lines = shown(tmp_path, "run", "/commands", "--json", *flags)[0].splitlines()
        kinds = [json.loads(line)["event"] for line in lines]
        assert ("StateChanged" in kinds) is has_states


def test_a_chat_goes_on_in_the_other_version(tmp_path: Path) -> None:
    first, _ = shown(tmp_path, "chat", "--v2", stdin="/modes\n/notice\n")
    again, history = shown(tmp_path, "chat", "--continue", stdin="/modes\n")
    newer, history_again = shown(tmp_path, "chat", "--continue", "--v2", stdin="/modes\n")

    assert again.startswith(first)
    assert newer.startswith(again)
    assert history.count("> /modes") == 1
    assert history_again.count("> /modes") == 2


def test_a_switch_of_the_mode_is_shown(tmp_path: Path) -> None:
    assert "mode: code\n" in shown(tmp_path, "run", "/mode code", "--v2")[1]


def test_the_doctor_says_which_version_is_spoken(tmp_path: Path) -> None:
    assert "version 2 of the protocol" in shown(tmp_path, "doctor", "--agent", "builtin", "--v2")[0]
    assert "of the protocol" not in shown(tmp_path, "doctor", "--agent", "builtin")[0]


def test_sessions_are_listed_over_version_2(tmp_path: Path) -> None:
    shown(tmp_path, "run", "/commands", "--v2")
    listed = shown(tmp_path, "sessions", "--json", "--v2")[0].splitlines()
    assert len(listed) == 1


# --- what a screen makes of it


class ReadableOutput(ConsoleOutput):
    """A screen that can be read; `new_output` returns the other output (not the agent's text) since the last call."""

    def __init__(self) -> None:
        self.out, self.err = StringIO(), StringIO()
        super().__init__(self.out, self.err, Path("/w"), Terminals())

    def new_output(self) -> str:
        text = self.err.getvalue()
        self.err.seek(0)
        self.err.truncate()
        return text


def test_output_of_the_agent_s_own_commands_is_shown_as_it_arrives() -> None:
    screen = ReadableOutput()
    call: dict[str, Any] = {"tool_call_id": "c", "title": "make", "kind": "execute"}
    part = TerminalPart("t")
    screen.show(ToolCall(**call, status="pending"))
    screen.show(Terminal(terminal_id="t", command="make"))
    screen.show(TerminalOutput(terminal_id="t", data=b"one\nca"))
    screen.show(ToolCall(**call, status="in_progress", content=[part]))
    assert screen.new_output() == "○ execute: make\n    one\n"
    screen.show(TerminalOutput(terminal_id="t", data="fé".encode()[:2]))
    screen.show(TerminalOutput(terminal_id="t", data="fé".encode()[2:] + b"\n\x1b[2Jtwo\n"))
    assert screen.new_output() == "    café\n    two\n"
    screen.show(Terminal(terminal_id="t", output="one\ncafé\n\x1b[2Jtwo\n".encode(), exit=TerminalExit(exit_code=2)))
    screen.show(ToolCall(**call, status="failed", content=[part]))
    assert screen.new_output() == "✗ execute: make\n    exited with code 2\n"


def test_output_that_was_cut_is_shown_with_a_mark() -> None:
    screen = ReadableOutput()
    call: dict[str, Any] = {"tool_call_id": "c", "title": "make", "kind": "execute"}
    screen.show(ToolCall(**call, status="in_progress", content=[TerminalPart("t")]))
    screen.show(TerminalOutput(terminal_id="t", data=b"one\n"))
    screen.show(Terminal(terminal_id="t", output=b"eight\nnine\n"))
    screen.show(Terminal(terminal_id="t", output=b"eight\nnine\nten\n"))
    screen.show(Terminal(terminal_id="t", output=b"ten\n", is_truncated=True))
    screen.show(ToolCall(**call, status="completed", content=[TerminalPart("t")]))

    shown_lines = screen.new_output().splitlines()
    assert [line.strip() for line in shown_lines[1:-1]] == ["one", "…", "eight", "nine", "ten"]


def test_only_the_new_part_of_a_whole_message_is_shown() -> None:
    screen = ReadableOutput()
    screen.show(Text(text="Hello ", message_id="a"))
    screen.show(_message("agent", "a", "Hello world."))
    screen.show(_message("agent", "a", "Hello world."))
    screen.show(_message("agent", "b", "\nAnd more."))
    screen.show(_message("agent", "b", "Or less."))
    screen.show(_message("user", "u", "Said elsewhere"))
    screen.show(Thought(text="h", message_id="t"))
    screen.show(_message("thought", "t2", "m"))
    screen.show(StateChanged(state="_dreaming"))
    screen.show(StateChanged(state="running"))
    screen.pause()

    assert screen.out.getvalue() == "Hello world.\nAnd more.Or less."
    assert screen.new_output() == "> Said elsewhere\nh\nm\nthe agent is _dreaming\n"


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            FileChange(
                "/w/a", operation="add", patch="diff --git /w/a /w/a\n--- /dev/null\n+++ /w/a\n@@ -0,0 +1 @@\n+x\n"
            ),
            ["--- /dev/null", "+++ b/a", "@@ -0,0 +1 @@", "+x"],
        ),
        (FileChange("/w/a", operation="delete"), ["delete a"]),
        (FileChange("/w/b", operation="move", old_path="/w/a"), ["move b from a"]),
        (FileChange("/w/a", operation="modify", patch="Binary files differ\n"), ["modify a"]),
    ],
)
def test_changes_of_version_2_look_like_those_of_version_1(change: FileChange, lines: list[str]) -> None:
    assert diff_lines(change, Path("/w")) == lines


def _message(role: Role, message_id: str, text: str) -> Message:
    return Message(role=role, message_id=message_id, content=[TextContent(text)])
