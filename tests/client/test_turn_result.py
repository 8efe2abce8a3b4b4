"""Limits of a turn's result: the end of its text and its last tool calls are kept."""

from __future__ import annotations

import pytest

from duologue.client.turn_result import TurnResult
from duologue.conversation.updates import PlanEntry
from duologue.events import Message, Plan, Text, Thought, ToolCall

LIMIT = 100_000


def test_a_turn_of_usual_size_is_gathered_whole() -> None:
    gathered = TurnResult(LIMIT)
    plan = Plan(entries=[PlanEntry(content="one")])
    call = ToolCall(tool_call_id="t", title="Read")
    for event in (Text(text="a", message_id="1"), Text(text="b", message_id="2"), Thought(text="no"), plan, call):
        gathered.record(event)
    gathered.record(Text(text="c", message_id="1"))
    gathered.record(Message(role="agent", content=[], message_id="2"))

    assert gathered.text == "ac"
    assert gathered.tool_calls == [call]
    assert gathered.plan is plan
    assert not gathered.is_truncated


@pytest.mark.fault("PRC-23")
@pytest.mark.parametrize("has_ids", [False, True])
def test_of_an_endless_answer_the_end_is_kept(has_ids: bool) -> None:
    gathered = TurnResult(LIMIT)
    for number in range(20_000):
        gathered.record(Text(text=f"{number:09} ", message_id=str(number // 100) if has_ids else None))
        assert len(gathered.text) <= LIMIT if number % 1000 == 0 else True

    assert gathered.is_truncated
    assert gathered.text.endswith("000019998 000019999 ")
    assert LIMIT // 4 < len(gathered.text) <= LIMIT


@pytest.mark.fault("PRC-23")
def test_of_endless_tool_calls_the_last_are_kept() -> None:
    gathered = TurnResult(LIMIT)
    for number in range(2000):
        gathered.record(ToolCall(tool_call_id=str(number), raw_input="x" * 1000 + str(number)))

    remaining = [call.tool_call_id for call in gathered.tool_calls]
    assert gathered.is_truncated
    assert 10 < len(remaining) < 100
    assert remaining == [str(number) for number in range(2000 - len(remaining), 2000)]


def test_small_chunks_are_joined_before_anything_is_dropped() -> None:
    gathered = TurnResult(LIMIT)
    for _ in range(10_000):
        gathered.record(Text(text="ab"))
    assert gathered.text == "ab" * 10_000
    assert not gathered.is_truncated
