"""Chunks without an id get one, and form the same messages as a transcript would build without ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.conversation.content import TextContent
from duologue.conversation.message_ids import MessageIds
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import (
    CompactionChunk,
    InfoUpdate,
    MessageChunk,
    MessageUpdate,
    SessionMessageChunk,
    TerminalOutputChunk,
    ToolCallUpdate,
    ToolContentChunk,
    Update,
)

TEXT = TextContent("x")
names = st.sampled_from(["a", "b"])
roles = st.sampled_from(["agent", "user", "thought"])
updates = st.one_of(
    st.builds(MessageChunk, role=roles, content=st.just(TEXT), message_id=st.none()),
    st.builds(MessageChunk, role=roles, content=st.just(TEXT), message_id=names),
    st.builds(MessageUpdate, role=roles, message_id=names, content=st.just([TEXT])),
    st.builds(ToolCallUpdate, tool_call_id=names),
    st.builds(ToolContentChunk, tool_call_id=names, content=st.just([])),
    st.builds(CompactionChunk, compaction_id=names, content=st.just(TEXT)),
    st.builds(SessionMessageChunk, message_id=names, content=st.just(TEXT)),
    st.builds(TerminalOutputChunk, terminal_id=names, data=st.just(b"x")),
    st.builds(InfoUpdate, title=names),
)


@given(st.lists(updates, max_size=20))
def test_the_same_chunks_are_one_message_with_ids_and_without(sent: list[Update]) -> None:
    ids, plain, named = MessageIds("id"), Transcript(), Transcript()
    for update in sent:
        plain.apply(update)
        named.apply(ids.fill(update))

    assert [(each.role, each.content) for each in named.messages] == [
        (each.role, each.content) for each in plain.messages
    ]
    assert all(each.message_id is not None for each in named.messages)
    assert [type(item) for item in named.items] == [type(item) for item in plain.items]


@pytest.mark.parametrize(
    "update",
    [
        MessageChunk(role="agent", content=TEXT, message_id="m"),
        MessageUpdate(role="agent", message_id="m"),
        ToolCallUpdate(tool_call_id="t"),
        CompactionChunk(compaction_id="c", content=TEXT),
        SessionMessageChunk(message_id="m", content=TEXT),
        InfoUpdate(title="t"),
    ],
    ids=lambda update: type(update).__name__,
)
def test_updates_that_need_no_id_are_unchanged(update: Update) -> None:
    assert MessageIds().fill(update) is update


def test_new_ids_are_unique_across_updates_and_openings() -> None:
    ids = MessageIds("p")
    ids.fill(MessageChunk(role="user", content=TEXT, message_id="p-1"))

    assert ids.new("user") == "p-2"
    assert ids.new("agent") == "p-3"
    assert MessageIds().new("user") != MessageIds().new("user")


def test_a_chunk_without_an_id_does_not_continue_a_message_made_by_new() -> None:
    ids = MessageIds("p")
    first = ids.fill(MessageChunk(role="user", content=TEXT))
    prompt = ids.new("user")
    second = ids.fill(MessageChunk(role="user", content=TEXT))

    assert isinstance(first, MessageChunk)
    assert isinstance(second, MessageChunk)
    assert len({first.message_id, prompt, second.message_id}) == 3
