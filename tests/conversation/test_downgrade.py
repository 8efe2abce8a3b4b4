"""Updates converted for version 1 describe the same session, as far as version 1 can."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duologue.conversation.content import Annotations, Content, ImageContent, TextContent
from duologue.conversation.downgrade import V1Downgrader, chunks_of
from duologue.conversation.transcript import Transcript
from duologue.conversation.updates import (
    ContentPart,
    MessageChunk,
    MessageUpdate,
    StateUpdate,
    TerminalOutputChunk,
    TerminalPart,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContentChunk,
    Update,
)

IMAGE = ImageContent("aGk=", "image/png")
blocks: st.SearchStrategy[Content] = st.one_of(
    st.sampled_from(["a", "ab", "abc"]).map(TextContent), st.just(IMAGE), st.just(TextContent("n", Annotations()))
)


def whole(*content: Content) -> MessageUpdate:
    return MessageUpdate(role="agent", message_id="m", content=list(content))


def converted(*updates: Update) -> list[Update]:
    """Return what the last of these updates is converted to, after those before it."""
    downgrader = V1Downgrader()
    *_, last = [downgrader.convert(update) for update in updates]
    return last


def chunk_of(content: Content, message_id: str = "m") -> MessageChunk:
    return MessageChunk(role="agent", content=content, message_id=message_id)


def test_a_new_message_is_sent_block_by_block() -> None:
    change = whole(TextContent("a"), IMAGE)

    assert converted(change) == [chunk_of(TextContent("a")), chunk_of(IMAGE)] == chunks_of(change)


def test_of_a_message_that_grows_only_the_new_part_is_sent() -> None:
    before = whole(IMAGE, TextContent("a"))

    after = whole(IMAGE, TextContent("ab"), IMAGE)
    assert converted(before, after) == [chunk_of(TextContent("b")), chunk_of(IMAGE)]
    assert converted(before, chunk_of(TextContent("b")), after) == [chunk_of(IMAGE)]
    assert converted(before, before) == []


def test_a_message_with_other_content_is_sent_as_another_message_and_continued() -> None:
    before, after = whole(TextContent("a")), whole(TextContent("b"))

    assert converted(before, after) == [chunk_of(TextContent("b"), "m~")]
    assert converted(before, after, chunk_of(IMAGE)) == [chunk_of(IMAGE, "m~")]
    assert converted(before, after, before) == [chunk_of(TextContent("a"), "m~~")]
    assert converted(whole(IMAGE, IMAGE), whole(TextContent("x"), IMAGE))[0] == chunk_of(TextContent("x"), "m~")


def test_a_message_that_was_cleared_stays_as_sent() -> None:
    before = whole(TextContent("a"))
    cleared = MessageUpdate(role="agent", message_id="m", content=None)

    assert converted(before, cleared) == []
    assert converted(before, cleared, chunk_of(IMAGE)) == [chunk_of(IMAGE, "m~")]
    assert converted(before, MessageUpdate(role="agent", message_id="m", meta={"k": 1})) == []


@given(st.lists(st.lists(blocks, max_size=3), max_size=5))
def test_a_version_1_client_gets_the_final_content_too(contents: list[list[Content]]) -> None:
    downgrader, meant = V1Downgrader(), Transcript()
    for content in contents:
        downgrader.convert(whole(*content))
        meant.apply(whole(*content))

    last = meant.message("agent", "m")
    assert last is None or not last.content or last.content in [each.content for each in downgrader.sent.messages]


def test_a_tool_call_is_new_once_and_is_sent_with_all_its_content() -> None:
    downgrader = V1Downgrader()
    text = ContentPart(TextContent("a"))
    changes: list[Update] = [
        ToolContentChunk(tool_call_id="t", content=[text]),
        ToolContentChunk(tool_call_id="t", content=[TerminalPart("x")]),
        ToolCallUpdate(tool_call_id="t", title="Run"),
        ToolCallUpdate(tool_call_id="u", title="Read"),
    ]

    assert [update for each in changes for update in downgrader.convert(each)] == [
        ToolCallUpdate(tool_call_id="t", content=[text], is_new=True),
        ToolCallUpdate(tool_call_id="t", content=[text, TerminalPart("x")]),
        ToolCallUpdate(tool_call_id="t", title="Run"),
        ToolCallUpdate(tool_call_id="u", title="Read", is_new=True),
    ]


def test_states_and_terminals_are_not_sent_and_other_updates_are_unchanged() -> None:
    downgrader = V1Downgrader()
    chunk = MessageChunk(role="user", content=TextContent("a"))

    assert downgrader.convert(StateUpdate(state="idle")) == []
    assert downgrader.convert(TerminalUpdate(terminal_id="t")) == []
    assert downgrader.convert(TerminalOutputChunk(terminal_id="t", data=b"x")) == []
    assert downgrader.convert(chunk) == [chunk]
