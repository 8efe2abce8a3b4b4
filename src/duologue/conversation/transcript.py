"""Updates folded into items: omitted leaves, null clears, a value replaces, a chunk appends.

The same updates always give the same transcript, live or replayed. Chunks with an id belong to the message of that id;
chunks without one go on with the last item if that is a message of the same role, and begin a new one otherwise.
A transcript is bounded in bytes: the oldest of it is dropped, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, structs

from duologue.conversation.builders import MessageBuilder, TerminalBuffer, patched_meta, size_of
from duologue.conversation.content import merge_text
from duologue.conversation.item_index import ITEM_BYTES, ItemIndex, Key, drop_oldest
from duologue.conversation.items import (
    Compaction,
    Item,
    Message,
    Plan,
    SessionMessage,
    Subagent,
    Terminal,
    ToolCall,
    Usage,
)
from duologue.conversation.memory_size import memory_size
from duologue.conversation.settings import ConfigOption, Mode, Modes
from duologue.conversation.tool_fields import patched_fields, tool_fields
from duologue.conversation.updates import (
    AvailableCommand,
    CommandsUpdate,
    CompactionChunk,
    CompactionUpdate,
    InfoUpdate,
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    PlanRemovedUpdate,
    PlanUpdate,
    SessionMessageChunk,
    SessionMessageUpdate,
    SettingsUpdate,
    StateUpdate,
    SubagentUpdate,
    TerminalOutputChunk,
    TerminalUpdate,
    ToolCallUpdate,
    ToolContentChunk,
    Update,
    UsageUpdate,
)

__all__ = ["MAX_TRANSCRIPT_BYTES", "Transcript"]

MAX_TRANSCRIPT_BYTES = 64 * 1024 * 1024
"""What one session keeps in memory: more text than any model reads, and a quarter of what a client may take."""

_SUBAGENT_FIELDS = ("title", "description", "state", "can_cancel", "cwd", "additional_directories")

T = TypeVar("T", Compaction, SessionMessage, ToolCall)
Changed = Item | Plan | Subagent | Terminal | Usage | None


class Transcript:
    """A session as it stands after every update so far.

    Attributes:
        plans: By id; the nameless one is under `None`.
        commands: The slash commands on offer.
        settings: Everything that can be set, with its value.
        modes: The modes, for agents that have no settings.
        title: What the session is called.
        usage: How full its context is.
        subagents: The sessions it started, by id.
        state: What it is doing, if its agent says so.
        dropped: How many of its oldest items, terminals, plans and subagents are gone because there was no room.

    Args:
        max_bytes: The memory it may take, roughly; beyond that its oldest items are dropped until three quarters are
            left. An item that is larger by itself loses its beginning and is marked `is_truncated`. `None`: no limit.
    """

    def __init__(self, max_bytes: int | None = MAX_TRANSCRIPT_BYTES) -> None:
        self._items = ItemIndex()
        self._max_bytes: float = math.inf if max_bytes is None else max_bytes
        self._added = 0
        """Bytes it takes at most: what is added counts at once, what was replaced is found when there is no room."""
        self.dropped = 0
        self.plans: dict[str | None, Plan] = {}
        self.commands: list[AvailableCommand] = []
        self.settings: list[ConfigOption] = []
        self.modes: Modes | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.usage: Usage | None = None
        self.subagents: dict[str, Subagent] = {}
        self.state: StateUpdate | None = None
        self._terminals: dict[str, TerminalBuffer] = {}

    @property
    def items(self) -> list[Item]:
        """Everything said and done, in the order it first appeared, less what was dropped."""
        items = self._items.by_number.values()
        return [item.message if isinstance(item, MessageBuilder) else item for item in items]

    def __len__(self) -> int:
        return len(self._items.by_number)

    @property
    def position(self) -> int:
        """How many items there were so far, dropped ones too: the number of the next."""
        return self._items.count

    @property
    def messages(self) -> list[Message]:
        return [item for item in self.items if isinstance(item, Message)]

    @property
    def tool_calls(self) -> list[ToolCall]:
        return [item for item in self.items if isinstance(item, ToolCall)]

    @property
    def plan(self) -> Plan | None:
        """The nameless plan, or the only one."""
        return self.plans.get(None) or next(iter(self.plans.values()), None)

    @property
    def modes_shown(self) -> Modes | None:
        """The modes; a setting of category `mode` wins over modes told the older way."""
        setting = next((each for each in self.settings if each.category == "mode"), None)
        if setting is None:
            return self.modes
        available = [Mode(option.value, option.name, option.description) for option in setting.choices]
        return Modes(str(setting.value), available)

    def tool_call(self, tool_call_id: str) -> ToolCall | None:
        """The tool call of this id as it stands."""
        item = self._items.get(("tool", tool_call_id))
        return item if isinstance(item, ToolCall) else None

    @property
    def terminals(self) -> list[Terminal]:
        """The commands the agent runs or ran, as they stand."""
        return [terminal.terminal for terminal in self._terminals.values()]

    def terminal(self, terminal_id: str) -> Terminal | None:
        """The terminal of this id as it stands."""
        terminal = self._terminals.get(terminal_id)
        return None if terminal is None else terminal.terminal

    def message(self, role: str, message_id: str) -> Message | None:
        """The message of this role and id as it stands."""
        item = self._message_of(role, message_id)
        return None if item is None else item.message

    def apply(self, update: Update) -> Changed:
        """Fold one update in; what it changed, as it stands now, if that is an item of its own."""
        if type(update) is not MessageChunk:
            return self._apply(update)
        self._added += (size := size_of(update))  # most of what an agent ever says
        if self._added > self._max_bytes:
            self._make_room(size)
        self._message(update)
        return None

    def _apply(self, update: Update) -> Changed:
        self._added += (size := ITEM_BYTES + memory_size(update))
        if self._added > self._max_bytes:
            self._make_room(size)
        match update:
            case ToolCallUpdate():
                return self._tool_call(update)
            case ToolContentChunk():
                return self._tool_content(update)
            case MessageUpdate():
                return self._whole_message(update)
            case TerminalOutputChunk():
                self._terminal(update.terminal_id).append(update.data)
            case TerminalUpdate():
                terminal = self._terminal(update.terminal_id)
                terminal.change(update)
                return terminal.terminal
            case PlanUpdate():
                return self._plan(update)
            case UsageUpdate():
                return self._usage(update)
            case CompactionUpdate() | CompactionChunk():
                return self._compaction(update)
            case SessionMessageUpdate() | SessionMessageChunk():
                return self._session_message(update)
            case SubagentUpdate():
                return self._subagent(update)
            case _:
                self._note(update)
        return None

    def _note(self, update: Update) -> None:
        """What changes the session's state and is no item of its own."""
        if memory_size(update) > self._max_bytes / 8:  # it would stay for ever, and leave no room for what is said
            self.dropped += 1
            return
        match update:
            case PlanRemovedUpdate():
                self.plans.pop(update.plan_id, None)
            case CommandsUpdate():
                self.commands = list(update.commands)
            case SettingsUpdate():
                self.settings = list(update.settings)
            case ModeUpdate():
                self.set_mode(update.mode_id)
            case InfoUpdate():
                self.title = self.title if update.title is UNSET else update.title
                self.updated_at = self.updated_at if update.updated_at is UNSET else update.updated_at
            case StateUpdate():
                self.state = update
            case _:
                pass

    def _usage(self, change: UsageUpdate) -> Usage:
        cost, currency = change.cost, change.currency
        if isinstance(cost, UnsetType):
            cost, currency = (None, None) if self.usage is None else (self.usage.cost, self.usage.currency)
        self.usage = Usage(used=change.used, size=change.size, cost=cost, currency=currency)
        return self.usage

    def mark_refused(self, since: int) -> None:
        """The agent refused: what was said from item number `since` on does not count any more."""
        for _, item in self._items.since(since):
            if isinstance(item, MessageBuilder):
                item.refuse()

    def close_tool_calls(self, since: int, status: str | None, *, but: Sequence[str] = ()) -> list[ToolCall]:
        """End the tool calls from item number `since` on that never ended themselves, `but` for these.

        Without a status they keep the last that was sent, and are marked as unsettled.
        """
        closed: list[ToolCall] = []
        for number, item in self._items.since(since):
            if isinstance(item, ToolCall) and not item.is_over and item.tool_call_id not in but:
                ended = structs.replace(item, status=status or item.status, is_unsettled=status is None)
                self._items.replace(number, ended)
                closed.append(ended)
        return closed

    # --- messages

    def _message(self, chunk: MessageChunk) -> None:
        """Nothing is returned, because nothing is put together before somebody looks."""
        message = self._going_on(chunk)
        if message is None:
            message = MessageBuilder(chunk)
            self._items.add(message, None if chunk.message_id is None else (chunk.role, chunk.message_id))
            self._added += ITEM_BYTES
        message.append(chunk)

    def _whole_message(self, change: MessageUpdate) -> Message:
        message = self._message_of(change.role, change.message_id)
        if message is None:
            message = MessageBuilder(change)
            self._items.add(message, (change.role, change.message_id))
        message.change(change)
        return message.message

    def _going_on(self, chunk: MessageChunk) -> MessageBuilder | None:
        """The message this chunk belongs to, if there is one already."""
        if chunk.message_id is not None:
            return self._message_of(chunk.role, chunk.message_id)
        item = self._items.last
        if not isinstance(item, MessageBuilder) or item.role != chunk.role:
            return None
        return item if item.message_id is None else None

    def _message_of(self, role: str, message_id: str) -> MessageBuilder | None:
        item = self._items.get((role, message_id))
        return item if isinstance(item, MessageBuilder) else None

    # --- the rest

    def _tool_call(self, change: ToolCallUpdate) -> ToolCall:
        key = ("tool", change.tool_call_id)
        # An update of a call that is not here may be about one that was dropped, and then most of it is not known.
        may_be_rest = self.dropped > 0 and not change.is_new and change.kind is UNSET
        before = self._kept(key, ToolCall(tool_call_id=change.tool_call_id, is_truncated=may_be_rest))
        fields = tool_fields(before, change)
        return self._put(key, before, meta=patched_meta(before.meta, change.meta), **fields)

    def _tool_content(self, chunk: ToolContentChunk) -> ToolCall:
        key = ("tool", chunk.tool_call_id)
        before = self._kept(key, ToolCall(tool_call_id=chunk.tool_call_id))
        return self._put(key, before, content=[*before.content, *chunk.content])

    def _terminal(self, terminal_id: str) -> TerminalBuffer:
        return self._terminals.setdefault(terminal_id, TerminalBuffer(terminal_id))

    def _plan(self, change: PlanUpdate) -> Plan:
        plan = Plan(
            plan_id=change.plan_id,
            entries=list(change.entries or []),
            uri=change.uri,
            markdown=change.markdown,
            other=change.other,
            meta=change.meta if isinstance(change.meta, dict) else None,
        )
        self.plans[change.plan_id] = plan
        return plan

    def set_mode(self, mode_id: str) -> None:
        """The session works in another mode now."""
        if self.modes is not None:
            self.modes = structs.replace(self.modes, current=mode_id)
        self.settings = [
            structs.replace(setting, value=mode_id)
            if setting.category == "mode" and mode_id in [option.value for option in setting.choices]
            else setting
            for setting in self.settings
        ]

    def _compaction(self, change: CompactionUpdate | CompactionChunk) -> Compaction:
        key = ("compaction", change.compaction_id)
        before = self._kept(key, Compaction(compaction_id=change.compaction_id, status="in_progress"))
        if isinstance(change, CompactionChunk):
            return self._put(key, before, summary=merge_text([*before.summary, change.content]))
        return self._put(
            key,
            before,
            status=change.status,
            summary=before.summary if change.summary is UNSET else list(change.summary or []),
            error=_patched(before.error, change.error),
            meta=patched_meta(None if change.replaces_meta else before.meta, change.meta),
        )

    def _session_message(self, change: SessionMessageUpdate | SessionMessageChunk) -> SessionMessage:
        key = ("session message", change.message_id)
        before = self._kept(key, SessionMessage(message_id=change.message_id))
        if isinstance(change, SessionMessageChunk):
            return self._put(key, before, content=merge_text([*before.content, change.content]))
        return self._put(
            key,
            before,
            sender_session_id=_patched(before.sender_session_id, change.sender_session_id),
            recipient_session_id=_patched(before.recipient_session_id, change.recipient_session_id),
            content=before.content if change.content is UNSET else list(change.content or []),
            meta=patched_meta(before.meta, change.meta),
        )

    def _subagent(self, change: SubagentUpdate) -> Subagent:
        fresh = Subagent(session_id=change.session_id)
        before = self.subagents.get(change.session_id, fresh)
        meta = patched_meta(before.meta, change.meta)
        after = structs.replace(before, meta=meta, **patched_fields(change, fresh, _SUBAGENT_FIELDS))
        self.subagents[change.session_id] = after
        return after

    def _kept(self, key: Key, fresh: T) -> T:
        kept = self._items.get(key)
        if kept is None:
            self._items.add(fresh, key)
            return fresh
        assert isinstance(kept, type(fresh))
        return kept

    def _put(self, key: Key, before: T, **fields: Any) -> T:
        after = structs.replace(before, **fields)
        self._items.put(key, after)
        return after

    def _make_room(self, size: int) -> None:
        """Drop the oldest of what is here for an update of this size."""
        kept: list[dict[Any, Any]] = [self._terminals, self.plans, self.subagents]
        taken, dropped = drop_oldest(self._items, kept, int(self._max_bytes))
        self._added = taken + size
        self.dropped += dropped


def _patched(before: str | None, change: str | None | UnsetType) -> str | None:
    return before if isinstance(change, UnsetType) else change
