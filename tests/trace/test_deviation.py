"""Two runs are compared by what the agent did, not by ids, chunks or words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from duologue.recording.format import Entry
from duologue.trace.replay import deviation, script
from duologue.trace.replay.deviation import Comparison, Deviation, compare
from duologue.trace.replay.report import ReplayReport
from duologue.trace.replay.script import ReplayScript
from tests.trace.conversations import Conversation, tour


def compared(one: Conversation, two: Conversation, level: Comparison = "structure") -> list[str]:
    return [str(each) for each in compare(ReplayScript(one.entries), ReplayScript(two.entries), level=level)]


def turn() -> Conversation:
    return Conversation().open().prompt("go", 3)


END = {"stopReason": "end_turn"}


def test_a_run_does_not_deviate_from_itself() -> None:
    assert compared(tour(), tour()) == []
    assert compared(tour(), tour(), "text") == []


def test_chunks_and_words_only_count_as_texts() -> None:
    one = turn().say("Hel").say("lo\nyou").respond(3, END)
    same = turn().say("Hello\nyou").respond(3, END)
    other = turn().say("Hello\nme").respond(3, END)

    assert compared(one, same, "text") == compared(one, other) == []
    assert compared(one, other, "text") == ['session/prompt: different text at agent_message\n  - "you"\n  + "me"']


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        (
            turn().respond(3, END),
            turn().respond(3, {"stopReason": "refusal"}),
            'session/prompt, frame 6: different result at $.result.stopReason\n  - "end_turn"\n  + "refusal"',
        ),
        (
            turn().respond(3, END),
            turn().fail(3, -32000, "log in"),
            'session/prompt, frame 6: different error\n  - a result\n  + {"code":-32000,"message":"log in"}',
        ),
        (
            turn().fail(3, -32000),
            turn().fail(3, -32603),
            (
                'session/prompt, frame 6: different error\n  - {"code":-32000,"message":"no"}\n'
                '  + {"code":-32603,"message":"no"}'
            ),
        ),
        (
            turn().update("plan", entries=[]).respond(3, END),
            turn().respond(3, END),
            "session/prompt, frame 6: different kinds of updates\n  - plan",
        ),
        (
            turn().respond(3, END),
            turn().update("plan", entries=[]).respond(3, END),
            "session/prompt: different kinds of updates\n  + plan",
        ),
        (
            turn().tool("a", "read").tool("b", "edit").respond(3, END),
            turn().tool("x", "edit").tool("y", "read").respond(3, END),
            "session/prompt: different actions\n  + tool call (edit): completed",
        ),
        (
            turn().tool("a", "read").respond(3, END),
            turn().tool("a", "read", "failed").respond(3, END),
            "session/prompt, frame 6: different actions\n  - tool call (read): completed\n  + tool call (read): failed",
        ),
        (
            turn().request("fs/read_text_file", 9, {"content": ""}, path="/a").respond(3, END),
            turn().request("fs/write_text_file", 9, {}, path="/a", content="").respond(3, END),
            "session/prompt, frame 6: different actions\n  - fs/read_text_file\n  + fs/write_text_file",
        ),
        (
            turn().update("current_mode_update", currentModeId="a").respond(3, END),
            turn().update("current_mode_update", currentModeId="b").respond(3, END),
            "session/prompt, frame 6: different actions\n  - mode a\n  + mode b",
        ),
        (
            turn().update("state_update", state="idle", stopReason="end_turn"),
            turn().update("state_update", state="idle", stopReason="refusal"),
            "session/prompt, frame 6: different actions\n  - end of the turn: end_turn\n  + end of the turn: refusal",
        ),
    ],
)
def test_a_change_of_the_agent_is_found(one: Conversation, two: Conversation, found: str) -> None:
    assert compared(one, two)[0] == found


def test_an_error_with_other_words_is_the_same_unless_texts_are_compared() -> None:
    one, two = turn().fail(3, -32000, "a"), turn().fail(3, -32000, "b")

    assert compared(one, two) == []
    assert len(compared(one, two, "text")) == 1


def test_a_message_that_does_not_match_the_schema_is_found_unless_it_was_recorded() -> None:
    bad = turn().update("tool_call", toolCallId=5, title="x").respond(3, END)

    assert compared(bad, bad) == []
    found = compared(turn().tool("a", "read").respond(3, END), bad)
    assert any("does not match the schema at $.params.update.toolCallId" in each for each in found)


def test_frames_that_are_no_messages_are_found() -> None:
    broken = turn().respond(3, END)
    broken.entries.append(Entry(t=9.0, dir="to_client", text="Traceback", invalid="not JSON"))

    assert compared(turn().respond(3, END), broken) == [
        "start: does not match the schema\n  + 1 frames that are not messages"
    ]


def test_params_and_titles_are_compared_with_texts() -> None:
    one = turn().tool("a", "read").request("fs/read_text_file", 9, {"content": ""}, path="/a").respond(3, END)
    two = turn().tool("b", "read").request("fs/read_text_file", 9, {"content": ""}, path="/b").respond(3, END)

    assert compared(one, two) == []
    assert compared(one, two, "text") == [
        'session/prompt, frame 8: different text at $.params.path\n  - "/a"\n  + "/b"',
        'session/prompt: different text at tool call titles\n  - "Do a"\n  + "Do b"',
    ]


def test_working_directories_mean_the_same() -> None:
    one = turn().say("in /recorded/dir").request("x/y", 9, {}, path="/recorded/dir/a").respond(3, END)
    two = turn().say("in /live").request("x/y", 9, {}, path="/live/a").respond(3, END)
    scripts = ReplayScript(one.entries), ReplayScript(two.entries)

    assert len(compare(*scripts, level="text")) == 2
    assert compare(*scripts, level="text", directories=("/recorded/dir", "/live")) == []


def test_members_can_be_ignored() -> None:
    one = Conversation().ask("initialize", 1, {"a": 1, "b": {"c": [1]}})
    two = Conversation().ask("initialize", 1, {"a": 2, "b": {"c": [2, 3]}, "_meta": {}})
    scripts = ReplayScript(one.entries), ReplayScript(two.entries)

    assert [each.path for each in compare(*scripts)] == ["$.result.a", "$.result.b.c[0]", "$.result.b.c[1]"]
    assert compare(*scripts, ignored=["a", "$.result.b.c[*]"]) == []


def test_deeply_nested_values_are_compared_as_far_as_they_are_read() -> None:
    nested: Any = 1
    for _ in range(300):
        nested = [nested]
    one = Conversation().ask("initialize", 1, {"a": nested})
    two = Conversation().ask("initialize", 1, {"a": nested[0]})

    assert compared(one, two, "text") == compared(one, two) == []


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "run.acp").write_bytes(b'{"duologue":"recording","version":2}\n{"t":1}\nbroken\n')

    assert script.read_script(tmp_path / "run.acp").notes[0] == "lines left out because they are damaged: 1"


def test_long_turns_are_compared_one_by_one_and_the_report_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deviation, "MAX_ALIGNED", 10)
    monkeypatch.setattr(deviation, "MAX_DEVIATIONS", 15)
    one, two = turn(), turn()
    for number in range(20):
        one.tool(f"a{number}", "read")
        two.tool(f"a{number}", "edit")
    two.tool("more", "edit")

    assert len(compared(one, two)) == 15
    assert compared(one, two)[0].startswith("session/prompt, frame 6: different actions")


def test_an_update_of_a_session_may_come_a_request_earlier_or_later() -> None:
    commands = Conversation().open().update("available_commands_update", availableCommands=[])
    early = commands.prompt("go", 3).respond(3, END)
    late = turn().update("available_commands_update", availableCommands=[]).respond(3, END)

    assert compared(early, late) == compared(late, early) == []
    assert len(compared(early, turn().respond(3, END))) == 1


def test_other_content_than_text_is_left_out_of_texts() -> None:
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    one = turn().update("agent_message_chunk", content=image).update("tool_call_update", toolCallId="a").say("x")
    two = turn().update("agent_message", content=[{"type": "text", "text": "x"}, image])

    assert compared(one.respond(3, END), one, "text") == []
    assert "agent_message" in compared(one, two, "text")[0]


def test_a_text_that_only_lost_its_last_newline_is_another_text() -> None:
    found = compared(turn().say("a\n").respond(3, END), turn().say("a").respond(3, END), "text")

    assert found == ['session/prompt: different text at agent_message\n  - "a\\n"\n  + "a"']


def test_updates_after_a_notification_belong_to_the_request_before_it() -> None:
    one = turn().respond(3, END).notify("_vendor/go", sessionId="sess_recorded_1").update("plan", entries=[])

    assert compared(one, turn().respond(3, END))[0].startswith("session/prompt, frame 8: different kinds of updates")


def test_a_recording_that_is_too_large_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "MAX_BYTES", 1 << 20)
    with pytest.raises(ValueError, match="at most 1 MiB of messages are replayed"):
        ReplayScript(turn().say("x" * (1 << 20)).entries)


def test_a_report_is_text_json_and_an_assertion() -> None:
    found = Deviation(kind="result", method="session/prompt", frame=6, path="$.result", expected="1", received="2")
    report = ReplayReport(recording="run.acp", compare="structure", requests=2, deviations=[found], notes=["a note"])

    assert str(report) == (
        "run.acp: 1 deviation in 2 requests (structure compared)\nnote: a note\n"
        "session/prompt, frame 6: different result at $.result\n  - 1\n  + 2"
    )
    assert report.to_json()["format"] == 1
    assert report.to_json()["deviations"][0]["frame"] == 6
    with pytest.raises(AssertionError, match="1 deviation in 2 requests"):
        report.assert_same()
    same = ReplayReport(recording="run.acp", compare="text", requests=1, deviations=[], notes=[])
    same.assert_same()
    assert str(same) == "run.acp: no deviation in 1 request (text compared)"


def test_a_script_says_what_cannot_be_replayed() -> None:
    made = turn().say("x")
    made.add("to_client", {"id": 77, "result": {}})
    made.entries += [
        Entry(gap=5),
        Entry(dir="to_client", text="noise", invalid="not JSON"),
        Entry(
            dir="to_client", frame=Raw(b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 5000 + b"]" * 5000 + b"}")
        ),
        Entry(frame=Raw(b'{"jsonrpc":"2.0","method":"x"}')),
        Entry(dir="to_agent", redacted=True, frame=Raw(b'{"jsonrpc":"2.0","method":"x"}')),
        Entry(stderr="text"),
        Entry(exit_code=1),
    ]

    assert ReplayScript(made.entries).notes == [
        "frames that are missing from the recording: 5",
        "frames left out because they are not messages: 3",
        "frames left out because they answer no recorded request: 1",
        "frames whose secrets were removed; ••• is sent in their place: 1",
        "requests of the client without a recorded response: 1",
    ]
    twice = ReplayScript([*turn().entries, *turn().entries], is_first_only=True)
    assert twice.notes[0] == "only the first connection is replayed; another one begins at frame 6"
    assert len(twice.calls) == 3
    assert ReplayScript([]).notes == ["the recording has no message of a client"]
