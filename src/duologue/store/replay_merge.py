"""Merge updates for a replay: chunks become whole messages, and replaced updates are dropped.

| update | in a replay |
|---|---|
| consecutive chunks of one message | one chunk, up to 64 KiB of text |
| a tool call, a terminal, a compaction, a subagent, a message between sessions | once, as it ended, where it began |
| plan, commands, mode, settings, title, usage | once, in its last state, where it was last sent |
| notice, state, background task | never stored: they are temporary |
| everything else | unchanged |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard, TypeVar

import msgspec
from msgspec import UNSET

from duologue.conversation.builders import TerminalBuffer, patched_meta
from duologue.conversation.content import Content, TextContent, merge_text
from duologue.conversation.updates import (
    CompactionChunk,
    CompactionUpdate,
    InfoUpdate,
    MessageChunk,
    SessionMessageChunk,
    SessionMessageUpdate,
    SubagentUpdate,
    TerminalOutputChunk,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContentChunk,
    Update,
    UsageUpdate,
)
from duologue.conversation.work_state import FINAL_STATUSES

MERGED_CHARACTERS = 64 * 1024
"""Characters in one merged chunk: few messages for a long answer, and none that needs much memory."""

_Patch = TypeVar("_Patch", bound=Update)


def entity_of(update: Update) -> str | None:
    """Return the name under which a store finds all updates about the same thing; None if it has no id."""
    if not update.entity:
        return None
    name, *fields = update.entity
    ids = [getattr(update, field) for field in fields]
    return name if ids in ([], [None]) else f"{name} {ids[0]}"


def shows_at_start(entity: str) -> bool:
    """Return True if a replay shows the final state of an entity where it began, not where it ended."""
    return entity.startswith(("tool ", "terminal ", "compaction ", "subagent ", "message "))


def as_interrupted(update: Update) -> Update:
    """Return the update as it is after its turn was interrupted: unfinished work has failed."""
    if isinstance(update, ToolCallUpdate) and update.status not in FINAL_STATUSES:
        return msgspec.structs.replace(update, status="failed")
    if isinstance(update, CompactionUpdate) and update.status not in FINAL_STATUSES:
        return msgspec.structs.replace(update, status="failed", error="interrupted")
    return update


class UpdateMerger:
    """Merges all updates of one entity into one."""

    def __init__(self) -> None:
        self._whole: Update | None = None
        self._content: list[Content] = []
        self._printed = TerminalBuffer("")

    def add(self, update: Update) -> None:
        """Add the next update of the entity."""
        whole = self._whole
        match update:
            case CompactionChunk():
                self._content.append(update.content)
                self._whole = whole or CompactionUpdate(compaction_id=update.compaction_id, status="in_progress")
            case SessionMessageChunk():
                self._content.append(update.content)
                self._whole = whole or SessionMessageUpdate(message_id=update.message_id)
            case CompactionUpdate():
                self._content = _replaced(self._content, update.summary)
                self._whole = _patched(whole, update)
            case SessionMessageUpdate():
                self._content = _replaced(self._content, update.content)
                self._whole = _patched(whole, update)
            case ToolCallUpdate():
                is_new = whole.is_new if isinstance(whole, ToolCallUpdate) else update.is_new
                self._whole = msgspec.structs.replace(_patched(whole, update), is_new=is_new)
            case ToolContentChunk():
                call = whole if isinstance(whole, ToolCallUpdate) else ToolCallUpdate(tool_call_id=update.tool_call_id)
                shown = call.content if isinstance(call.content, list) else []
                self._whole = msgspec.structs.replace(call, content=[*shown, *update.content])
            case TerminalOutputChunk():
                self._printed.append(update.data)
                self._whole = whole or TerminalUpdate(terminal_id=update.terminal_id)
            case TerminalUpdate():
                self._printed.change(update)
                self._whole = _patched(whole, update)
            case UsageUpdate(cost=msgspec.UNSET) if isinstance(whole, UsageUpdate):
                self._whole = msgspec.structs.replace(update, cost=whole.cost, currency=whole.currency)
            case SubagentUpdate() | InfoUpdate():
                self._whole = _patched(whole, update)
            case _:  # the others replace the whole
                self._whole = update

    def result(self) -> Update | None:
        """Return the merged update; None if there was none."""
        match self._whole:
            case CompactionUpdate() as compaction:
                # Only a completed compaction has a usable summary.
                is_complete = compaction.status == "completed" and self._content
                summary = merge_text(self._content, _plain_text) if is_complete else UNSET
                return msgspec.structs.replace(compaction, summary=summary)
            case SessionMessageUpdate() as message:
                return msgspec.structs.replace(message, content=merge_text(self._content, _plain_text) or UNSET)
            case TerminalUpdate() as terminal:
                return msgspec.structs.replace(terminal, output=self._printed.terminal.output or UNSET)
            case whole:
                return whole


class ChunkMerger:
    """Merges consecutive chunks of one message."""

    def __init__(self) -> None:
        self._first: MessageChunk | None = None
        self._texts: list[str] = []
        self._size = 0

    def add(self, chunk: MessageChunk) -> Iterator[Update]:
        """Add the next chunk, and yield what is complete."""
        if not (_is_plain(chunk.content) and chunk.meta is UNSET):
            yield from self.rest()
            yield chunk
            return
        first = self._first
        if first is None or first.role != chunk.role or first.message_id != chunk.message_id:
            yield from self.rest()
            self._first = chunk
        self._texts.append(chunk.content.text)
        self._size += len(chunk.content.text)
        if self._size >= MERGED_CHARACTERS:
            yield from self.rest()

    def rest(self) -> Iterator[Update]:
        """Yield the merged text so far as one chunk."""
        if self._first is not None:
            yield msgspec.structs.replace(self._first, content=TextContent("".join(self._texts)))
        self._first = None
        self._texts = []
        self._size = 0


def _patched(whole: Update | None, patch: _Patch) -> _Patch:
    """Return the update with the newest value of each field; a cleared field is unset."""
    fields = {name: getattr(patch, name) for name in patch.__struct_fields__}
    changes = {name: UNSET if value is None else value for name, value in fields.items() if value is not UNSET}
    if not isinstance(whole, type(patch)):
        return msgspec.structs.replace(patch, **changes)
    replaces_meta = getattr(patch, "replaces_meta", False)
    if isinstance(patch.meta, dict) and isinstance(whole.meta, dict) and not replaces_meta:
        changes["meta"] = patched_meta(whole.meta, patch.meta)
    return msgspec.structs.replace(whole, **changes)


def _replaced(content: list[Content], replacement: list[Content] | None | msgspec.UnsetType) -> list[Content]:
    return content if isinstance(replacement, msgspec.UnsetType) else [*(replacement or ())]


def _is_plain(content: Content) -> TypeGuard[TextContent]:
    return isinstance(content, TextContent) and content.annotations is None and content.meta is None


def _plain_text(content: Content) -> bool | None:
    return True if _is_plain(content) else None
