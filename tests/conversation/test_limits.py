"""A transcript is bounded in bytes: it drops and counts its oldest items, in linear time."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest

from duologue.conversation.content import Annotations, ImageContent, TextContent
from duologue.conversation.item_index import ItemIndex
from duologue.conversation.items import Compaction, Message, SessionMessage, ToolCall
from duologue.conversation.memory_size import memory_size
from duologue.conversation.transcript import MAX_TRANSCRIPT_BYTES, Transcript
from duologue.conversation.updates import (
    UNSET,
    AvailableCommand,
    BackgroundTaskUpdate,
    CommandsUpdate,
    CompactionChunk,
    CompactionUpdate,
    ContentPart,
    InfoUpdate,
    MessageChunk,
    MessageUpdate,
    PlanEntry,
    PlanUpdate,
    Role,
    SessionMessageChunk,
    SubagentUpdate,
    TerminalOutputChunk,
    ToolCallUpdate,
    ToolContentChunk,
    Update,
)

LIMIT = 1024 * 1024
KB = "x" * 1024


def chunk_of(text: str, message_id: str | None = None) -> MessageChunk:
    return MessageChunk(role="agent", content=TextContent(text), message_id=message_id)


def call(number: int, **fields: object) -> ToolCallUpdate:
    return ToolCallUpdate(tool_call_id=f"t{number}", **fields)  # type: ignore[arg-type]


def size_of(transcript: Transcript) -> int:
    parts = (
        transcript.items,
        transcript.terminals,
        transcript.plans,
        transcript.subagents,
        transcript.background_tasks,
    )
    return sum(map(memory_size, (*parts, transcript.commands))) + memory_size(transcript.title)


def flood(kind: str, number: int) -> Update:
    """Return one of thousands of updates of a kind, each with a kilobyte."""
    name = str(number)
    updates: dict[str, Update] = {
        "messages": chunk_of(KB, name),
        "one message": chunk_of(KB),
        "whole messages": MessageUpdate(role="agent", message_id=name, content=[TextContent(KB)]),
        "annotations": MessageChunk(
            role="agent", content=TextContent("", Annotations(audience=[KB[:1000] + name])), message_id=name
        ),
        "attached": MessageChunk(role="agent", content=TextContent(""), meta={name: KB[:1000] + name}),
        "images": MessageChunk(role="agent", content=ImageContent(data=KB + name, mime_type="image/png")),
        "inputs": call(number, raw_input={"a": [KB[:1000] + name]}),
        "nested inputs": call(number, raw_input=msgspec.json.decode(b"[" + b"[0,[],{}]," * 10 + b"0]")),
        "one call": call(0, raw_output=KB[:1000] + name, meta={name: KB[:1000] + name}),
        "content of one call": ToolContentChunk(tool_call_id="t", content=[ContentPart(TextContent(KB))]),
        "terminals": TerminalOutputChunk(terminal_id=name, data=KB.encode()),
        "plans": PlanUpdate(plan_id=name, entries=[PlanEntry(content=KB)]),
        "subagents": SubagentUpdate(session_id=name, title=KB[:1000] + name),
        "background tasks": BackgroundTaskUpdate(task_id=name, summary=KB[:1000] + name),
        "one compaction": CompactionChunk(compaction_id="c", content=TextContent(KB)),
        "compactions": CompactionUpdate(compaction_id=name, status="completed", summary=[TextContent(KB)]),
        "messages between sessions": SessionMessageChunk(message_id=name, content=TextContent(KB)),
        "one between sessions": SessionMessageChunk(message_id="m", content=TextContent(KB)),
    }
    return updates[kind]


KINDS = [
    *("messages", "one message", "whole messages", "annotations", "attached", "images", "inputs", "nested inputs"),
    *("one call", "content of one call", "terminals", "plans", "subagents", "one compaction", "compactions"),
    "background tasks",
    *("messages between sessions", "one between sessions"),
]


@pytest.mark.fault("PRC-23")
@pytest.mark.parametrize("kind", KINDS)
def test_a_transcript_never_takes_more_than_its_limit(kind: str) -> None:
    transcript = Transcript(LIMIT)
    for number in range(3000):
        transcript.apply(flood(kind, number))
        if number % 250 == 0:
            assert size_of(transcript) < 1.25 * LIMIT
    assert size_of(transcript) < 1.25 * LIMIT


TINY: dict[str, Callable[[str], Update]] = {
    "messages": lambda name: chunk_of("x", name),
    "whole messages": lambda name: MessageUpdate(role="agent", message_id=name, content=[TextContent("x")]),
    "tool calls": lambda name: ToolCallUpdate(tool_call_id=name),
    "compactions": lambda name: CompactionUpdate(compaction_id=name, status="completed"),
}


@pytest.mark.fault("PRC-23")
@pytest.mark.parametrize("kind", TINY)
def test_items_with_little_content_stay_within_the_limit_too(kind: str) -> None:
    tracemalloc.start()
    transcript = Transcript(LIMIT)
    for number in range(5000):
        transcript.apply(TINY[kind](f"{number:08}"))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert transcript.dropped > 0
    assert taken < 1.25 * LIMIT  # tables grow in steps


@pytest.mark.fault("PRC-23")
def test_the_oldest_items_are_dropped_and_counted() -> None:
    transcript = Transcript(LIMIT)
    for number in range(2000):
        transcript.apply(chunk_of(f"{number} {KB}", str(number)))

    numbers = [int(message.text.split()[0]) for message in transcript.messages]
    assert 400 < len(numbers) < 1000
    assert numbers == list(range(2000 - len(numbers), 2000))
    assert transcript.dropped == 2000 - len(numbers)
    assert (len(transcript), transcript.position) == (len(numbers), 2000)
    assert not any(message.is_truncated for message in transcript.messages)


def test_a_message_that_is_too_long_keeps_its_end_and_is_marked_truncated() -> None:
    transcript = Transcript(LIMIT)
    transcript.apply(chunk_of("the question", "first"))
    for number in range(5000):
        transcript.apply(chunk_of(f"{number:08}"))
    assert not transcript.messages[-1].is_truncated  # small pieces take much room, until they are put together
    for number in range(5000, 200_000):
        transcript.apply(chunk_of(f"{number:08}"))

    [message] = transcript.items
    assert isinstance(message, Message)
    assert message.is_truncated
    assert transcript.dropped == 1
    assert message.text.endswith("0019999800199999")
    assert LIMIT // 4 < len(message.text) < LIMIT


def test_a_tool_call_that_is_too_large_keeps_the_fields_that_rules_evaluate() -> None:
    transcript = Transcript(LIMIT)
    transcript.apply(call(0, title="Run", kind="execute", status="in_progress", raw_input={"command": "make"}))
    for _ in range(3000):
        transcript.apply(ToolContentChunk(tool_call_id="t0", content=[ContentPart(TextContent(KB))]))

    found = transcript.tool_call("t0")
    assert found is not None
    assert (found.title, found.kind, found.status) == ("Run", "execute", "in_progress")
    assert found.raw_input == {"command": "make"}
    assert found.is_truncated
    assert 0 < len(found.content) < 1100


def test_a_dropped_item_is_unknown_and_may_be_added_again() -> None:
    transcript = Transcript(LIMIT)
    transcript.apply(call(0, title="Read", status="in_progress"))
    for number in range(1, 3000):
        transcript.apply(call(number, raw_input=KB[:1000] + str(number)))
    assert transcript.tool_call("t0") is None

    transcript.apply(call(0, status="completed"))
    again = transcript.items[-1]
    assert isinstance(again, ToolCall)
    assert (again.tool_call_id, again.status, again.title) == ("t0", "completed", "")


def test_items_of_a_turn_are_found_although_earlier_items_were_dropped() -> None:
    transcript = Transcript(LIMIT)
    for number in range(2000):
        transcript.apply(chunk_of(KB, str(number)))
    since = transcript.position
    transcript.apply(call(7, status="in_progress"))
    transcript.apply(chunk_of("no", "last"))
    transcript.mark_refused(since)

    assert [ended.tool_call_id for ended in transcript.close_tool_calls(since, "failed")] == ["t7"]
    assert [message.is_refused for message in transcript.messages[-2:]] == [False, True]
    transcript.mark_refused(0)
    assert all(message.is_refused for message in transcript.messages)


def test_a_session_update_that_takes_too_much_memory_is_ignored() -> None:
    transcript = Transcript(LIMIT)
    transcript.apply(InfoUpdate(title="short"))
    transcript.apply(InfoUpdate(title="x" * LIMIT))
    transcript.apply(CommandsUpdate(commands=[AvailableCommand("c", KB)] * 10_000))

    assert transcript.title == "short"
    assert transcript.commands == []
    assert transcript.dropped == 2


def test_a_transcript_may_have_no_limit() -> None:
    transcript = Transcript(max_bytes=None)
    for number in range(2000):
        transcript.apply(chunk_of(KB, str(number)))
    assert len(transcript) == 2000
    assert transcript.dropped == 0
    assert MAX_TRANSCRIPT_BYTES == 16 * 1024 * 1024


def test_small_chunks_are_joined_before_anything_is_dropped() -> None:
    transcript = Transcript(LIMIT)
    for _ in range(100_000):
        transcript.apply(chunk_of("ab"))

    [message] = transcript.messages
    assert message.text == "ab" * 100_000
    assert (transcript.dropped, message.is_truncated) == (0, False)


@pytest.mark.parametrize("item", ["[]", "1.5", '{"k":12345}', '"ééééééééé"', "[[0.5],[]]"])
def test_the_memory_size_is_close_to_what_a_value_takes(item: str) -> None:
    text = "[" + ",".join([item] * 1000) + "]"
    tracemalloc.start()
    decoded = msgspec.json.decode(text)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < memory_size(decoded) / taken < 2


def test_unset_fields_take_almost_no_memory() -> None:
    assert memory_size(UNSET) <= sys.getsizeof(UNSET)
    assert memory_size(ToolCallUpdate(tool_call_id="t")) < 1500


def test_the_summary_of_a_compaction_that_is_too_long_by_itself_loses_its_beginning() -> None:
    transcript = Transcript(LIMIT)
    for number in range(2048):
        transcript.apply(CompactionChunk(compaction_id="c", content=TextContent(f"{number}:{KB}")))

    (compaction,) = [item for item in transcript.items if isinstance(item, Compaction)]
    assert compaction.is_truncated
    assert size_of(transcript) <= LIMIT


def test_a_session_message_that_is_too_long_by_itself_loses_its_beginning() -> None:
    transcript = Transcript(LIMIT)
    for number in range(2048):
        transcript.apply(SessionMessageChunk(message_id="m", content=TextContent(f"{number}:{KB}")))

    (message,) = [item for item in transcript.items if isinstance(item, SessionMessage)]
    assert message.is_truncated
    assert size_of(transcript) <= LIMIT


def test_items_without_an_id_are_dropped_like_the_others() -> None:
    transcript = Transcript(LIMIT)
    for number in range(4096):
        role: Role = "agent" if number % 2 else "thought"
        transcript.apply(MessageChunk(role=role, content=TextContent(KB)))

    assert transcript.dropped > 2000
    assert size_of(transcript) <= LIMIT


def test_cutting_an_empty_index_does_nothing() -> None:
    entries = ItemIndex()
    entries.cut_last(0)

    assert entries.sizes() == []
