"""The updates of a turn, field by field: tool calls, messages, plans, usage and compaction."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.session import Session
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.content import ImageContent, ResourceLink, TextContent
from duologue.conversation.updates import (
    ContentPart,
    FileChange,
    InfoUpdate,
    Location,
    MessageChunk,
    PlanEntry,
    TerminalPart,
    UnrecognizedUpdate,
)
from duologue.conversation.work_state import TOOL_KINDS, ToolKind
from duologue.errors import InternalError
from duologue.schema import v1
from tests.agent.wire_client import EVERYTHING, RecordingClient, agent_with, client_for


async def after_turn(tmp_path: Path, handler: Any, **capabilities: Any) -> RecordingClient:
    """Return a client after one turn with this handler."""
    agent = agent_with(handler, unstable={"plan", "subagents"})
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True, **capabilities) as client:
        assert (await client.prompt(await client.new(), "go")).stop_reason == "end_turn"
    return client


@pytest.mark.rule(94)
async def test_pieces_of_one_message_share_an_id_and_another_message_has_another(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.think("a")
        await turn.think("b")
        await turn.say("c")
        await turn.say(ImageContent("aGk=", "image/png"))
        async with turn.tool("Between"):
            pass
        await turn.say("d")
        await turn.send_user_message("e")
        await turn.say("f", message_id="mine")
        await turn.say("g", message_id="mine")

    client = await after_turn(tmp_path, answer)
    chunks = [each for each in client.updates if not isinstance(each, v1.ToolCall | v1.ToolCallUpdate)]
    ids = [chunk.message_id for chunk in chunks]
    assert ids[0] == ids[1]
    assert ids[2] == ids[3]
    assert ids[6] == ids[7] == "mine"
    assert len(set(ids)) == 5


@pytest.mark.rule(45, 88, 89, 90)
@pytest.mark.parametrize("kind", TOOL_KINDS)
async def test_a_tool_call_can_say_everything_a_tool_call_can_say(tmp_path: Path, kind: ToolKind) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool(
            "Work", kind, name="work", locations=["a.txt", Location("b.txt", 7)], raw_input=[1, None], meta={"m": 1}
        ) as work:
            await work.show("text", ResourceLink("file:///l", "l"), FileChange("c.txt", "old", "new"))
            await work.show(TerminalPart("t"), ContentPart(TextContent("x"), meta={"p": 1}))
            await work.diff("gone.txt", "old", None)
            await work.add_location(tmp_path / "d.txt", 3)
            await work.update(title="Done", kind="other", raw_input="in", raw_output={"out": 1}, meta={"n": 2})
            await work.show("afresh", replace=True)
        async with turn.tool("Again", kind):
            pass

    client = await after_turn(tmp_path, answer)
    first, second = client.of(v1.ToolCall)
    assert first.tool_call_id != second.tool_call_id
    assert (first.title, first.kind, first.status, first.name) == ("Work", kind, "pending", "work")
    assert (first.raw_input, first.meta) == ([1, None], {"m": 1})
    assert first.locations == [
        v1.ToolCallLocation(path=str(tmp_path / "a.txt")),
        v1.ToolCallLocation(path=str(tmp_path / "b.txt"), line=7),
    ]
    changes = [each for each in client.of(v1.ToolCallUpdate) if each.tool_call_id == first.tool_call_id]
    assert [len(change.content) for change in changes if change.content is not None] == [3, 5, 6, 1]
    everything = next(change.content for change in changes if change.content is not None and len(change.content) == 6)
    assert everything == [
        v1.Content(content=v1.TextContent(text="text")),
        v1.Content(content=v1.ResourceLink(name="l", uri="file:///l")),
        v1.Diff(path=str(tmp_path / "c.txt"), old_text="old", new_text="new"),
        v1.Terminal(terminal_id="t"),
        v1.Content(content=v1.TextContent(text="x"), meta={"p": 1}),
        v1.Diff(path=str(tmp_path / "gone.txt"), old_text="old", new_text=""),
    ]
    assert [change.status for change in changes if change.status is not None] == ["in_progress", "completed"]
    locations = next(change.locations for change in changes if change.locations is not None)
    assert [location.path for location in locations if not os.path.isabs(location.path)] == []
    assert [location.line for location in locations] == [None, 7, 3]
    renamed = next(change for change in changes if change.title is not None)
    assert (renamed.title, renamed.kind, renamed.raw_input, renamed.raw_output) == ("Done", "other", "in", {"out": 1})
    assert renamed.meta == {"n": 2}


async def test_failing_a_tool_call_on_purpose_does_not_fail_the_turn(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        async with turn.tool("Try") as attempt:
            await attempt.show("so far")
            await attempt.fail("no luck")
        await turn.say("on we go")

    client = await after_turn(tmp_path, answer)
    assert client.statuses == ["pending", "in_progress", "failed"]
    assert [part.content.text for part in client.of(v1.ToolCallUpdate)[-1].content] == ["so far", "no luck"]
    assert client.text == "on we go"


@pytest.mark.rule(95)
async def test_a_plan_is_sent_completely_every_time(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.plan("Read", PlanEntry("Write", priority="high", meta={"m": 1}))
        await turn.plan(PlanEntry("Read", "completed"), PlanEntry("Write", "in_progress", "high"))

    client = await after_turn(tmp_path, answer)
    first, second = client.of(v1.Plan)
    assert [(e.content, e.status, e.priority, e.meta) for e in first.entries] == [
        ("Read", "pending", "medium", None),
        ("Write", "pending", "high", {"m": 1}),
    ]
    assert [(e.content, e.status) for e in second.entries] == [("Read", "completed"), ("Write", "in_progress")]


async def test_a_named_plan_is_shown_without_its_name_to_clients_that_know_only_one(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.plan("Read", plan_id="mine")
        await turn.plan_document("doc", markdown="# Plan")
        await turn.remove_plan("mine")

    client = await after_turn(tmp_path, answer)
    assert [type(update) for update in client.updates] == [v1.Plan]
    client = await after_turn(tmp_path, answer, plan=v1.PlanCapabilities())
    assert [type(update) for update in client.updates] == [v1.PlanUpdate, v1.PlanUpdate, v1.PlanRemoved]


@pytest.mark.rule(97)
@pytest.mark.parametrize(
    ("given", "cost"),
    [
        ({}, None),
        ({"cost": 0.25}, v1.Cost(amount=0.25, currency="USD")),
        ({"cost": 0}, v1.Cost(amount=0.0, currency="USD")),
        ({"cost": 1.5, "currency": "EUR"}, v1.Cost(amount=1.5, currency="EUR")),
    ],
)
async def test_usage_has_both_numbers_and_a_cost_has_its_currency(
    tmp_path: Path, given: dict[str, Any], cost: v1.Cost | None
) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.report_usage(used=0, size=2**53, **given)

    client = await after_turn(tmp_path, answer)
    assert client.updates == [v1.UsageUpdate(used=0, size=2**53, cost=cost)]


@pytest.mark.rule(124, 125)
async def test_a_compaction_ends_once_and_its_id_is_not_used_again(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.report_compaction("a", "in_progress")
        await turn.send_compaction_chunk("a", "in ")
        await turn.report_compaction("a", "completed", summary="in short")
        with pytest.raises(ValueError, match="has ended"):
            await turn.report_compaction("a", "in_progress")
        await turn.report_compaction("b", "failed", error="no room")
        with pytest.raises(ValueError, match="title"):
            await turn.notify("")

    client = await after_turn(tmp_path, answer, **EVERYTHING)
    assert client.updates == [
        v1.CompactionUpdate(compaction_id="a", status="in_progress"),
        v1.CompactionSummaryChunk(compaction_id="a", content=v1.TextContent(text="in ")),
        v1.CompactionUpdate(compaction_id="a", status="completed", summary=[v1.TextContent(text="in short")]),
        v1.CompactionUpdate(compaction_id="b", status="failed", error="no room"),
    ]
    assert (await after_turn(tmp_path, answer)).updates == []


async def test_a_title_can_be_given_and_taken_away(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.set_title("T")
        await turn.set_title(None)
        await turn.update(InfoUpdate(updated_at="2026-01-01T00:00:00Z", meta={"m": 1}))

    client = await after_turn(tmp_path, answer)
    assert [message["params"]["update"] for message in client.validator.calls("session/update")] == [
        {"sessionUpdate": "session_info_update", "title": "T"},
        {"sessionUpdate": "session_info_update", "title": None},
        {"sessionUpdate": "session_info_update", "updatedAt": "2026-01-01T00:00:00Z", "_meta": {"m": 1}},
    ]


async def test_updates_between_turns_go_through_the_session(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def answer(turn: Turn[Settings]) -> None:
        async def later(session: Session[Settings]) -> None:
            await go.wait()
            await session.update(MessageChunk(role="agent", content=TextContent("done in the background")))

        turn.session.tasks.start(later(turn.session))

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        await client.prompt(await client.new(), "go")
        assert client.updates == []
        go.set()
        await client.until_updates(v1.AgentMessageChunk)
        assert client.text == "done in the background"


async def test_an_unknown_update_can_be_sent(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        await turn.update(
            UnrecognizedUpdate(tag="from_the_future", fields={"sessionUpdate": "from_the_future", "a": [1]})
        )

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path) as client:
        await client.prompt(await client.new(), "go")
        [update] = client.updates
        assert (update.tag, dict(update)) == ("from_the_future", {"sessionUpdate": "from_the_future", "a": [1]})


async def test_a_value_without_a_json_form_fails_the_turn_and_not_the_connection(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        if turn.text == "bad":
            async with turn.tool("Bad", raw_input=object()):
                pass

    async with asyncio.timeout(60), client_for(agent_with(answer), tmp_path, validate=True) as client:
        session = await client.new()
        with pytest.raises(InternalError, match="EncodeError"):
            await client.prompt(session, "bad")
        assert (await client.prompt(session, "good")).stop_reason == "end_turn"
