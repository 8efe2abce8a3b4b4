"""Every kind of update, with all its fields, is replayed unchanged."""

from __future__ import annotations

from typing import get_args

import pytest

from duologue.conversation.content import (
    Annotations,
    AudioContent,
    Content,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from duologue.conversation.settings import ConfigOption, Option, OptionGroup
from duologue.conversation.updates import (
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
    SessionMessageChunk,
    SessionMessageUpdate,
    SettingsUpdate,
    StateUpdate,
    SubagentUpdate,
    TerminalOutputChunk,
    TerminalPart,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContentChunk,
    UnknownPart,
    UnrecognizedUpdate,
    Update,
    UsageUpdate,
)
from duologue.conversation.work_state import TerminalExit, TerminalSize
from duologue.store.base import Store
from tests.store.messages import info, replayed

META = {"key": [1, None, 2**60, 0.5, {"deep": True}]}
ANNOTATIONS = Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01T00:00:00Z", meta=META)
CONTENTS: list[Content] = [
    TextContent("text ü€🦊\0", ANNOTATIONS, META),
    ImageContent("aGk=", "image/png", "file:///a.png", ANNOTATIONS, META),
    AudioContent("aGk=", "audio/wav", ANNOTATIONS, META),
    ResourceLink("file:///a", "a", "A", "an a", "text/plain", 3, ANNOTATIONS, META),
    Resource("file:///a", text="a", mime_type="text/plain", annotations=ANNOTATIONS, resource_meta=META, meta=META),
    Resource("file:///b", blob="aGk="),
    UnknownContent({"type": "hologram", "rays": [1]}),
]
TOOL_CALL = ToolCallUpdate(
    tool_call_id="t",
    title="Edit",
    kind="edit",
    status="completed",
    content=[
        *(ContentPart(content, META) for content in CONTENTS),
        FileChange("/a", "old", "new", "move", "/b", "file", "text/plain", "@@", META),
        TerminalPart("term_1", META),
        UnknownPart({"part": "dance"}),
    ],
    locations=[Location("/a", 3, META)],
    raw_input={"a": 1},
    raw_output=[1, "two", None],
    name="edit_file",
    is_new=True,
    meta=META,
)
SETTINGS = [
    ConfigOption(
        setting_id="m", name="Mode", value="ask", options=[Option("ask", "Ask", "asks", META)], category="mode"
    ),
    ConfigOption(
        setting_id="g", name="G", groups=[OptionGroup("x", "X", [Option("a", "A")], META)], description="d", meta=META
    ),
    ConfigOption(setting_id="b", name="B", kind="boolean", value=True),
    ConfigOption(setting_id="o", name="O", kind="dial", other={"angle": 90}),
]
UPDATES: list[Update] = [
    *(MessageChunk(role="user", content=content, message_id="m", meta=META) for content in CONTENTS),
    TOOL_CALL,
    PlanUpdate(plan_id="p", entries=[PlanEntry("a", "completed", "high", META)], meta=META),
    PlanUpdate(plan_id="q", uri="file:///plan.md", markdown="# Plan", other={"type": "tree"}),
    CommandsUpdate(commands=[AvailableCommand("clear", "Forget", "what", META)], meta=META),
    ModeUpdate(mode_id="ask", meta=META),
    SettingsUpdate(settings=SETTINGS, meta=META),
    InfoUpdate(title="Title", updated_at="2026-01-01T00:00:00Z", meta=META),
    UsageUpdate(used=1, size=2, cost=0.5, currency="EUR", meta=META),
    CompactionUpdate(compaction_id="c", status="completed", summary=CONTENTS, meta=META),
    CompactionUpdate(compaction_id="d", status="failed", error="too long"),
    SubagentUpdate(
        session_id="sub",
        title="Sub",
        description="d",
        state={"type": "running"},
        can_cancel=True,
        cwd="/",
        additional_directories=["/a"],
        meta=META,
    ),
    SessionMessageUpdate(
        message_id="sm",
        sender_session_id="a",
        recipient_session_id="b",
        sender_message_id="c",
        recipient_message_id="d",
        content=CONTENTS,
        meta=META,
    ),
    MessageUpdate(role="agent", message_id="whole", content=CONTENTS, meta=META),
    TerminalUpdate(
        terminal_id="term",
        command="make",
        cwd="/",
        output=b"\xff\n",
        exit=TerminalExit(exit_code=1, meta=META),
        size=TerminalSize(cols=80, rows=24),
        can_cancel=True,
        meta=META,
    ),
    UnrecognizedUpdate(tag="new", fields={"a": [1]}, meta=META),
]
SHOWN_OTHERWISE = {
    BackgroundTaskUpdate,
    NoticeUpdate,
    PlanRemovedUpdate,
    CompactionChunk,
    SessionMessageChunk,
    StateUpdate,
    TerminalOutputChunk,
    ToolContentChunk,
}


def test_no_kind_of_update_is_forgotten_here() -> None:
    assert {type(update) for update in UPDATES} | SHOWN_OTHERWISE == {*get_args(Update)}


async def test_every_update_is_replayed_unchanged(store: Store) -> None:
    async with await store.create(info("s")) as log:
        for update in UPDATES:
            log.append(update)

    assert await replayed(store, "s") == UPDATES


@pytest.mark.rule(57)
async def test_a_prompt_of_every_kind_of_content_is_replayed_unchanged(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.begin_turn(CONTENTS, message_id="m")
        await log.end_turn("end_turn")

    assert await replayed(store, "s") == [
        MessageChunk(role="user", content=content, message_id="m") for content in CONTENTS
    ]


async def test_chunks_of_tool_content_and_output_are_replayed_merged_and_states_are_not_replayed(store: Store) -> None:
    shown = ContentPart(TextContent("a"))
    async with await store.create(info("s")) as log:
        for update in (
            StateUpdate(state="running"),
            ToolContentChunk(tool_call_id="t", content=[shown]),
            TerminalOutputChunk(terminal_id="x", data=b"one "),
            ToolCallUpdate(tool_call_id="t", title="Run", meta={"a": 1, "b": 1}),
            ToolContentChunk(tool_call_id="t", content=[TerminalPart("x")]),
            TerminalUpdate(terminal_id="x", command="make", meta={"a": 1}),
            TerminalOutputChunk(terminal_id="x", data=b"two"),
            ToolCallUpdate(tool_call_id="t", meta={"b": None, "c": 1}),
        ):
            log.append(update)

    assert await replayed(store, "s") == [
        ToolCallUpdate(tool_call_id="t", title="Run", content=[shown, TerminalPart("x")], meta={"a": 1, "c": 1}),
        TerminalUpdate(terminal_id="x", command="make", output=b"one two", meta={"a": 1}),
    ]


async def test_a_cost_that_later_updates_leave_out_is_kept_in_a_replay(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.append(UsageUpdate(used=1, size=2, cost=0.5, currency="EUR"))
        log.append(UsageUpdate(used=2, size=2))

    assert await replayed(store, "s") == [UsageUpdate(used=2, size=2, cost=0.5, currency="EUR")]
