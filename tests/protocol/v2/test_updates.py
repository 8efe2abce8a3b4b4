"""Conversion to version 2 and back loses nothing: golden and generated updates survive the round trip."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from duologue.conversation import updates as u
from duologue.conversation.content import TextContent
from duologue.conversation.updates import decode_update
from duologue.conversation.work_state import BackgroundWork, Failure, TerminalExit, TokenUsage
from duologue.errors import InvalidParams
from duologue.protocol.v2.tools import permission_subject, permission_tool_from_wire
from duologue.protocol.v2.updates import update_from_wire, update_to_wire
from duologue.schema import v2
from duologue.schema.codec import decode
from tests.protocol.v2.round_trips import canonical, golden, rewritten, with_real_output
from tests.schema.instances import AtRandom, Maker, instances, varieties
from tests.schema.official import UNSTABLE

SCHEMA = UNSTABLE["v2"].schema
MESSAGES = 1_000
NOTIFICATIONS = golden("UpdateSessionNotification")


def read(update: Any) -> v2.SessionUpdate:
    return decode(v2.UpdateSessionNotification, msgspec.json.encode({"sessionId": "s", "update": update})).update


def assert_survives(update: Any) -> None:
    wire = read(with_real_output(update))
    meaning = update_from_wire(wire)

    assert canonical(update_to_wire(meaning)) == rewritten(canonical(wire))
    assert decode_update(msgspec.json.encode(meaning)) == meaning


@pytest.mark.rule(148)
@pytest.mark.parametrize("wire", NOTIFICATIONS, ids=lambda wire: wire["update"]["sessionUpdate"])
def test_every_golden_update_means_the_same_after_the_round_trip(wire: Any) -> None:
    assert_survives(wire["update"])


def test_every_variety_of_update_means_the_same_after_the_round_trip() -> None:
    seen: set[str] = set()
    for wire in varieties(SCHEMA, "UpdateSessionNotification"):
        assert_survives(wire["update"])
        seen.add(wire["update"]["sessionUpdate"])

    assert len(seen) == 23


@settings(max_examples=200, deadline=None)
@given(wire=instances(SCHEMA, "UpdateSessionNotification"))
def test_generated_updates_mean_the_same_after_the_round_trip(wire: Any) -> None:
    assert_survives(wire["update"])


def test_random_updates_mean_the_same_after_the_round_trip(chaos_factor: int, record_property: Any) -> None:
    source = random.Random(2)
    count = MESSAGES * chaos_factor
    for _ in range(count):
        assert_survives(Maker(SCHEMA, AtRandom(source)).definition("UpdateSessionNotification")["update"])
    record_property("count", count)


# --- messages


def test_a_chunk_needs_the_id_of_its_message() -> None:
    with pytest.raises(ValueError, match="id"):
        update_to_wire(u.MessageChunk(role="agent", content=TextContent("a")))


def test_a_mode_update_has_no_form_in_version_2() -> None:
    with pytest.raises(TypeError, match="ModeUpdate"):
        update_to_wire(u.ModeUpdate(mode_id="ask"))


@pytest.mark.parametrize(
    ("content", "wire"), [(u.UNSET, {}), (None, {"content": None}), ([], {"content": []})], ids=repr
)
def test_a_whole_message_is_patched_in_three_states(content: Any, wire: Any) -> None:
    change = u.MessageUpdate(role="thought", message_id="m", content=content)

    assert canonical(update_to_wire(change)) == {"sessionUpdate": "agent_thought", "messageId": "m", **wire}
    assert update_from_wire(update_to_wire(change)) == change


# --- states


def test_an_idle_state_has_the_reason_why_work_ended() -> None:
    state = u.StateUpdate(
        state="idle",
        stop_reason="error",
        error=Failure(code=-32603, message="broken", data={"why": 1}),
        usage=TokenUsage(total=3, input=1, output=2),
        background=[BackgroundWork(kind="terminal", work_id="t"), BackgroundWork(kind="subagent", work_id="s")],
    )

    assert canonical(update_to_wire(state)) == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "error",
        "error": {"code": -32603, "message": "broken", "data": {"why": 1}},
        "usage": {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2},
        "background": [{"type": "terminal", "terminalId": "t"}, {"type": "subagent", "sessionId": "s"}],
    }
    assert update_from_wire(update_to_wire(state)) == state


@pytest.mark.rule(147)
def test_an_unknown_state_is_read_as_a_state_that_is_not_idle() -> None:
    wire = {"sessionUpdate": "state_update", "state": "_dreaming", "of": "sheep"}
    state = update_from_wire(read(wire))

    assert state == u.StateUpdate(state="_dreaming", other=wire)
    assert canonical(update_to_wire(state)) == wire
    made = u.StateUpdate(state="_dreaming", background=[BackgroundWork(kind="_cron")])
    assert canonical(update_to_wire(made)) == {
        "sessionUpdate": "state_update",
        "state": "_dreaming",
        "background": [{"type": "_cron"}],
    }


def test_no_background_work_differs_from_unknown_background_work() -> None:
    assert "background" not in canonical(update_to_wire(u.StateUpdate(state="running")))
    assert canonical(update_to_wire(u.StateUpdate(state="running", background=[])))["background"] == []


# --- terminals


def test_the_output_of_a_terminal_is_bytes_whatever_they_are() -> None:
    chunk = u.TerminalOutputChunk(terminal_id="t", data=b"\xff\x00")
    whole = u.TerminalUpdate(terminal_id="t", output=b"\xfe", exit=TerminalExit(), can_cancel=False)

    assert canonical(update_to_wire(chunk))["data"] == "/wA="
    assert canonical(update_to_wire(whole)) == {
        "sessionUpdate": "terminal_update",
        "terminalId": "t",
        "output": {"data": "/g=="},
        "exitStatus": {},
        "capabilities": {},
    }
    assert [update_from_wire(update_to_wire(update)) for update in (chunk, whole)] == [chunk, whole]


@pytest.mark.parametrize("data", ["a", "a\nGk=", "ü", "aGk=="])
def test_a_chunk_that_is_not_base64_is_rejected_and_a_snapshot_is_left_out(data: str) -> None:
    with pytest.raises(InvalidParams, match="base64"):
        update_from_wire(read({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data}))
    snapshot = read({"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": data}})
    assert update_from_wire(snapshot) == u.TerminalUpdate(terminal_id="t")


# --- the rest


def test_the_plan_without_an_id_has_a_fixed_one_and_is_empty_when_removed() -> None:
    plan = u.PlanUpdate(entries=[u.PlanEntry("a", "cancelled", "high")])
    wire = canonical(update_to_wire(plan))

    assert wire["plan"] == {
        "type": "items",
        "planId": "plan",
        "entries": [{"content": "a", "priority": "high", "status": "cancelled"}],
    }
    assert update_from_wire(read(wire)) == plan
    removed = update_from_wire(read({"sessionUpdate": "plan_removed", "planId": "plan"}))
    assert removed == u.PlanUpdate(entries=[])


def test_a_cost_is_kept_cleared_or_set() -> None:
    def cost_of(**fields: Any) -> Any:
        return canonical(update_to_wire(u.UsageUpdate(used=1, size=2, **fields))).get("cost", "unsaid")

    assert cost_of() == "unsaid"
    assert cost_of(cost=None) is None
    assert cost_of(cost=0.5) is None
    assert cost_of(cost=0.5, currency="EUR") == {"amount": 0.5, "currency": "EUR"}


def test_values_that_only_version_1_allows_are_written_in_the_nearest_form() -> None:
    notice = canonical(update_to_wire(u.NoticeUpdate(severity="info", title="")))
    call = canonical(update_to_wire(u.ToolCallUpdate(tool_call_id="t", locations=[u.Location("/a", 0)])))

    assert notice["title"] == "info"
    assert call["locations"] == [{"path": "/a"}]


def test_more_tool_content_is_one_part_or_changes_to_files() -> None:
    changes = u.ToolContentChunk(
        tool_call_id="t", content=[u.FileChange("/a", None, "x"), u.FileChange("/b", "x", None)]
    )
    wire = canonical(update_to_wire(changes))
    assert [change["operation"] for change in wire["content"]["changes"]] == ["add", "delete"]
    two = u.ToolContentChunk(tool_call_id="t", content=[u.TerminalPart("x"), u.FileChange("/a", None, "x")])
    with pytest.raises(ValueError, match="one part"):
        update_to_wire(two)


# --- permission


def request(**fields: Any) -> v2.RequestPermissionRequest:
    option = v2.PermissionOption(option_id="y", name="Yes", kind="allow_once")
    return v2.RequestPermissionRequest(session_id="s", title="May I?", options=[option], **fields)


def test_a_permission_request_is_about_a_tool_call() -> None:
    tool = u.ToolCallUpdate(tool_call_id="t", title="Edit", kind="edit", can_cancel=True, is_question=True)

    assert permission_tool_from_wire(request(subject=permission_subject(tool))) == tool
    nameless = u.ToolCallUpdate(tool_call_id="t")
    about = permission_tool_from_wire(request(subject=permission_subject(nameless)))
    assert about == u.ToolCallUpdate(tool_call_id="t", title="May I?", is_question=True)


def test_a_permission_request_about_anything_else_reads_as_a_tool_call_too() -> None:
    command = v2.CommandPermissionSubject(command="rm x", cwd="/w", tool_call_id="t", terminal_id="x", meta={"k": 1})
    about = permission_tool_from_wire(request(subject=command, description="Really?"))

    assert about == u.ToolCallUpdate(
        tool_call_id="t",
        title="May I?",
        kind="execute",
        content=[u.ContentPart(TextContent("Really?")), u.TerminalPart("x")],
        raw_input={"command": "rm x", "cwd": "/w"},
        meta={"k": 1},
        is_question=True,
    )
    bare = permission_tool_from_wire(request(subject=v2.CommandPermissionSubject(command="ls", cwd="/")))
    assert (bare.tool_call_id, bare.content, bare.meta) == ("", u.UNSET, u.UNSET)
    assert permission_tool_from_wire(request()) == u.ToolCallUpdate(tool_call_id="", title="May I?", is_question=True)
    unknown = decode(
        v2.RequestPermissionRequest,
        b'{"sessionId":"s","title":"T","options":[{"optionId":"y","name":"Y","kind":"k"}],"subject":{"type":"_x"}}',
    )
    assert permission_tool_from_wire(unknown).raw_input == {"type": "_x"}
