"""A transcript built from updates: unset fields stay, null clears, a value replaces, a chunk appends."""

from __future__ import annotations

import time

import pytest

from duologue.conversation.builders import TERMINAL_BYTES, TerminalBuffer
from duologue.conversation.content import Annotations, Content, ImageContent, TextContent
from duologue.conversation.items import (
    BackgroundTask,
    Compaction,
    Message,
    Plan,
    SessionMessage,
    Subagent,
    Terminal,
    ToolCall,
    Usage,
)
from duologue.conversation.settings import ConfigOption, Mode, Modes, Option
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import (
    UNSET,
    AvailableCommand,
    BackgroundTaskUpdate,
    CommandsUpdate,
    CompactionChunk,
    CompactionUpdate,
    ContentPart,
    FileChange,
    InfoUpdate,
    Location,
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    NoticeUpdate,
    PlanEntry,
    PlanRemovedUpdate,
    PlanUpdate,
    Role,
    SessionMessageChunk,
    SessionMessageUpdate,
    SettingsUpdate,
    StateUpdate,
    SubagentUpdate,
    TerminalOutputChunk,
    TerminalPart,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContent,
    ToolContentChunk,
    UnrecognizedUpdate,
    Update,
    UsageUpdate,
)
from duologue.conversation.work_state import TerminalExit, TerminalSize


def transcript_of(*updates: Update) -> Transcript:
    transcript = Transcript()
    for update in updates:
        transcript.apply(update)
    return transcript


def chunk_of(text: str, role: Role = "agent", message_id: str | None = None) -> MessageChunk:
    return MessageChunk(role=role, content=TextContent(text), message_id=message_id)


@pytest.mark.rule(94)
def test_chunks_with_one_id_are_one_message_wherever_they_arrive() -> None:
    transcript = transcript_of(
        chunk_of("a", message_id="1"), chunk_of("x", message_id="2"), chunk_of("b", message_id="1")
    )

    assert [message.text for message in transcript.messages] == ["ab", "x"]


def test_chunks_without_an_id_continue_the_message_until_another_item() -> None:
    transcript = transcript_of(
        chunk_of("a"),
        chunk_of("b"),
        chunk_of("thinking", "thought"),
        ToolCallUpdate(tool_call_id="t"),
        chunk_of("c"),
        chunk_of("d", message_id="1"),
    )

    assert [(m.role, m.text) for m in transcript.messages] == [
        ("agent", "ab"),
        ("thought", "thinking"),
        ("agent", "c"),
        ("agent", "d"),
    ]


def test_other_blocks_than_text_and_texts_with_other_annotations_are_not_merged() -> None:
    image = ImageContent("aGk=", "image/png")
    quiet = TextContent("aside", Annotations(priority=0.1))
    blocks: list[Content] = [TextContent("a"), TextContent("b"), image, TextContent("c"), quiet]
    transcript = transcript_of(*(MessageChunk(role="agent", content=block) for block in blocks))

    assert transcript.messages[0].content == [TextContent("ab"), image, TextContent("c"), quiet]


def test_a_message_that_was_read_early_keeps_growing() -> None:
    transcript = transcript_of(chunk_of("a"))
    early = transcript.messages[0]
    transcript.apply(MessageChunk(role="agent", content=TextContent("b"), meta={"k": 1}))

    assert early == Message(role="agent", content=[TextContent("a")])
    assert transcript.messages[0] == Message(role="agent", content=[TextContent("ab")], meta={"k": 1})


def test_ten_thousand_chunks_cost_linear_time() -> None:
    def seconds_for(count: int) -> float:
        chunks = [chunk_of("x" * 100, message_id="m") for _ in range(count)]
        began = time.process_time()
        assert len(transcript_of(*chunks).messages[0].text) == 100 * count
        return time.process_time() - began

    seconds_for(100)
    assert seconds_for(40_000) < 40 * seconds_for(4_000)  # linear is 10, quadratic is 100


@pytest.mark.rule(91, 92)
def test_an_update_of_a_tool_call_changes_only_what_it_names() -> None:
    location = Location("/a", 3)
    transcript = transcript_of(
        ToolCallUpdate(
            is_new=True, tool_call_id="t", title="Edit", kind="edit", locations=[location], raw_input={"a": 1}
        ),
        ToolCallUpdate(tool_call_id="t", status="in_progress", content=[FileChange("/a", "1", "2")], name="edit_file"),
        ToolCallUpdate(tool_call_id="t", content=[TerminalPart("term")], meta={"k": 1}),
    )

    (call,) = transcript.tool_calls
    assert call == ToolCall(
        tool_call_id="t",
        title="Edit",
        kind="edit",
        status="in_progress",
        content=[TerminalPart("term")],
        locations=[location],
        raw_input={"a": 1},
        name="edit_file",
        meta={"k": 1},
    )
    assert call.terminals == ["term"]
    assert call.changes == []


def test_null_clears_what_a_value_had_set() -> None:
    transcript = transcript_of(
        ToolCallUpdate(tool_call_id="t", title="Edit", content=[ContentPart(TextContent("x"))]),
        ToolCallUpdate(tool_call_id="t", title=None, content=None),
        InfoUpdate(title="Title", updated_at="2026"),
        InfoUpdate(title=None),
    )

    assert transcript.tool_calls == [ToolCall(tool_call_id="t")]
    assert (transcript.title, transcript.updated_at) == (None, "2026")


@pytest.mark.fault("ORD-10", "ORD-11")
def test_a_finished_tool_call_stays_finished_and_one_never_announced_is_made() -> None:
    transcript = transcript_of(
        ToolCallUpdate(tool_call_id="t", status="completed"), ToolCallUpdate(tool_call_id="t", status="in_progress")
    )

    assert transcript.tool_calls[0].status == "completed"
    assert transcript.tool_call("t") == transcript.tool_calls[0]
    assert transcript.tool_call("unknown") is None


@pytest.mark.rule(96)
def test_a_plan_is_replaced_as_a_whole_and_plans_with_ids_are_kept_separately() -> None:
    transcript = transcript_of(
        PlanUpdate(entries=[PlanEntry("a"), PlanEntry("b")]),
        PlanUpdate(entries=[PlanEntry("c")], meta={"k": 1}),
        PlanUpdate(plan_id="p", markdown="# plan"),
        PlanUpdate(plan_id="q", uri="file:///plan"),
        PlanRemovedUpdate(plan_id="q"),
    )

    assert transcript.plan == Plan(entries=[PlanEntry("c")], meta={"k": 1})
    assert list(transcript.plans) == [None, "p"]
    assert transcript_of().plan is None


def test_a_mode_update_changes_the_mode_and_the_config_option() -> None:
    options = [Option("ask", "Ask"), Option("code", "Code")]
    setting = ConfigOption(setting_id="mode", name="Mode", category="mode", value="ask", options=options)
    other = ConfigOption(setting_id="x", name="X", kind="boolean", value=True)
    transcript = transcript_of(SettingsUpdate(settings=[setting, other]), ModeUpdate(mode_id="code"))

    assert [each.value for each in transcript.settings] == ["code", True]
    transcript.modes = Modes("ask", [Mode("ask", "Ask"), Mode("code", "Code")])
    transcript.apply(ModeUpdate(mode_id="code"))
    assert transcript.modes.current == "code"


def test_a_compaction_collects_its_summary_and_ends_once() -> None:
    transcript = transcript_of(
        CompactionUpdate(compaction_id="c", status="in_progress"),
        CompactionChunk(compaction_id="c", content=TextContent("so ")),
        CompactionChunk(compaction_id="c", content=TextContent("far")),
        CompactionUpdate(compaction_id="c", status="failed", error="full", meta={"k": 1}),
    )

    expected = Compaction(
        compaction_id="c", status="failed", summary=[TextContent("so far")], error="full", meta={"k": 1}
    )
    assert transcript.items == [expected]
    transcript.apply(CompactionUpdate(compaction_id="c", status="completed", summary=None, error=None))
    assert transcript.items == [Compaction(compaction_id="c", status="completed", meta={"k": 1})]


def test_messages_between_sessions_and_subagents_are_patched() -> None:
    transcript = transcript_of(
        SessionMessageUpdate(message_id="m", sender_session_id="a", content=[TextContent("x")]),
        SessionMessageChunk(message_id="m", content=TextContent("y")),
        SessionMessageUpdate(message_id="m", recipient_session_id="b", meta={"k": 1}),
        SubagentUpdate(session_id="s", title="Scout", can_cancel=True),
        SubagentUpdate(session_id="s", title=None, state={"state": "idle"}),
    )

    assert transcript.items == [
        SessionMessage(
            message_id="m",
            sender_session_id="a",
            recipient_session_id="b",
            content=[TextContent("xy")],
            meta={"k": 1},
        )
    ]
    assert transcript.subagents == {"s": Subagent(session_id="s", can_cancel=True, state={"state": "idle"})}
    assert transcript.subagents["s"].is_idle
    assert not Subagent(session_id="s").is_idle


def test_background_tasks_are_patched_and_the_last_state_counts() -> None:
    transcript = transcript_of(
        BackgroundTaskUpdate(task_id="t", is_new=True, title="npm test", can_stop=True),
        BackgroundTaskUpdate(task_id="t", summary="half", meta={"k": 1}),
    )

    task = BackgroundTask(task_id="t", title="npm test", can_stop=True, summary="half", meta={"k": 1})
    assert transcript.background_tasks == {"t": task}
    assert (transcript.items, task.is_over) == ([], False)
    for state in ("stopped", "completed"):
        transcript.apply(BackgroundTaskUpdate(task_id="t", state=state))
        assert (transcript.background_tasks["t"].state, transcript.background_tasks["t"].is_over) == (state, True)


def test_updates_of_the_session_itself_add_no_item() -> None:
    transcript = transcript_of(
        UsageUpdate(used=1, size=2, cost=0.5, currency="EUR"),
        CommandsUpdate(commands=[AvailableCommand("help", "Help")]),
        NoticeUpdate(severity="info", title="Hello"),
        UnrecognizedUpdate(tag="new", fields={"sessionUpdate": "new"}),
    )

    assert transcript.usage == Usage(used=1, size=2, cost=0.5, currency="EUR")
    assert transcript.commands == [AvailableCommand("help", "Help")]
    assert len(transcript) == 0


@pytest.mark.rule(158)
def test_a_refused_prompt_and_what_followed_it_are_marked() -> None:
    transcript = transcript_of(chunk_of("first", "user"), chunk_of("answer"))
    since = len(transcript)
    for update in (chunk_of("second", "user", "2"), ToolCallUpdate(tool_call_id="t"), chunk_of("no")):
        transcript.apply(update)
    transcript.mark_refused(since)

    assert [message.is_refused for message in transcript.messages] == [False, False, True, True]


def test_tool_calls_that_never_ended_are_closed_with_their_turn() -> None:
    transcript = transcript_of(
        ToolCallUpdate(tool_call_id="old"),
        ToolCallUpdate(tool_call_id="done", status="completed"),
        ToolCallUpdate(tool_call_id="open", status="in_progress"),
    )
    closed = transcript.close_tool_calls(1, "cancelled")

    assert [call.tool_call_id for call in closed] == ["open"]
    assert [call.status for call in transcript.tool_calls] == ["pending", "completed", "cancelled"]


def test_tool_calls_of_earlier_turns_that_a_turn_used_again_are_closed_with_it() -> None:
    transcript = transcript_of(
        ToolCallUpdate(tool_call_id="left alone"),
        ToolCallUpdate(tool_call_id="used again"),
        ToolCallUpdate(tool_call_id="own"),
    )
    closed = transcript.close_tool_calls(2, "failed", also=["used again", "own", "never reported"])

    assert [call.tool_call_id for call in closed] == ["used again", "own"]
    assert [call.status for call in transcript.tool_calls] == ["pending", "failed", "failed"]


def test_tool_calls_can_be_closed_with_the_status_they_had() -> None:
    transcript = Transcript()
    transcript.apply(ToolCallUpdate(tool_call_id="open", status="in_progress"))
    transcript.apply(ToolCallUpdate(tool_call_id="done", status="completed"))

    (closed,) = transcript.close_tool_calls(0, None)

    assert (closed.tool_call_id, closed.status, closed.is_unsettled, closed.is_over) == (
        "open",
        "in_progress",
        True,
        False,
    )
    late = transcript.apply(ToolCallUpdate(tool_call_id="open", status="completed"))
    assert isinstance(late, ToolCall)
    assert (late.status, late.is_unsettled) == ("completed", False)


REASON = ContentPart(TextContent("Available Decisions: Approved"))
PRINTED = ContentPart(TextContent("one"))
OLD, NEW, OTHER = FileChange("/a", "1", "2"), FileChange("/a", "1", "3"), FileChange("/b", "x", "y")


@pytest.mark.fault("WLD-05")
@pytest.mark.parametrize(
    ("before", "asked", "after", "shown"),
    [
        ([], [REASON], None, [REASON]),
        ([TerminalPart("t")], [REASON], None, [TerminalPart("t"), REASON]),  # replaced nothing
        ([OLD], [OLD], None, [OLD]),
        ([OLD], [NEW], None, [NEW]),
        ([], [OLD], [], [OLD]),  # gemini: an empty list after a change that was allowed
        ([], [OLD, REASON], [PRINTED], [PRINTED, OLD]),
        ([], [OLD, OTHER], [NEW], [NEW, OTHER]),
        ([], [], [PRINTED], [PRINTED]),
    ],
)
def test_content_of_a_permission_request_replaces_nothing_and_its_file_changes_stay(
    before: list[ToolContent], asked: list[ToolContent], after: list[ToolContent] | None, shown: list[ToolContent]
) -> None:
    transcript = Transcript()
    transcript.apply(ToolCallUpdate(tool_call_id="t", content=before))
    transcript.apply(ToolCallUpdate(tool_call_id="t", content=asked, is_question=True))
    if after is not None:
        transcript.apply(ToolCallUpdate(tool_call_id="t", content=after))

    call = transcript.tool_call("t")

    assert call is not None
    assert (call.content, call.permission_content) == (shown, asked)


def test_content_of_a_second_permission_request_replaces_that_of_the_first() -> None:
    transcript = Transcript()
    for content in ([OLD, REASON], [NEW]):
        call = transcript.apply(ToolCallUpdate(tool_call_id="t", content=[*content], is_question=True))

    assert isinstance(call, ToolCall)
    assert call.content == [NEW]


@pytest.mark.fault("WLD-04")
@pytest.mark.parametrize(
    ("content", "raw", "output"),
    [
        ([PRINTED, REASON], UNSET, "one"),
        ([PRINTED], {"output": "two"}, "one"),
        ([REASON], "two", "two"),
        ([], {"stdout": "a\n", "stderr": "b\n", "aggregated_output": "b\na\n", "exit_code": 3}, "b\na\n"),  # codex
        ([], {"exitCode": 0, "stdout": "a\n", "stderr": "b\n"}, "a\nb\n"),
        ([], {"output": "two", "metadata": {"truncated": False}}, "two"),
        ([], [{"type": "text", "text": "a"}, {"type": "image", "data": "x"}, {"type": "text", "text": "b"}], "a\nb"),
        ([], {"content": [{"type": "text", "text": "a"}], "isError": False}, "a"),
        ([], {"error": {"message": "no such file"}}, "no such file"),
        ([], {"exit_code": 3}, ""),
        ([], 3, ""),
        ([], [[[[[[["too deep"]]]]]]], ""),
        ([], UNSET, ""),
    ],
)
def test_the_output_of_a_call_is_its_text_or_that_of_its_raw_output(
    content: list[ToolContent], raw: object, output: str
) -> None:
    call = ToolCall(tool_call_id="t", content=content, permission_content=[REASON], raw_output=raw)

    assert call.output == output


def test_a_whole_message_replaces_content_and_later_chunks_append() -> None:
    transcript = transcript_of(
        chunk_of("draft", message_id="m"),
        MessageUpdate(role="agent", message_id="m", content=[TextContent("final")], meta={"a": 1, "b": 1}),
        chunk_of(" word", message_id="m"),
        MessageUpdate(role="agent", message_id="m", meta={"a": None}),
        MessageUpdate(role="user", message_id="m", content=[TextContent("other")]),
    )

    assert transcript.messages == [
        Message(role="agent", message_id="m", content=[TextContent("final word")], meta={"b": 1}),
        Message(role="user", message_id="m", content=[TextContent("other")]),
    ]
    assert transcript.message("user", "m") == transcript.messages[1]
    assert transcript.message("user", "n") is None


def test_a_message_that_is_cleared_stays_where_it_was() -> None:
    cleared = MessageUpdate(role="agent", message_id="m", content=None, meta=None)
    transcript = transcript_of(chunk_of("a", message_id="m"), chunk_of("b", message_id="n"), cleared)

    assert transcript.apply(cleared) == Message(role="agent", message_id="m", content=[])
    assert [message.text for message in transcript.messages] == ["", "b"]


def test_a_tool_content_chunk_is_appended() -> None:
    text, terminal = ContentPart(TextContent("x")), TerminalPart("t")
    transcript = transcript_of(
        ToolContentChunk(tool_call_id="c", content=[text]),
        ToolCallUpdate(tool_call_id="c", status="paused", can_cancel=True, meta={"a": 1, "b": 1}),
        ToolContentChunk(tool_call_id="c", content=[terminal]),
        ToolCallUpdate(tool_call_id="c", can_cancel=None, meta={"a": None}),
    )

    assert transcript.tool_calls == [
        ToolCall(tool_call_id="c", status="paused", content=[text, terminal], meta={"b": 1})
    ]
    assert not transcript.tool_calls[0].is_over


def test_a_terminal_is_patched_and_its_output_grows_until_it_is_replaced() -> None:
    size = TerminalSize(cols=80, rows=24)
    transcript = transcript_of(
        TerminalOutputChunk(terminal_id="t", data=b"one "),
        TerminalUpdate(terminal_id="t", command="make", size=size, can_cancel=True, meta={"a": 1, "b": 1}),
        TerminalOutputChunk(terminal_id="t", data=b"two\xff"),
    )
    running = Terminal(
        terminal_id="t", command="make", output=b"one two\xff", size=size, can_cancel=True, meta={"a": 1, "b": 1}
    )
    assert transcript.terminals == [running]
    assert running.text == "one two\ufffd"

    ended = TerminalUpdate(terminal_id="t", output=None, exit=TerminalExit(exit_code=1), can_cancel=None, size=None)
    expected = Terminal(terminal_id="t", command="make", exit=TerminalExit(exit_code=1), meta={"a": 1, "b": 1})
    assert transcript.apply(ended) == expected
    assert transcript.terminal("t") == expected
    assert transcript.terminal("unknown") is None
    assert len(transcript) == 0


def test_the_end_of_long_output_is_kept_from_a_character_boundary_on() -> None:
    terminal = TerminalBuffer("t", limit=5)
    terminal.append("aüü".encode())
    assert not terminal.terminal.is_truncated
    terminal.append(b"bc")
    assert (terminal.terminal.text, terminal.terminal.is_truncated) == ("übc", True)
    terminal.change(TerminalUpdate(terminal_id="t", output=b"\x80" * 9))
    assert (terminal.terminal.output, terminal.terminal.is_truncated) == (b"\x80" * 2, True)
    terminal.change(TerminalUpdate(terminal_id="t", output=b"ok"))
    assert (terminal.terminal.output, terminal.terminal.is_truncated) == (b"ok", False)
    nothing = TerminalBuffer("t", limit=0)
    nothing.append(b"\x80")
    assert nothing.terminal.output == b""


def test_ten_thousand_chunks_of_output_cost_linear_time() -> None:
    def seconds_for(count: int) -> float:
        chunks = [TerminalOutputChunk(terminal_id="t", data=b"x" * 200) for _ in range(count)]
        began = time.process_time()
        (terminal,) = transcript_of(*chunks).terminals
        assert len(terminal.output) == min(200 * count, TERMINAL_BYTES)
        return time.process_time() - began

    seconds_for(100)
    assert seconds_for(40_000) < 40 * seconds_for(4_000)  # linear is 10, quadratic is 100


def test_the_state_is_the_last_one_sent() -> None:
    transcript = transcript_of(StateUpdate(state="running"), StateUpdate(state="idle", stop_reason="end_turn"))

    assert transcript.state == StateUpdate(state="idle", stop_reason="end_turn")
    assert (len(transcript), transcript_of().state) == (0, None)


def test_a_cost_that_is_not_set_stays() -> None:
    known = UsageUpdate(used=1, size=9, cost=0.5, currency="EUR")

    assert transcript_of(known, UsageUpdate(used=2, size=9)).usage == Usage(used=2, size=9, cost=0.5, currency="EUR")
    assert transcript_of(known, UsageUpdate(used=2, size=9, cost=None)).usage == Usage(used=2, size=9)
    assert transcript_of(UsageUpdate(used=2, size=9)).usage == Usage(used=2, size=9)


def test_metadata_of_a_compaction_is_patched_or_replaced() -> None:
    def after(*changes: CompactionUpdate) -> object:
        (item,) = transcript_of(*changes).items
        return item.meta

    first = CompactionUpdate(compaction_id="c", status="in_progress", meta={"a": 1, "b": 1})
    patch = CompactionUpdate(compaction_id="c", status="completed", meta={"b": None, "c": 1})
    whole = CompactionUpdate(compaction_id="c", status="completed", meta={"c": 1}, replaces_meta=True)
    assert after(first, patch) == {"a": 1, "c": 1}
    assert after(first, whole) == {"c": 1}
