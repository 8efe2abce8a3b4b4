"""The conversation in a recording: its items, their order, and hostile recordings."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from duologue.recording.format import Entry
from duologue.trace import conversation as conversation_module
from duologue.trace import item_queue, tool_states
from duologue.trace.conversation import ConversationReader
from duologue.trace.frames import Tracer
from duologue.trace.item_queue import ConversationItem
from tests.trace.recorded_run import RecordedRun, whole_run


def items_of(run: RecordedRun) -> list[ConversationItem]:
    reader = ConversationReader()
    return [*reader.read(Tracer().trace(run.entries)), *reader.rest()]


def shown(run: RecordedRun) -> list[tuple[str, str]]:
    return [(item.kind, item.text or item.title or item.status) for item in items_of(run)]


def test_a_conversation_has_its_items_in_order() -> None:
    assert shown(whole_run()) == [
        ("connection", "zed 0.2 and gem 0.8, protocol version 1"),
        ("session", "/project"),
        ("prompt", "Fix the test"),
        ("message", "I should look first"),
        ("plan", ""),
        ("tool_call", "Read a.py"),
        ("stderr", "WARN slow\nWARN disk\n"),
        ("request", "/project/a.py"),
        ("tool_call", "import b"),
        ("tool_call", "Edit a.py"),
        ("permission", "Edit a.py"),
        ("permission_answer", "Allow once"),
        ("tool_call", "Edit a.py"),
        ("message", "I have fixed it."),
        ("stop", "end_turn"),
    ]


def test_items_say_how_long_they_took_and_what_was_chosen() -> None:
    items = items_of(whole_run())
    read, edit = [item for item in items if item.kind == "tool_call" and item.status == "completed"]
    (question,) = [item for item in items if item.kind == "permission"]
    (answer,) = [item for item in items if item.kind == "permission_answer"]
    (stop,) = [item for item in items if item.kind == "stop"]

    assert (read.tool_kind, read.seconds) == ("read", 0.5)
    assert (edit.changes[0].path, edit.changes[0].new_text) == ("/project/a.py", "import c\n")
    assert (question.options, answer.status, answer.seconds) == (["Allow once", "Reject"], "allow_once", 0.1)
    assert stop.seconds == 1.6


def test_a_message_is_one_item_whatever_happens_meanwhile() -> None:
    run = (
        RecordedRun()
        .opened()
        .prompt("?")
        .text("one ")
        .other(stderr="x")
        .text("two")
        .other(dir="to_client", text="noise")
        .stop()
    )

    assert shown(run)[3:] == [("message", "one two"), ("stderr", "x"), ("invalid", "noise"), ("stop", "end_turn")]


def test_the_texts_of_two_sessions_are_not_mixed() -> None:
    run = RecordedRun("s1").opened().text("a")
    run.session = "s2"
    run.text("x")
    run.session = "s1"
    run.text("b")

    assert [(item.session, item.text) for item in items_of(run)[2:]] == [("s1", "ab"), ("s2", "x")]


def test_a_growing_message_continues() -> None:
    reader, tracer = ConversationReader(), Tracer()
    first = [*reader.read(tracer.trace(RecordedRun().text("one ").entries)), *reader.rest()]
    second = [*reader.read(tracer.trace(RecordedRun().text("two").entries)), *reader.rest()]
    third = [*reader.read(tracer.trace(RecordedRun().text("?", kind="agent_thought_chunk").entries)), *reader.rest()]

    assert [(item.text, item.continues) for item in [*first, *second, *third]] == [
        ("one ", False), ("two", True), ("?", False),
    ]  # fmt: skip


def test_failures_are_items() -> None:
    run = RecordedRun().opened()
    run.request("to_agent", "session/set_mode", {"sessionId": "s1", "modeId": "x"}, {"code": -32601, "message": "no"})
    run.prompt("?").frame("to_client", id=3, error={"code": 1, "message": "late"})
    run.frame("to_client", id=4, error={"code": -32000, "message": "full"})
    run.update("agent_message_chunk").frame("to_client", id=99, result={})
    run.other(dir="to_client", text="Loading").other(exit_code=-9)

    assert shown(run)[2:] == [
        ("error", "no (-32601)"),
        ("prompt", "?"),
        ("error", "late (1)"),
        ("stop", "full (-32000)"),
        ("invalid", "$.update.content: missing"),
        ("invalid", "Loading"),
        ("exit", "-9"),
    ]


@pytest.mark.parametrize(
    ("update", "item"),
    [
        ({"kind": "current_mode_update", "currentModeId": "plan"}, ("update", "plan")),
        ({"kind": "session_info_update", "title": "Fix"}, ("update", "Fix")),
        ({"kind": "weather"}, ("update", "unknown update")),
        ({"kind": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "# do"}}, ("plan", "# do")),
        ({"kind": "notice", "severity": "warning", "title": "a", "description": "b"}, ("update", "a: b")),
        ({"kind": "compaction_update", "compactionId": "1", "status": "completed"}, ("update", "completed")),
        (
            {"kind": "subagent_update", "sessionId": "s2", "title": "child", "state": {"state": "running"}},
            ("update", "child running"),
        ),
        (
            {"kind": "agent_message_chunk", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}},
            ("message", "[image/png, 3 bytes]"),
        ),
        (
            {"kind": "agent_message_chunk", "content": {"type": "resource_link", "uri": "file:///a", "name": "a"}},
            ("message", "[file:///a]"),
        ),
        ({"kind": "agent_message_chunk", "content": {"type": "hologram"}}, ("message", "[unknown content]")),
        ({"kind": "user_message_chunk", "content": {"type": "text", "text": "earlier"}}, ("message", "earlier")),
    ],
)
def test_each_kind_of_update_is_an_item(update: dict[str, Any], item: tuple[str, str]) -> None:
    assert shown(RecordedRun().update(update["kind"], **{name: update[name] for name in update if name != "kind"})) == [
        item
    ]


def test_settings_and_usage_are_left_to_the_wire_view() -> None:
    run = RecordedRun().update("usage_update", used=1, size=2).update("available_commands_update", availableCommands=[])

    assert shown(run) == []


def test_an_echo_of_the_prompt_is_not_shown_twice() -> None:
    run = RecordedRun().prompt("hi").text("hi", kind="user_message_chunk").stop()

    assert [kind for kind, _ in shown(run)] == ["prompt", "stop"]


def test_a_turn_of_version_2_ends_with_an_idle_state() -> None:
    run = RecordedRun().opened(2).prompt("hi")
    run.frame("to_client", id=3, result={})
    run.update("agent_message", messageId="m", content=[{"type": "text", "text": "all"}])
    run.update("agent_message", messageId="m", content=[{"type": "text", "text": "all of it"}])
    run.update("state_update", state="idle", stopReason="end_turn")

    assert shown(run)[2:] == [("prompt", "hi"), ("message", "all of it"), ("stop", "end_turn")]


def test_a_cancelled_turn_shows_who_ended_it() -> None:
    run = RecordedRun().prompt("hi").frame("to_agent", method="session/cancel", params={"sessionId": "s1"})

    assert shown(run.stop("cancelled")) == [("prompt", "hi"), ("update", "cancel"), ("stop", "cancelled")]


def test_the_end_of_a_command_and_a_form_say_their_outcome() -> None:
    run = RecordedRun()
    run.request(
        "to_client", "terminal/wait_for_exit", {"sessionId": "s1", "terminalId": "t"}, {"exitCode": 3, "signal": None}
    )
    run.request("to_client", "_ask", {"message": "Sure?"}, {"action": "accept"})
    run.request("to_client", "_kill", {"path": "x"}, {"signal": "KILL"})

    assert [text for _, text in shown(run)] == ["t → exit code 3", "Sure? → accept", "x → KILL"]


def test_a_message_without_end_is_cut_into_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_queue, "MAX_TEXT", 10)
    items = items_of(RecordedRun().text(*["12345"] * 7))

    assert [item.text for item in items] == ["1234512345"] * 3 + ["12345"]
    assert [item.continues for item in items] == [False, True, True, True]


def test_an_open_message_delays_a_bounded_number_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_queue, "MAX_WAITING", 10)
    reader, run = ConversationReader(), RecordedRun().text("open")
    for number in range(50):
        run.other(exit_code=number)
    for number in range(50):
        run.session = f"s{number}"
        run.text("x")

    assert len(list(reader.read(Tracer().trace(run.entries)))) > 80
    assert len(list(reader.rest())) < 20


def test_unanswered_requests_and_endless_tools_need_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_module, "MAX_REMEMBERED", 5)
    monkeypatch.setattr(tool_states, "MAX_TOOLS", 5)
    monkeypatch.setattr(tool_states, "MAX_CONTENT_BYTES", 1000)
    run = RecordedRun()
    text = {"type": "content", "content": {"type": "text", "text": "x" * 300}}
    for number in range(50):
        run.session = f"s{number}"
        run.prompt("?").update("tool_call", toolCallId=str(number), title="t", content=[text])
    run.update("tool_call_update", toolCallId="49", status="completed")
    reader = ConversationReader()
    items = list(reader.read(Tracer().trace(run.entries)))

    assert len(items) == 101
    assert len(reader._asked) <= 5
    assert len(reader._prompted) <= 5


def test_a_tool_call_keeps_no_content_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_states, "MAX_CONTENT_BYTES", 10)
    text = {"type": "content", "content": {"type": "text", "text": "x"}}
    run = RecordedRun().update("tool_call", toolCallId="1", title="t", content=[text])

    assert items_of(run.update("tool_call_update", toolCallId="1", status="failed"))[1].text == ""


def test_hostile_frames_do_not_end_the_reader() -> None:
    run = RecordedRun().opened()
    run.raw("to_client", b'{"method":"session/update","params":' + b"[" * 10_000 + b"]" * 10_000 + b"}")
    run.raw("to_agent", b'{"id":1,"method":"initialize","params":[1]}').raw("to_client", b'{"id":1,"result":[1]}')
    run.raw("to_client", b'{"id":5,"method":"session/request_permission","params":{"sessionId":1,"toolCall":[]}}')
    run.raw("to_client", b'{"id":5,"error":null}')
    run.entries.append(Entry(dir="to_client", frame=Raw(b"{}")))
    run.permission("unknown", chosen="nothing such")

    assert [kind for kind, _ in shown(run)][-2:] == ["permission", "permission_answer"]
