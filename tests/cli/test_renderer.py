"""How each kind of event, and changes of files, are shown to the user."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from duologue.cli.chat.local_commands import mentioned_files
from duologue.cli.console.diff import diff_lines
from duologue.cli.console.form_prompt import read_value
from duologue.cli.console.subagent_view import SubagentView
from duologue.conversation.content import TextContent
from duologue.conversation.updates import FileChange
from duologue.events import Message, Subagent, Text
from tests.cli.program import duologue

PROMPTS_AND_OUTPUT = {
    "/notice warning": "warning: This is a notice: It is no part of the conversation.\n",
    "/compact": "compacting the context: completed\n",
    "/subagent": "subagent Scout: idle\n",
    "/background 0.01": "background task Say something after 0.01 s: running\n",
    "/image": "[image/png, ",
    "/unknown-update": "unknown update]\n",
    "/user-message good day": "> good day\n",
    "/mode code": "mode: code\n",
    "/named-plan": "    1. Exist\n",
}


def test_every_kind_of_event_is_shown_on_stderr(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "chat", stdin="\n".join(PROMPTS_AND_OUTPUT))

    assert ended.returncode == 0
    assert [prompt for prompt, shown in PROMPTS_AND_OUTPUT.items() if shown not in ended.stderr] == []
    assert [prompt for prompt, shown in PROMPTS_AND_OUTPUT.items() if shown in ended.stdout] == []


SCOUT = """
import duologue
from duologue.conversation.content import TextContent
from duologue.conversation.updates import MessageChunk, SubagentUpdate, ToolCallUpdate

agent = duologue.Agent("scout", unstable=True)

@agent.on_prompt
async def prompt(turn):
    await turn.update(SubagentUpdate(session_id="c", title="Scout", state={"state": "running"}))
    tool = ToolCallUpdate(is_new=True, tool_call_id="t", title="List", kind="search", status="in_progress")
    await turn.session.update_subagent("c", tool)
    for message_id, text in (("m", "one\\ntwo\\nth"), ("m", "ree\\nfour\\n\\x1b[2Jfive"), ("n", "six")):
        chunk = MessageChunk(role="agent", content=TextContent(text), message_id=message_id)
        await turn.session.update_subagent("c", chunk)
    await turn.update(SubagentUpdate(session_id="c", state={"state": "idle", "stopReason": "end_turn"}))
    await turn.say("Done.")

agent.run()
"""


@pytest.mark.parametrize("command", ["run", "chat"])
@pytest.mark.parametrize("is_verbose", [False, True])
def test_the_text_of_a_subagent_is_shown_after_its_name(tmp_path: Path, command: str, is_verbose: bool) -> None:
    (tmp_path / "scout.py").write_text(SCOUT)
    flags = ["--verbose"] if is_verbose else []
    given = ["go"] if command == "run" else []
    agent = ["--", sys.executable, "scout.py"]
    ended = duologue(tmp_path, command, *flags, *given, *agent, stdin="" if command == "run" else "go\n")

    rest = ["four", "\\x1b[2Jfive"] if is_verbose else ["… 2 more lines; --verbose shows them"]
    lines = [line for line in ended.stderr.splitlines() if line.startswith("  Scout | ")]
    expected = ["search: List", "one", "two", "three", *rest, "six"]
    assert lines == [f"  Scout | {line}" for line in expected]
    assert "Done." in ended.stdout
    assert "two" not in ended.stdout


def test_json_has_the_events_of_a_subagent_apart_from_those_of_the_agent(tmp_path: Path) -> None:
    ended = duologue(tmp_path, "run", "--json", "/subagent")

    events = [json.loads(line) for line in ended.stdout.splitlines()]
    started = next(event for event in events if event["event"] == "Subagent")
    inside = [event for event in events if event["event"] == "SubagentEvent"]
    assert {event["session_id"] for event in inside} == {started["session_id"]}
    assert [event["text"][:6] for event in inside if event["type"] == "Text"] == ["I see "]
    assert all(event["raw"] for event in inside)


def test_lines_begun_and_whole_messages_of_two_subagents_are_not_mixed(tmp_path: Path) -> None:
    view = SubagentView(tmp_path, is_verbose=False)
    view.rename(Subagent(session_id="a", title="Ann\x1b"))
    assert view.lines("a", Text(text="begun", message_id="1")) == []
    assert view.lines("b", Text(text="2 * " * 1000, message_id="1"))[0].startswith("  b | 2 * 2")
    assert view.lines("a", Subagent(session_id="b", title="Bob")) == []
    assert view.lines("b", Message(role="agent", content=[TextContent("x\ny")], message_id="2")) == [
        "  Bob | x",
        "  Bob | y",
    ]
    assert view.lines("b", Message(role="user", content=[TextContent("no")], message_id="3")) == []
    assert view.rest() == ["  Ann\\x1b | begun"]
    assert view.lines("a", Message(role="agent", content=[TextContent("whole")], message_id="1")) == [
        "  Ann\\x1b | whole"
    ]


def test_background_tasks_are_listed_and_stopped_by_number(tmp_path: Path) -> None:
    lines = [":stop", "/background 600", ":stop", ":stop 2", ":stop 1", ":stop"]
    ended = duologue(tmp_path, "chat", stdin="\n".join(lines))

    shown = ended.stdout + ended.stderr
    assert shown.count("no background task is running\n") == 2
    assert "  1. Say something after 600 s\n" in shown
    assert "no running background task has the number 2; `:stop` lists them" in shown
    assert "stopped\n" in shown
    assert "background task Say something after 600 s: stopped\n" in shown


def test_a_location_is_shown_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word\nword\n")
    ended = duologue(tmp_path, "run", "/search word")

    shown = [line for line in ended.stderr.splitlines() if line.startswith("  at a.txt")]
    assert shown == ["  at a.txt:1", "  at a.txt:2"]


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            FileChange("/w/a", old_text="one\n", new_text="two\n"),
            ["--- a/a", "+++ b/a", "@@ -1 +1 @@", "-one", "+two"],
        ),
        (
            FileChange("/w/a", old_text="one\n", new_text="one"),
            ["--- a/a", "+++ b/a", "@@ -1 +1 @@", "-one", "+one", "\\ No newline at end of file"],
        ),
        (FileChange("/w/a", old_text=None, new_text="x\n"), ["--- /dev/null", "+++ b/a", "@@ -0,0 +1 @@", "+x"]),
        (FileChange("/w/a", old_text="x\n", new_text=None), ["--- a/a", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"]),
        (
            FileChange("/else/b", old_text="x\n", new_text="y\n", old_path="/w/a"),
            ["--- a/a", "+++ /else/b", "@@ -1 +1 @@", "-x", "+y"],
        ),
        (
            FileChange("/w/a", old_text="a\rb\x0c\n", new_text="a\rc\x0c\n"),
            ["--- a/a", "+++ b/a", "@@ -1 +1 @@", "-a\rb\x0c", "+a\rc\x0c"],
        ),
        (FileChange("/w/a", operation="delete"), ["delete a"]),
        (FileChange("/w/a", patch="--- a\n+++ b\n"), ["--- a", "+++ b"]),
    ],
)
def test_a_change_is_a_real_unified_diff(change: FileChange, lines: list[str]) -> None:
    assert diff_lines(change, Path("/w")) == lines


def test_files_are_mentioned_with_an_at_sign(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "b").mkdir()

    assert mentioned_files("@a.txt and (see @b). me@a.txt @a.txt, @missing @", tmp_path) == ["a.txt", "b"]


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ({"type": "string"}, "words", "words"),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"type": "integer"}, "3", 3),
        ({"type": "number"}, "0.5", 0.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "no", False),
        ({"type": "array", "items": {"anyOf": [{"const": "x"}, {"const": "y"}]}}, "x, y", ["x", "y"]),
    ],
)
def test_a_field_of_a_form_is_read_as_it_wants_to_be(field: dict[str, object], text: str, value: object) -> None:
    assert read_value(field, text) == value


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ({"type": "string", "oneOf": [{"const": "a"}]}, "b", "one of: a"),
        ({"type": "string"}, "", "required"),
        ({"type": "integer"}, "3.5", "a whole number"),
        ({"type": "number"}, "much", "a number"),
        ({"type": "boolean"}, "perhaps", "yes or no"),
        ({"type": "array", "items": {"enum": ["x"]}}, "x, z", "z is none of: x"),
    ],
)
def test_invalid_input_for_a_field_is_rejected(field: dict[str, object], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_value(field, text)
