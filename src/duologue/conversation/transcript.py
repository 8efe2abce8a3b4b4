"""The transcript of a session, built from updates: unset fields stay, null clears, a value replaces, a chunk appends.

The same updates always give the same transcript, live or replayed. Chunks with an id belong to the message of that id;
chunks without one continue the last item if that is a message of the same role, and begin a new message otherwise.
A transcript is bounded in bytes: its oldest items are dropped and counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from sys import getsizeof
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, structs

from duologue.conversation.builders import CHUNK_BYTES, MessageBuilder, TerminalBuffer, patched_meta
from duologue.conversation.content import TextContent, merge_text
from duologue.conversation.fields import convert_fields, patched_fields
from duologue.conversation.item_index import ITEM_BYTES, ItemIndex, Key, drop_oldest
from duologue.conversation.items import (
    BackgroundTask,
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
from duologue.conversation.tool_fields import tool_fields
from duologue.conversation.updates import (
    AvailableCommand,
    BackgroundTaskUpdate,
    CommandsUpdate,
    CompactionChunk,
    CompactionUpdate,
    InfoUpdate,
    MessageChunk,
    MessageUpdate,
    ModeUpdate,
    PlanRemovedUpdate,
    PlanUpdate,
    Role,
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

MAX_TRANSCRIPT_BYTES = 16 * 1024 * 1024
"""Memory for one session: more text than any model reads, and as much as may wait for a reader."""

T = TypeVar("T", Compaction, SessionMessage, ToolCall)
W = TypeVar("W", Subagent, BackgroundTask)
Changed = BackgroundTask | Item | Plan | Subagent | Terminal | Usage | None


class Transcript:
    """A session as of the last update.

    Attributes:
        plans: The plans by id; a plan without an id is under `None`.
        commands: The slash commands that the agent offers.
        settings: The config options with their values.
        modes: The modes, for agents that have no config options.
        title: The title of the session.
        updated_at: When the session was last changed, as the agent sent it.
        usage: Use of the context window, and the cost.
        subagents: The sessions that this one started, by id.
        background_tasks: Work that goes on between turns, by id, if the agent reports it.
        state: The state of the session, if the agent sends it.
        dropped: How many of the oldest items, terminals, plans and subagents were dropped to stay within the limit.

    Args:
        max_bytes: The memory the transcript may take, roughly; beyond that its oldest items are dropped until three
            quarters are left. An item that is larger by itself loses its beginning and is marked `is_truncated`.
            `None`: no limit.
    """

    def __init__(self, max_bytes: int | None = MAX_TRANSCRIPT_BYTES) -> None:
        self._items = ItemIndex()
        self._recent: MessageBuilder | None = None
        """The message of the last chunk, which the next one most likely continues."""
        self._max_bytes: float = math.inf if max_bytes is None else max_bytes
        self._added = 0
        """Upper bound of the bytes used: additions count at once, replaced parts are subtracted at the limit."""
        self.dropped = 0
        self.plans: dict[str | None, Plan] = {}
        self.commands: list[AvailableCommand] = []
        self.settings: list[ConfigOption] = []
        self.modes: Modes | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.usage: Usage | None = None
        self.subagents: dict[str, Subagent] = {}
        self.background_tasks: dict[str, BackgroundTask] = {}
        self.state: StateUpdate | None = None
        self._terminals: dict[str, TerminalBuffer] = {}

    @property
    def items(self) -> list[Item]:
        """Messages, tool calls and other items in the order of their first update, without dropped ones."""
        items = self._items.by_number.values()
        return [item.message if isinstance(item, MessageBuilder) else item for item in items]

    def __len__(self) -> int:
        return len(self._items.by_number)

    @property
    def position(self) -> int:
        """How many items there were so far, including dropped ones: the number of the next item."""
        return self._items.count

    @property
    def messages(self) -> list[Message]:
        """The messages among the items."""
        return [item for item in self.items if isinstance(item, Message)]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls among the items."""
        return [item for item in self.items if isinstance(item, ToolCall)]

    @property
    def plan(self) -> Plan | None:
        """The plan without an id, or else the first one."""
        return self.plans.get(None) or next(iter(self.plans.values()), None)

    @property
    def modes_shown(self) -> Modes | None:
        """The modes: from the config option of category `mode` if there is one, else from `modes`."""
        setting = next((each for each in self.settings if each.category == "mode"), None)
        if setting is None:
            return self.modes
        available = [Mode(option.value, option.name, option.description) for option in setting.choices]
        return Modes(str(setting.value), available)

    def tool_call(self, tool_call_id: str) -> ToolCall | None:
        """Return the tool call of this id."""
        item = self._items.get(("tool", tool_call_id))
        return item if isinstance(item, ToolCall) else None

    @property
    def terminals(self) -> list[Terminal]:
        """The terminals of commands that the agent runs or ran."""
        return [terminal.terminal for terminal in self._terminals.values()]

    def terminal(self, terminal_id: str) -> Terminal | None:
        """Return the terminal of this id."""
        terminal = self._terminals.get(terminal_id)
        return None if terminal is None else terminal.terminal

    def message(self, role: str, message_id: str) -> Message | None:
        """Return the message of this role and id."""
        item = self._message_of(role, message_id)
        return None if item is None else item.message

    def apply(self, update: Update) -> Changed:
        """Apply one update; return the changed item, plan, terminal, subagent, task or usage, if it changed one."""
        if isinstance(update, MessageChunk):
            self._chunk(update)
            return None
        return self._apply(update)

    def _apply(self, update: Update) -> Changed:
        self._added += (size := ITEM_BYTES + memory_size(update))
        if self._added > self._max_bytes:
            self._drop_oldest(size)
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
            case SubagentUpdate() | BackgroundTaskUpdate():
                return self._other_work(update)
            case _:
                self._apply_to_session(update, size)
        return None

    def _apply_to_session(self, update: Update, size: int) -> None:
        """Apply an update that changes the session and no item."""
        if size > self._max_bytes / 8:  # it would stay forever, and leave no memory for items
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
        """Mark the messages from item number `since` on as refused by the agent."""
        for _, item in self._items.since(since):
            if isinstance(item, MessageBuilder):
                item.mark_refused()

    def close_tool_calls(
        self, since: int, status: str | None, *, but: Sequence[str] = (), also: Sequence[str] = ()
    ) -> list[ToolCall]:
        """End the tool calls from item number `since` on, and `also` these earlier ones, that have no final status.

        Those in `but` are left alone. Without a status they keep the last one sent, and are marked as unsettled.
        """
        closed: list[ToolCall] = []
        earlier = self._items.before(since, [("tool", tool_call_id) for tool_call_id in also])
        for number, item in (*earlier, *self._items.since(since)):
            if isinstance(item, ToolCall) and not item.is_over and item.tool_call_id not in but:
                ended = structs.replace(item, status=status or item.status, is_unsettled=status is None)
                self._items.replace(number, ended)
                closed.append(ended)
        return closed

    # --- messages

    def append_text(self, role: Role, message_id: str | None, text: str) -> None:
        """Append plain text to a message, as most updates do; the message is not built before it is read."""
        self._added += (size := CHUNK_BYTES + (len(text) if text.isascii() else getsizeof(text)))
        if self._added > self._max_bytes:
            self._drop_oldest(size)
        message = self._recent
        if (
            message is None
            or message.message_id != message_id
            or message.role != role
            or (message_id is None and message is not self._items.last)
        ):
            message = self._continued(role, message_id)
        message.fresh.append(text)

    def _chunk(self, chunk: MessageChunk) -> None:
        content = chunk.content
        if type(content) is TextContent and not (content.annotations or content.meta or chunk.meta):
            self.append_text(chunk.role, chunk.message_id, content.text)
            return
        self._added += (size := memory_size(chunk))
        if self._added > self._max_bytes:
            self._drop_oldest(size)
        self._continued(chunk.role, chunk.message_id).append(chunk)

    def _whole_message(self, change: MessageUpdate) -> Message:
        message = self._continued(change.role, change.message_id)
        message.change(change)
        return message.message

    def _continued(self, role: Role, message_id: str | None) -> MessageBuilder:
        """Return the message that a chunk of this role and id continues, or a new one."""
        found = self._items.last if message_id is None else self._message_of(role, message_id)
        if not isinstance(found, MessageBuilder) or found.role != role or found.message_id != message_id:
            found = MessageBuilder(role, message_id)
            self._items.add(found, None if message_id is None else (role, message_id))
            self._added += ITEM_BYTES
        self._recent = found
        return found

    def _message_of(self, role: str, message_id: str) -> MessageBuilder | None:
        item = self._items.get((role, message_id))
        return item if isinstance(item, MessageBuilder) else None

    # --- the rest

    def _tool_call(self, change: ToolCallUpdate) -> ToolCall:
        key = ("tool", change.tool_call_id)
        # An update of an unknown call may be about one that was dropped; then most of the call is not known.
        may_be_rest = self.dropped > 0 and not change.is_new and change.kind is UNSET
        before = self._get_or_add(key, ToolCall(tool_call_id=change.tool_call_id, is_truncated=may_be_rest))
        fields = tool_fields(before, change)
        return self._put(key, before, meta=patched_meta(before.meta, change.meta), **fields)

    def _tool_content(self, chunk: ToolContentChunk) -> ToolCall:
        key = ("tool", chunk.tool_call_id)
        before = self._get_or_add(key, ToolCall(tool_call_id=chunk.tool_call_id))
        return self._put(key, before, content=[*before.content, *chunk.content])

    def _terminal(self, terminal_id: str) -> TerminalBuffer:
        return self._terminals.setdefault(terminal_id, TerminalBuffer(terminal_id))

    def _plan(self, change: PlanUpdate) -> Plan:
        plan = convert_fields(change, Plan, entries=list(change.entries or []))
        self.plans[change.plan_id] = plan
        return plan

    def set_mode(self, mode_id: str) -> None:
        """Set the current mode."""
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
        fresh = Compaction(compaction_id=change.compaction_id, status="in_progress")
        before = self._get_or_add(key, fresh)
        if isinstance(change, CompactionChunk):
            return self._put(key, before, summary=merge_text([*before.summary, change.content]))
        meta = patched_meta(None if change.replaces_meta else before.meta, change.meta)
        return self._put(key, before, meta=meta, **patched_fields(change, fresh))

    def _session_message(self, change: SessionMessageUpdate | SessionMessageChunk) -> SessionMessage:
        key = ("session message", change.message_id)
        fresh = SessionMessage(message_id=change.message_id)
        before = self._get_or_add(key, fresh)
        if isinstance(change, SessionMessageChunk):
            return self._put(key, before, content=merge_text([*before.content, change.content]))
        return self._put(key, before, meta=patched_meta(before.meta, change.meta), **patched_fields(change, fresh))

    def _other_work(self, change: SubagentUpdate | BackgroundTaskUpdate) -> Subagent | BackgroundTask:
        if isinstance(change, SubagentUpdate):
            subagent = Subagent(session_id=change.session_id)
            return _patch(self.subagents, change.session_id, subagent, change)
        return _patch(self.background_tasks, change.task_id, BackgroundTask(task_id=change.task_id), change)

    def _get_or_add(self, key: Key, fresh: T) -> T:
        found = self._items.get(key)
        if found is None:
            self._items.add(fresh, key)
            return fresh
        assert isinstance(found, type(fresh))
        return found

    def _put(self, key: Key, before: T, **fields: Any) -> T:
        after = structs.replace(before, **fields)
        self._items.put(key, after)
        return after

    def _drop_oldest(self, size: int) -> None:
        """Drop the oldest items to make space for an update of this size."""
        others: list[dict[Any, Any]] = [self._terminals, self.plans, self.subagents, self.background_tasks]
        used, dropped = drop_oldest(self._items, others, int(self._max_bytes))
        self._added = used + size
        self.dropped += dropped
        self._recent = None


def _patch(table: dict[str, W], key: str, fresh: W, change: SubagentUpdate | BackgroundTaskUpdate) -> W:
    """Apply a patch to the entry of a table, or to a fresh one, and return it."""
    before = table.get(key, fresh)
    meta = patched_meta(before.meta, change.meta)
    table[key] = after = structs.replace(before, meta=meta, **patched_fields(change, fresh))
    return after
