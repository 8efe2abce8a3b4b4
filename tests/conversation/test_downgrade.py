"""A session told in plainer words is the same session, as far as those words reach."""

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

PICTURE = ImageContent("aGk=", "image/png")
blocks: st.SearchStrategy[Content] = st.one_of(
    st.sampled_from(["a", "ab", "abc"]).map(TextContent), st.just(PICTURE), st.just(TextContent("n", Annotations()))
)


def whole(*content: Content) -> MessageUpdate:
    return MessageUpdate(role="agent", message_id="m", content=list(content))


def told(*updates: Update) -> list[Update]:
    """What the last of these becomes, when those before it were told."""
    plainer = V1Downgrader()
    *_, last = [plainer.convert(update) for update in updates]
    return last


def said(content: Content, message_id: str = "m") -> MessageChunk:
    return MessageChunk(role="agent", content=content, message_id=message_id)


def test_a_message_heard_of_for_the_first_time_is_told_block_by_block() -> None:
    change = whole(TextContent("a"), PICTURE)

    assert told(change) == [said(TextContent("a")), said(PICTURE)] == chunks_of(change)


def test_of_a_message_that_goes_on_only_what_is_new_is_told() -> None:
    before = whole(PICTURE, TextContent("a"))

    after = whole(PICTURE, TextContent("ab"), PICTURE)
    assert told(before, after) == [said(TextContent("b")), said(PICTURE)]
    assert told(before, said(TextContent("b")), after) == [said(PICTURE)]
    assert told(before, before) == []


def test_a_message_that_says_something_else_is_another_one_and_goes_on_as_that() -> None:
    before, after = whole(TextContent("a")), whole(TextContent("b"))

    assert told(before, after) == [said(TextContent("b"), "m~")]
    assert told(before, after, said(PICTURE)) == [said(PICTURE, "m~")]
    assert told(before, after, before) == [said(TextContent("a"), "m~~")]
    assert told(whole(PICTURE, PICTURE), whole(TextContent("x"), PICTURE))[0] == said(TextContent("x"), "m~")


def test_what_was_said_cannot_be_taken_back() -> None:
    before = whole(TextContent("a"))
    cleared = MessageUpdate(role="agent", message_id="m", content=None)

    assert told(before, cleared) == []
    assert told(before, cleared, said(PICTURE)) == [said(PICTURE, "m~")]
    assert told(before, MessageUpdate(role="agent", message_id="m", meta={"k": 1})) == []


@given(st.lists(st.lists(blocks, max_size=3), max_size=5))
def test_who_hears_it_plainly_has_the_last_word_too(contents: list[list[Content]]) -> None:
    plainer, meant = V1Downgrader(), Transcript()
    for content in contents:
        plainer.convert(whole(*content))
        meant.apply(whole(*content))

    last = meant.message("agent", "m")
    assert last is None or not last.content or last.content in [each.content for each in plainer.sent.messages]


def test_a_tool_call_begins_once_and_shows_all_it_shows() -> None:
    plainer = V1Downgrader()
    text = ContentPart(TextContent("a"))
    changes: list[Update] = [
        ToolContentChunk(tool_call_id="t", content=[text]),
        ToolContentChunk(tool_call_id="t", content=[TerminalPart("x")]),
        ToolCallUpdate(tool_call_id="t", title="Run"),
        ToolCallUpdate(tool_call_id="u", title="Read"),
    ]

    assert [update for each in changes for update in plainer.convert(each)] == [
        ToolCallUpdate(tool_call_id="t", content=[text], is_new=True),
        ToolCallUpdate(tool_call_id="t", content=[text, TerminalPart("x")]),
        ToolCallUpdate(tool_call_id="t", title="Run"),
        ToolCallUpdate(tool_call_id="u", title="Read", is_new=True),
    ]


def test_states_and_terminals_are_not_told_and_the_rest_is_as_it_was() -> None:
    plainer = V1Downgrader()
    chunk = MessageChunk(role="user", content=TextContent("a"))

    assert plainer.convert(StateUpdate(state="idle")) == []
    assert plainer.convert(TerminalUpdate(terminal_id="t")) == []
    assert plainer.convert(TerminalOutputChunk(terminal_id="t", data=b"x")) == []
    assert plainer.convert(chunk) == [chunk]
