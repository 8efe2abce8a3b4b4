"""Updates folded into items: omitted leaves, null clears, a value replaces, a chunk appends.

The same updates always give the same transcript, live or replayed. Chunks with an id belong to the message of that id;
chunks without one go on with the last item if that is a message of the same role, and begin a new one otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, structs

from duologue.conversation.growing import GrowingMessage, GrowingTerminal, joined, patched_meta
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
from duologue.conversation.settings import Mode, Modes, Setting
from duologue.conversation.updates import (
    Command,
    CommandsChanged,
    CompactionChanged,
    CompactionChunk,
    FileChange,
    InfoChanged,
    MessageChanged,
    MessageChunk,
    ModeChanged,
    PlanChanged,
    PlanRemoved,
    SessionMessageChanged,
    SessionMessageChunk,
    SettingsChanged,
    StateChanged,
    SubagentChanged,
    TerminalChanged,
    TerminalOutputChunk,
    ToolCallChanged,
    ToolContent,
    ToolContentChunk,
    Update,
    UsageChanged,
)

__all__ = ["Transcript"]

_TOOL_FIELDS = ("title", "kind", "status", "content", "locations", "raw_input", "raw_output", "name", "can_cancel")
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
    """

    def __init__(self) -> None:
        self._items: list[Item | GrowingMessage] = []
        self.plans: dict[str | None, Plan] = {}
        self.commands: list[Command] = []
        self.settings: list[Setting] = []
        self.modes: Modes | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.usage: Usage | None = None
        self.subagents: dict[str, Subagent] = {}
        self.state: StateChanged | None = None
        self._terminals: dict[str, GrowingTerminal] = {}
        self._places: dict[tuple[str, str], int] = {}

    @property
    def items(self) -> list[Item]:
        """Everything said and done, in the order it first appeared."""
        return [item.message if isinstance(item, GrowingMessage) else item for item in self._items]

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
        match update:
            case MessageChunk():
                self._message(update)
            case ToolCallChanged():
                return self._tool_call(update)
            case ToolContentChunk():
                return self._tool_content(update)
            case MessageChanged():
                return self._whole_message(update)
            case TerminalOutputChunk():
                self._terminal(update.terminal_id).append(update.data)
            case TerminalChanged():
                terminal = self._terminal(update.terminal_id)
                terminal.change(update)
                return terminal.terminal
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
            case StateChanged():
                self.state = update
            case _:
                pass

    def _usage(self, change: UsageChanged) -> Usage:
        cost, currency = change.cost, change.currency
        if isinstance(cost, UnsetType):
            cost, currency = (None, None) if self.usage is None else (self.usage.cost, self.usage.currency)
        self.usage = Usage(used=change.used, size=change.size, cost=cost, currency=currency)
        return self.usage

    def mark_refused(self, since: int) -> None:
        """The agent refused: what was said from item number `since` on does not count any more."""
        for item in self._items[since:]:
            if isinstance(item, GrowingMessage):
                item.refuse()

    def close_tool_calls(self, since: int, status: str | None, *, but: Sequence[str] = ()) -> list[ToolCall]:
        """End the tool calls from item number `since` on that never ended themselves, `but` for these.

        Without a status they keep the last that was sent, and are marked as unsettled.
        """
        closed: list[ToolCall] = []
        for place in range(since, len(self._items)):
            item = self._items[place]
            if isinstance(item, ToolCall) and not item.is_over and item.tool_call_id not in but:
                ended = structs.replace(item, status=status or item.status, is_unsettled=status is None)
                self._items[place] = ended
                closed.append(ended)
        return closed

    # --- messages

    def _message(self, chunk: MessageChunk) -> None:
        """Nothing is returned, because nothing is put together before somebody looks."""
        message = self._going_on(chunk)
        if message is None:
            message = GrowingMessage(chunk)
            self._add(message, None if chunk.message_id is None else (chunk.role, chunk.message_id))
        message.append(chunk)

    def _whole_message(self, change: MessageChanged) -> Message:
        message = self._message_of(change.role, change.message_id)
        if message is None:
            message = GrowingMessage(change)
            self._add(message, (change.role, change.message_id))
        message.change(change)
        return message.message

    def _going_on(self, chunk: MessageChunk) -> GrowingMessage | None:
        """The message this chunk belongs to, if there is one already."""
        if chunk.message_id is not None:
            return self._message_of(chunk.role, chunk.message_id)
        item = self._items[-1] if self._items else None
        if not isinstance(item, GrowingMessage) or item.role != chunk.role:
            return None
        return item if item.message_id is None else None

    def _message_of(self, role: str, message_id: str) -> GrowingMessage | None:
        place = self._places.get((role, message_id))
        item = None if place is None else self._items[place]
        return item if isinstance(item, GrowingMessage) else None

    # --- the rest

    def _tool_call(self, change: ToolCallChanged) -> ToolCall:
        key, fresh = ("tool", change.tool_call_id), ToolCall(tool_call_id=change.tool_call_id)
        before = self._kept(key, fresh)
        fields = _said(change, fresh, _TOOL_FIELDS)
        if before.is_over and fields.get("status", before.status) != before.status:
            del fields["status"]  # a finished call stays finished
        if "status" in fields:
            fields["is_unsettled"] = False
        if "content" in fields and change.is_question:
            fields["permission_content"] = fields["content"]
            fields["content"] = _with_question(before, fields["content"])
        elif "content" in fields:
            fields["content"] = _with_changes_asked_about(before, fields["content"])
        return self._put(key, before, meta=patched_meta(before.meta, change.meta), **fields)

    def _tool_content(self, chunk: ToolContentChunk) -> ToolCall:
        key = ("tool", chunk.tool_call_id)
        before = self._kept(key, ToolCall(tool_call_id=chunk.tool_call_id))
        return self._put(key, before, content=[*before.content, *chunk.content])

    def _terminal(self, terminal_id: str) -> GrowingTerminal:
        return self._terminals.setdefault(terminal_id, GrowingTerminal(terminal_id))

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
            return self._put(key, before, summary=joined([*before.summary, change.content]))
        return self._put(
            key,
            before,
            status=change.status,
            summary=before.summary if change.summary is UNSET else list(change.summary or []),
            error=_patched(before.error, change.error),
            meta=patched_meta(None if change.replaces_meta else before.meta, change.meta),
        )

    def _session_message(self, change: SessionMessageChanged | SessionMessageChunk) -> SessionMessage:
        key = ("session message", change.message_id)
        before = self._kept(key, SessionMessage(message_id=change.message_id))
        if isinstance(change, SessionMessageChunk):
            return self._put(key, before, content=joined([*before.content, change.content]))
        return self._put(
            key,
            before,
            sender_session_id=_patched(before.sender_session_id, change.sender_session_id),
            recipient_session_id=_patched(before.recipient_session_id, change.recipient_session_id),
            content=before.content if change.content is UNSET else list(change.content or []),
            meta=patched_meta(before.meta, change.meta),
        )

    def _subagent(self, change: SubagentChanged) -> Subagent:
        fresh = Subagent(session_id=change.session_id)
        before = self.subagents.get(change.session_id, fresh)
        meta = patched_meta(before.meta, change.meta)
        after = structs.replace(before, meta=meta, **_said(change, fresh, _SUBAGENT_FIELDS))
        self.subagents[change.session_id] = after
        return after

    def _kept(self, key: tuple[str, str], fresh: T) -> T:
        if key not in self._places:
            self._add(fresh, key)
        kept = self._items[self._places[key]]
        assert isinstance(kept, type(fresh))
        return kept

    def _put(self, key: tuple[str, str], before: T, **fields: Any) -> T:
        after = structs.replace(before, **fields)
        self._items[self._places[key]] = after
        return after

    def _add(self, item: Item | GrowingMessage, key: tuple[str, str] | None) -> None:
        if key is not None:
            self._places[key] = len(self._items)
        self._items.append(item)


def _said(
    change: ToolCallChanged | SubagentChanged, fresh: ToolCall | Subagent, names: tuple[str, ...]
) -> dict[str, Any]:
    """What a patch says of these fields: what it clears is as it was at first."""
    said = {name: getattr(change, name) for name in names}
    return {
        name: getattr(fresh, name) if value is None else value for name, value in said.items() if value is not UNSET
    }


def _with_question(before: ToolCall, content: list[ToolContent]) -> list[ToolContent]:
    """What a call shows with what a permission request adds: agents put reasons there, and no output."""
    paths = _paths_of(content)
    own = [part for part in before.content if part not in before.permission_content and part not in content]
    return [*(part for part in own if not (isinstance(part, FileChange) and part.path in paths)), *content]


def _with_changes_asked_about(before: ToolCall, content: list[ToolContent]) -> list[ToolContent]:
    """New content of a call; changes that its permission request showed stay, unless it has newer ones."""
    changes = (part for part in before.permission_content if isinstance(part, FileChange))
    paths = _paths_of(content)
    return [*content, *(change for change in changes if change.path not in paths)]


def _paths_of(content: list[ToolContent]) -> set[str]:
    return {part.path for part in content if isinstance(part, FileChange)}


def _patched(before: str | None, change: str | None | UnsetType) -> str | None:
    return before if isinstance(change, UnsetType) else change
