"""One conversation sent in both versions is received as the same, as far as both have a form for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from duologue.conversation import updates as u
from duologue.conversation.content import Content, ImageContent, Resource, ResourceLink, TextContent
from duologue.conversation.downgrade import V1Downgrader
from duologue.conversation.git_patch import texts_of_patch
from duologue.conversation.message_ids import MessageIds
from duologue.conversation.settings import ConfigOption, Option, OptionGroup
from duologue.conversation.transcript import Transcript
from duologue.protocol.v1 import updates as version_1
from duologue.protocol.v2 import updates as version_2
from duologue.schema import v1, v2
from duologue.schema.codec import decode, encode

META = st.sampled_from([UNSET, {"k": 1}])
words = st.sampled_from(["a", "b", "ü", "two words"])
ids = st.sampled_from(["a", "b"])
blocks: st.SearchStrategy[Content] = st.one_of(
    words.map(TextContent),
    st.just(ImageContent("aGk=", "image/png", "file:///a")),
    st.just(ResourceLink("file:///a", "a", size=3)),
    st.just(Resource("file:///a", text="x")),
)
texts = st.sampled_from(["", "x", "x\n", "x\ny\n", "z\ny\n"])
changes = st.one_of(
    st.builds(u.FileChange, path=st.just("/w/added"), new_text=texts),
    st.builds(u.FileChange, path=st.just("/w/a b"), old_text=texts, new_text=texts).filter(
        lambda change: change.old_text != change.new_text
    ),
)
parts = st.lists(st.one_of(st.builds(u.ContentPart, blocks), changes, st.builds(u.TerminalPart, ids)), max_size=3)
options = [Option("a", "A"), Option("b", "B", "why")]
choices = [
    ConfigOption(setting_id="s", name="S", value="a", options=options, category="mode"),
    ConfigOption(setting_id="g", name="G", value="b", groups=[OptionGroup("x", "X", options)]),
    ConfigOption(setting_id="b", name="B", kind="boolean", value=True),
]
roles = st.sampled_from(["agent", "user", "thought"])
entries = st.lists(st.builds(u.PlanEntry, words, st.sampled_from(["pending", "completed"])), max_size=2)
updates: st.SearchStrategy[u.Update] = st.one_of(
    st.builds(u.MessageChunk, role=roles, content=blocks, message_id=st.none()),
    st.builds(u.MessageChunk, role=roles, content=blocks, message_id=ids, meta=META),
    st.builds(
        u.ToolCallUpdate,
        tool_call_id=ids,
        title=words,
        kind=st.sampled_from([UNSET, "edit"]),
        status=st.sampled_from([UNSET, "pending", "in_progress", "completed", "failed"]),
        content=st.one_of(st.just(UNSET), parts),
        locations=st.sampled_from([UNSET, [u.Location("/a", 3)]]),
        raw_input=st.sampled_from([UNSET, {"a": 1}]),
        meta=META,
    ),
    st.builds(u.PlanUpdate, entries=entries, meta=META),
    st.builds(u.PlanUpdate, plan_id=ids, markdown=words),
    st.builds(u.PlanRemovedUpdate, plan_id=ids),
    st.builds(u.CommandsUpdate, commands=st.lists(st.builds(u.AvailableCommand, words, words, words), max_size=2)),
    st.builds(u.SettingsUpdate, settings=st.lists(st.sampled_from(choices), unique_by=id)),
    st.builds(u.InfoUpdate, title=st.sampled_from([UNSET, None, "t"])),
    st.builds(u.UsageUpdate, used=st.integers(0, 9), size=st.just(9), cost=st.just(UNSET)),
    st.builds(u.UsageUpdate, used=st.integers(0, 9), size=st.just(9), cost=st.just(0.5), currency=words),
    st.builds(u.CompactionUpdate, compaction_id=ids, status=st.just("completed"), summary=st.lists(blocks)),
    st.builds(u.CompactionChunk, compaction_id=ids, content=blocks),
    st.builds(u.SubagentUpdate, session_id=ids, title=words, can_cancel=st.sampled_from([UNSET, None, True])),
    st.builds(u.BackgroundTaskUpdate, task_id=ids, title=words, state=st.sampled_from([UNSET, "stopped"])),
    st.builds(u.SessionMessageUpdate, message_id=ids, content=st.lists(blocks, max_size=2)),
    st.builds(u.SessionMessageChunk, message_id=ids, content=blocks),
)
of_version_2: st.SearchStrategy[u.Update] = st.one_of(
    st.builds(u.ToolContentChunk, tool_call_id=ids, content=parts.filter(lambda some: len(some) == 1)),
    st.builds(u.StateUpdate, state=st.sampled_from(["running", "idle"])),
    st.builds(u.TerminalOutputChunk, terminal_id=ids, data=st.just(b"x")),
)


def by_version_1(update: u.Update) -> u.Update | None:
    wire = version_1.update_to_wire(update)
    if wire is None:
        return None
    frame = encode(v1.SessionNotification(session_id="s", update=wire))
    return version_1.update_from_wire(decode(v1.SessionNotification, frame).update)


def by_version_2(update: u.Update) -> u.Update:
    frame = encode(v2.UpdateSessionNotification(session_id="s", update=version_2.update_to_wire(update)))
    return version_2.update_from_wire(decode(v2.UpdateSessionNotification, frame).update)


def received(sent: list[u.Update], wire: Callable[[u.Update], u.Update | None]) -> Transcript:
    transcript = Transcript()
    for update in map(wire, sent):
        if update is not None:
            transcript.apply(update)
    return transcript


def view(transcript: Transcript) -> Any:
    """Return all a reader sees, without generated ids, and with file changes as their texts."""
    items = [without_generated_ids(item) for item in transcript.items]
    parts = transcript.plans, transcript.commands, transcript.settings, transcript.title, transcript.usage
    return items, *parts, transcript.background_tasks


def without_generated_ids(item: Any) -> Any:
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    if str(fields.get("message_id")).startswith("made-up"):
        fields["message_id"] = None
    if "status" in fields and "locations" in fields:
        fields["content"] = [shown(part) for part in fields["content"]]
    return type(item).__name__, fields


def shown(part: Any) -> Any:
    if not isinstance(part, u.FileChange):
        return part
    old, new = (part.old_text, part.new_text) if part.patch is None else texts_of_patch(part.patch)
    return part.path, part.kind, old, new


@settings(max_examples=100, deadline=None)
@given(st.lists(updates, max_size=12))
def test_both_versions_carry_the_same_conversation(sent: list[u.Update]) -> None:
    made_up, downgrader = MessageIds("made-up"), V1Downgrader()

    first = received([update_v1 for update in sent for update_v1 in downgrader.convert(update)], by_version_1)
    second = received([made_up.fill(update) for update in sent], by_version_2)
    assert view(first) == view(second)
    assert first.subagents == second.subagents


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(updates, of_version_2), max_size=12))
def test_updates_of_version_2_are_downgraded_for_version_1(sent: list[u.Update]) -> None:
    made_up, downgrader = MessageIds("made-up"), V1Downgrader()
    by_2 = [by_version_2(made_up.fill(update)) for update in sent]
    downgraded = [update_v1 for update in by_2 for update_v1 in downgrader.convert(update)]

    assert view(received(downgraded, by_version_1)) == view(received(by_2, lambda update: update))


def test_every_new_tool_call_of_version_2_is_announced_to_version_1() -> None:
    downgrader = V1Downgrader()
    update = by_version_2(u.ToolCallUpdate(tool_call_id="t", title="Run"))
    (first,) = downgrader.convert(update)
    (second,) = downgrader.convert(update)

    assert isinstance(version_1.update_to_wire(first), v1.ToolCall)
    assert isinstance(version_1.update_to_wire(second), v1.ToolCallUpdate)
    assert msgspec.structs.replace(update, is_new=True) == first
