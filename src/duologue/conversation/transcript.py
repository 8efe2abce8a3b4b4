"""Updates folded into items: omitted leaves, null clears, a value replaces, a chunk appends.

The same updates always give the same transcript, live or replayed. Chunks with an id belong to the message of that id;
chunks without one go on with the last item if that is a message of the same role, and begin a new one otherwise.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, structs

from duologue.conversation.content import Content, JsonObject, TextContent
from duologue.conversation.items import (
    Compaction,
    Item,
    Message,
    Plan,
    SessionMessage,
    Subagent,
    ToolCall,
    Usage,
)
from duologue.conversation.settings import Mode, Modes, Setting
from duologue.conversation.updates import (
    Command,
    CommandsChanged,
    CompactionChanged,
    CompactionChunk,
    InfoChanged,
    MessageChunk,
    ModeChanged,
    PlanChanged,
    PlanRemoved,
    Role,
    SessionMessageChanged,
    SessionMessageChunk,
    SettingsChanged,
    SubagentChanged,
    ToolCallChanged,
    Update,
    UsageChanged,
)

__all__ = ["Transcript"]

T = TypeVar("T", Compaction, SessionMessage)
Changed = Item | Plan | Subagent | Usage | None


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
    """

    def __init__(self) -> None:
        self._items: list[Item | _GrowingMessage] = []
        self.plans: dict[str | None, Plan] = {}
        self.commands: list[Command] = []
        self.settings: list[Setting] = []
        self.modes: Modes | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.usage: Usage | None = None
        self.subagents: dict[str, Subagent] = {}
        self._places: dict[tuple[str, str], int] = {}

    @property
    def items(self) -> list[Item]:
        """Everything said and done, in the order it first appeared."""
        return [item.message if isinstance(item, _GrowingMessage) else item for item in self._items]

    def __len__(self) -> int:
        return len(self._items)

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
        place = self._places.get(("tool", tool_call_id))
        item = self._items[place] if place is not None else None
        return item if isinstance(item, ToolCall) else None

    def apply(self, update: Update) -> Changed:
        """Fold one update in; what it changed, as it stands now, if that is an item of its own."""
        match update:
            case MessageChunk():
                self._message(update)
            case ToolCallChanged():
                return self._tool_call(update)
            case PlanChanged():
                return self._plan(update)
            case UsageChanged():
                return self._usage(update)
            case CompactionChanged() | CompactionChunk():
                return self._compaction(update)
            case SessionMessageChanged() | SessionMessageChunk():
                return self._session_message(update)
            case SubagentChanged():
                return self._subagent(update)
            case _:
                self._note(update)
        return None

    def _note(self, update: Update) -> None:
        """What changes the session's state and is no item of its own."""
        match update:
            case PlanRemoved():
                self.plans.pop(update.plan_id, None)
            case CommandsChanged():
                self.commands = list(update.commands)
            case SettingsChanged():
                self.settings = list(update.settings)
            case ModeChanged():
                self.set_mode(update.mode_id)
            case InfoChanged():
                self.title = self.title if update.title is UNSET else update.title
                self.updated_at = self.updated_at if update.updated_at is UNSET else update.updated_at
            case _:
                pass

    def _usage(self, change: UsageChanged) -> Usage:
        self.usage = Usage(used=change.used, size=change.size, cost=change.cost, currency=change.currency)
        return self.usage

    def mark_refused(self, since: int) -> None:
        """The agent refused: what was said from item number `since` on does not count any more."""
        for item in self._items[since:]:
            if isinstance(item, _GrowingMessage):
                item.refuse()

    def close_tool_calls(self, since: int, status: str) -> list[ToolCall]:
        """End the tool calls from item number `since` on that never ended themselves."""
        closed: list[ToolCall] = []
        for place in range(since, len(self._items)):
            item = self._items[place]
            if isinstance(item, ToolCall) and not item.is_over:
                ended = structs.replace(item, status=status)
                self._items[place] = ended
                closed.append(ended)
        return closed

    # --- messages

    def _message(self, chunk: MessageChunk) -> None:
        """Nothing is returned: a message of ten thousand chunks must not be put together ten thousand times."""
        message = self._going_on(chunk)
        if message is None:
            message = _GrowingMessage(chunk)
            self._add(message, None if chunk.message_id is None else (chunk.role, chunk.message_id))
        message.append(chunk)

    def _going_on(self, chunk: MessageChunk) -> _GrowingMessage | None:
        """The message this chunk belongs to, if there is one already."""
        if chunk.message_id is not None:
            place = self._places.get((chunk.role, chunk.message_id))
            item = None if place is None else self._items[place]
        else:
            item = self._items[-1] if self._items else None
        if not isinstance(item, _GrowingMessage) or item.role != chunk.role:
            return None
        return item if item.message_id == chunk.message_id else None

    # --- the rest

    def _tool_call(self, change: ToolCallChanged) -> ToolCall:
        before = self.tool_call(change.tool_call_id)
        if before is None:
            before = ToolCall(tool_call_id=change.tool_call_id)
            self._add(before, ("tool", change.tool_call_id))
        fresh = ToolCall(tool_call_id=change.tool_call_id)
        fields: dict[str, Any] = {}
        for name in ("title", "kind", "status", "content", "locations", "raw_input", "raw_output", "name"):
            value = getattr(change, name)
            if value is not UNSET:
                fields[name] = getattr(fresh, name) if value is None else value
        if before.is_over and fields.get("status", before.status) != before.status:
            del fields["status"]  # a finished call stays finished
        if change.meta is not UNSET:
            fields["meta"] = change.meta
        after = structs.replace(before, **fields)
        self._items[self._places["tool", change.tool_call_id]] = after
        return after

    def _plan(self, change: PlanChanged) -> Plan:
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

    def _compaction(self, change: CompactionChanged | CompactionChunk) -> Compaction:
        key = ("compaction", change.compaction_id)
        before = self._kept(key, Compaction(compaction_id=change.compaction_id, status="in_progress"))
        if isinstance(change, CompactionChunk):
            after = structs.replace(before, summary=_appended(before.summary, change.content))
        else:
            after = structs.replace(
                before,
                status=change.status,
                summary=before.summary if change.summary is UNSET else list(change.summary or []),
                error=before.error if change.error is UNSET else change.error,
                meta=before.meta if change.meta is UNSET else change.meta,
            )
        self._items[self._places[key]] = after
        return after

    def _session_message(self, change: SessionMessageChanged | SessionMessageChunk) -> SessionMessage:
        key = ("session message", change.message_id)
        before = self._kept(key, SessionMessage(message_id=change.message_id))
        if isinstance(change, SessionMessageChunk):
            after = structs.replace(before, content=_appended(before.content, change.content))
        else:
            after = structs.replace(
                before,
                sender_session_id=_patched(before.sender_session_id, change.sender_session_id),
                recipient_session_id=_patched(before.recipient_session_id, change.recipient_session_id),
                content=before.content if change.content is UNSET else list(change.content or []),
                meta=before.meta if change.meta is UNSET else change.meta,
            )
        self._items[self._places[key]] = after
        return after

    def _subagent(self, change: SubagentChanged) -> Subagent:
        before = self.subagents.get(change.session_id, Subagent(session_id=change.session_id))
        fresh = Subagent(session_id=change.session_id)
        fields: dict[str, Any] = {}
        for name in ("title", "description", "state", "can_cancel", "cwd", "additional_directories", "meta"):
            value = getattr(change, name)
            if value is not UNSET:
                fields[name] = getattr(fresh, name) if value is None else value
        after = self.subagents[change.session_id] = structs.replace(before, **fields)
        return after

    def _kept(self, key: tuple[str, str], fresh: T) -> T:
        if key not in self._places:
            self._add(fresh, key)
        kept = self._items[self._places[key]]
        assert isinstance(kept, type(fresh))
        return kept

    def _add(self, item: Item | _GrowingMessage, key: tuple[str, str] | None) -> None:
        if key is not None:
            self._places[key] = len(self._items)
        self._items.append(item)


class _GrowingMessage:
    """A message that is still being written: chunks are collected, and put together when somebody looks."""

    def __init__(self, first: MessageChunk) -> None:
        self.role: Role = first.role
        self.message_id = first.message_id
        self._meta: JsonObject | None = None
        self._is_refused = False
        self._blocks: list[Content] = []
        self._fresh: list[Content] = []
        self._message: Message | None = None

    def append(self, chunk: MessageChunk) -> None:
        self._fresh.append(chunk.content)
        self._message = None
        if isinstance(chunk.meta, dict):
            self._meta = {**(self._meta or {}), **chunk.meta}

    def refuse(self) -> None:
        self._is_refused = True
        self._message = None

    @property
    def message(self) -> Message:
        if self._message is None:
            self._blocks = _joined([*self._blocks, *self._fresh])
            self._fresh = []
            self._message = Message(
                role=self.role,
                content=self._blocks,
                message_id=self.message_id,
                is_refused=self._is_refused,
                meta=self._meta,
            )
        return self._message


def _joined(blocks: list[Content]) -> list[Content]:
    """Text goes on where text ended; everything else is a block of its own."""
    joined: list[Content] = []
    texts: list[str] = []

    def close_text() -> None:
        last = joined[-1] if joined else None
        if len(texts) > 1 and isinstance(last, TextContent):
            joined[-1] = structs.replace(last, text="".join(texts))
        texts.clear()

    for block in blocks:
        last = joined[-1] if joined else None
        if isinstance(block, TextContent):
            if texts and isinstance(last, TextContent) and last.annotations == block.annotations:
                texts.append(block.text)
                continue
            close_text()
            texts.append(block.text)
        else:
            close_text()
        joined.append(block)
    close_text()
    return joined


def _appended(blocks: list[Content], block: Content) -> list[Content]:
    return _joined([*blocks, block])


def _patched(before: str | None, change: str | None | UnsetType) -> str | None:
    return before if isinstance(change, UnsetType) else change
