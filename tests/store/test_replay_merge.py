"""A replay is shorter than the live updates, and leads to the same transcript."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from duologue.conversation.content import Annotations, Content, ImageContent, TextContent
from duologue.conversation.updates import (
    CommandsUpdate,
    CompactionChunk,
    CompactionUpdate,
    ContentPart,
    InfoUpdate,
    MessageChunk,
    ModeUpdate,
    NoticeUpdate,
    PlanEntry,
    PlanRemovedUpdate,
    PlanUpdate,
    SessionMessageChunk,
    SessionMessageUpdate,
    SettingsUpdate,
    SubagentUpdate,
    ToolCallUpdate,
    UnrecognizedUpdate,
    Update,
    UsageUpdate,
)
from duologue.store.base import Store
from duologue.store.memory import MemoryStore
from duologue.store.replay_merge import MERGED_CHARACTERS
from duologue.store.sqlite.store import SqliteStore
from tests.store.messages import chunk, info, replayed, tool


async def save_and_replay(store: Store, live: list[Update]) -> list[Update]:
    async with await store.create(info("s")) as log:
        for update in live:
            log.append(update)
    return await replayed(store, "s")


class ReaderState:
    """The state of a reader, built in the simplest way: one update after the other."""

    def __init__(self, updates: list[Update]) -> None:
        self.items: list[dict[str, Any]] = []
        self.state: dict[object, Any] = {}
        for update in updates:
            self.show(update)

    def show(self, update: Update) -> None:
        match update:
            case MessageChunk():
                self.show_message(update)
            case ToolCallUpdate() | SubagentUpdate():
                name = update.tool_call_id if isinstance(update, ToolCallUpdate) else update.session_id
                self.patch(self.item(type(update).__name__, name), update)
            case CompactionUpdate():
                item = self.item("compaction", update.compaction_id)
                if update.summary is not UNSET:
                    item["content"] = list(update.summary or [])
                self.patch(item, msgspec.structs.replace(update, summary=UNSET))
            case CompactionChunk():
                item = self.item("compaction", update.compaction_id)
                item.setdefault("content", []).append(update.content)
            case SessionMessageUpdate():
                item = self.item("message", update.message_id)
                if update.content is not UNSET:
                    item["content"] = list(update.content or [])
            case SessionMessageChunk():
                self.item("message", update.message_id).setdefault("content", []).append(update.content)
            case PlanUpdate():
                self.state["plan", update.plan_id] = update
            case PlanRemovedUpdate():
                self.state.pop(("plan", update.plan_id), None)
            case InfoUpdate():
                self.patch(self.state.setdefault("info", {}), update)
            case NoticeUpdate():
                pass
            case UnrecognizedUpdate():
                self.items.append({"unknown": update})
            case _:
                self.state[type(update).__name__] = update

    def item(self, kind: str, name: str) -> dict[str, Any]:
        for item in self.items:
            if item.get("name") == (kind, name):
                return item
        self.items.append({"name": (kind, name)})
        return self.items[-1]

    def patch(self, item: dict[str, Any], update: Update) -> None:
        for field in update.__struct_fields__:
            value = getattr(update, field)
            if value is None:
                item.pop(field, None)
            elif value is not UNSET and field not in ("is_new", "replaces_meta"):
                item[field] = value

    def show_message(self, chunk: MessageChunk) -> None:
        key = (chunk.role, chunk.message_id)
        if chunk.message_id is None or not any(item.get("key") == key for item in self.items):
            if not self.items or self.items[-1].get("key") != key:
                self.items.append({"key": key, "content": []})
            self.items[-1]["content"].append(chunk.content)
        else:
            next(item for item in self.items if item.get("key") == key)["content"].append(chunk.content)

    def seen(self) -> Any:
        """Return the state without invisible details: how text was split, and incomplete summaries."""
        for item in self.items:
            content = run_together(item.pop("content", []))
            if content and not (item.get("name", ("",))[0] == "compaction" and item.get("status") != "completed"):
                item["content"] = content
            if item.get("name", ("",))[0] == "compaction":
                item.setdefault("status", "in_progress")
                item.setdefault("compaction_id", item["name"][1])
        return self.items, self.state


def run_together(content: list[Content]) -> list[Content | str]:
    together: list[Content | str] = []
    for block in content:
        if isinstance(block, TextContent) and block.annotations is None and together and isinstance(together[-1], str):
            together[-1] += block.text
        elif isinstance(block, TextContent) and block.annotations is None:
            together.append(block.text)
        else:
            together.append(block)
    return together


ids = st.sampled_from(["a", "b"])
texts = st.sampled_from(["x", "yy", "", "🦊"])
contents: st.SearchStrategy[Content] = st.one_of(
    st.builds(TextContent, texts),
    st.just(TextContent("!", Annotations(audience=["user"]))),
    st.just(ImageContent("aGk=", "image/png")),
)
maybe_contents = st.one_of(st.just(UNSET), st.none(), st.lists(contents, max_size=2))
maybe_texts = st.one_of(st.just(UNSET), st.none(), texts)
updates: st.SearchStrategy[Update] = st.one_of(
    st.builds(
        MessageChunk,
        role=st.sampled_from(["agent", "user", "thought"]),
        content=contents,
        message_id=st.none() | ids,
    ),
    st.builds(
        ToolCallUpdate,
        tool_call_id=ids,
        title=maybe_texts,
        status=st.sampled_from([UNSET, "pending", "in_progress", "completed"]),
        content=st.one_of(st.just(UNSET), st.none(), st.lists(st.builds(ContentPart, contents), max_size=2)),
        raw_input=st.one_of(st.just(UNSET), st.none(), st.just({"n": 2**60})),
        is_new=st.booleans(),
        meta=st.one_of(st.just(UNSET), st.none(), st.just({"k": 1})),
    ),
    st.builds(
        CompactionUpdate,
        compaction_id=ids,
        status=st.sampled_from(["in_progress", "completed", "failed"]),
        summary=maybe_contents,
        error=maybe_texts,
    ),
    st.builds(CompactionChunk, compaction_id=ids, content=contents),
    st.builds(SessionMessageUpdate, message_id=ids, content=maybe_contents),
    st.builds(SessionMessageChunk, message_id=ids, content=contents),
    st.builds(SubagentUpdate, session_id=ids, title=maybe_texts, can_cancel=st.sampled_from([UNSET, None, True])),
    st.builds(PlanUpdate, plan_id=st.none() | ids, entries=st.just([PlanEntry("Read")]), markdown=texts),
    st.builds(PlanRemovedUpdate, plan_id=ids),
    st.builds(InfoUpdate, title=maybe_texts, updated_at=maybe_texts),
    st.builds(UsageUpdate, used=st.integers(0, 9), size=st.just(10)),
    st.builds(ModeUpdate, mode_id=ids),
    st.just(CommandsUpdate(commands=[])),
    st.just(SettingsUpdate(settings=[])),
    st.just(NoticeUpdate(severity="info", title="!")),
    st.just(UnrecognizedUpdate(tag="new", fields={"a": 1})),
)


# There are many kinds of update, so it takes more than the usual few to meet each in company.
@given(st.lists(updates, max_size=20))
@settings(max_examples=4 * settings().max_examples)
def test_a_replay_builds_the_same_transcript(live: list[Update]) -> None:
    again = asyncio.run(save_and_replay(MemoryStore(), live))

    assert ReaderState(again).seen() == ReaderState(live).seen()
    assert len(again) <= len(live)


@given(st.lists(updates, max_size=20))
@settings(max_examples=20)
def test_every_store_folds_alike(live: list[Update]) -> None:
    async def on_disk() -> list[Update]:
        with tempfile.TemporaryDirectory() as directory:
            async with SqliteStore(Path(directory)) as store:
                return await save_and_replay(store, live)

    assert asyncio.run(on_disk()) == asyncio.run(save_and_replay(MemoryStore(), live))


@pytest.mark.rule(57)
async def test_pieces_of_a_message_become_one(store: Store) -> None:
    live: list[Update] = [
        chunk("a", "1"),
        chunk("b", "1"),
        chunk("c", "2"),
        chunk("d", "2", role="thought"),
        chunk("e"),
        chunk("f"),
    ]

    assert await save_and_replay(store, live) == [
        chunk("ab", "1"),
        chunk("c", "2"),
        chunk("d", "2", role="thought"),
        chunk("ef"),
    ]


async def test_a_merged_piece_stays_of_a_size_that_can_be_sent(store: Store) -> None:
    again = await save_and_replay(store, [chunk("x" * 1000, "1") for _ in range(200)])

    contents = [update.content for update in again if isinstance(update, MessageChunk)]
    lengths = [len(content.text) for content in contents if isinstance(content, TextContent)]
    assert sum(lengths) == 200_000
    assert max(lengths) < MERGED_CHARACTERS + 1000
    assert len(lengths) == 4


async def test_a_tool_call_is_replayed_once_in_its_final_state_where_it_began(store: Store) -> None:
    live: list[Update] = [
        ToolCallUpdate(tool_call_id="t", title="Read", status="pending", raw_input={"path": "/a"}, is_new=True),
        chunk("meanwhile", "m"),
        ToolCallUpdate(tool_call_id="t", status="in_progress", content=[ContentPart(TextContent("half"))]),
        ToolCallUpdate(tool_call_id="t", status="completed", content=[ContentPart(TextContent("all"))], raw_input=None),
    ]

    assert await save_and_replay(store, live) == [
        ToolCallUpdate(
            tool_call_id="t",
            title="Read",
            status="completed",
            content=[ContentPart(TextContent("all"))],
            is_new=True,
        ),
        chunk("meanwhile", "m"),
    ]


async def test_only_the_last_plan_is_replayed_and_a_removed_one_is_not(store: Store) -> None:
    first, last = PlanUpdate(entries=[PlanEntry("a")]), PlanUpdate(entries=[PlanEntry("a", status="completed")])
    removed = PlanUpdate(plan_id="p", markdown="# Plan")

    assert await save_and_replay(store, [first, removed, chunk("x"), last, PlanRemovedUpdate(plan_id="p")]) == [
        chunk("x"),
        last,
    ]


async def test_a_compaction_is_replayed_as_a_whole(store: Store) -> None:
    live: list[Update] = [
        CompactionUpdate(compaction_id="c", status="in_progress"),
        CompactionChunk(compaction_id="c", content=TextContent("We ")),
        CompactionChunk(compaction_id="c", content=TextContent("talked.")),
        CompactionUpdate(compaction_id="c", status="completed"),
    ]

    assert await save_and_replay(store, live) == [
        CompactionUpdate(compaction_id="c", status="completed", summary=[TextContent("We talked.")])
    ]


async def test_a_replaced_summary_is_replayed_in_its_new_form(store: Store) -> None:
    live: list[Update] = [
        CompactionChunk(compaction_id="c", content=TextContent("Draft")),
        CompactionUpdate(compaction_id="c", status="completed", summary=[TextContent("Final")]),
        SessionMessageChunk(message_id="m", content=TextContent("Draft")),
        SessionMessageUpdate(message_id="m", sender_session_id="other", content=[TextContent("Final")]),
        SessionMessageChunk(message_id="m", content=TextContent(", really")),
    ]

    assert await save_and_replay(store, live) == [
        CompactionUpdate(compaction_id="c", status="completed", summary=[TextContent("Final")]),
        SessionMessageUpdate(message_id="m", sender_session_id="other", content=[TextContent("Final, really")]),
    ]


async def test_a_compaction_that_was_cut_off_failed(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.begin_turn([TextContent("/compact")])
        log.append(CompactionUpdate(compaction_id="c", status="in_progress"))
        log.append(CompactionChunk(compaction_id="c", content=TextContent("We ")))
        log.append(tool("t", "completed", is_new=True))

    assert (await replayed(store, "s"))[1:] == [
        CompactionUpdate(compaction_id="c", status="failed", error="interrupted"),
        tool("t", "completed", is_new=True),
    ]


async def test_a_tool_call_with_more_output_than_one_page_is_replayed_as_a_whole(store: Store) -> None:
    parts = [ContentPart(TextContent(letter * 200_000)) for letter in "abcd"]
    live: list[Update] = [ToolCallUpdate(tool_call_id="t", title="Run", is_new=True)]
    live += [ToolCallUpdate(tool_call_id="t", content=[part]) for part in parts]
    live += [chunk("x", "m"), ToolCallUpdate(tool_call_id="t", status="completed")]

    assert await save_and_replay(store, live) == [
        ToolCallUpdate(tool_call_id="t", title="Run", content=[parts[-1]], status="completed", is_new=True),
        chunk("x", "m"),
    ]
