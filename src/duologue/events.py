"""Events of a turn, made for `match`:

    async for event in turn:
        match event:
            case Text(text=text): print(text, end="")
            case ToolCall(title=title, status="failed"): print("failed:", title)
            case Plan(entries=entries): show(entries)

Text arrives in chunks; other events carry the whole thing after the change. Every event has `raw`, the frame as
received, and `is_late`, which is true if it arrived after its turn had ended.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from duologue.conversation import items, updates
from duologue.conversation.content import Annotations, Content, JsonObject, TextContent
from duologue.conversation.settings import ConfigOption
from duologue.conversation.updates import AvailableCommand, Role
from duologue.conversation.work_state import BackgroundWork

__all__ = [
    "CommandsChanged",
    "Compaction",
    "Event",
    "LocationChanged",
    "MediaContent",
    "Message",
    "ModeChanged",
    "Notice",
    "Plan",
    "PlanRemoved",
    "SessionMessage",
    "SettingsChanged",
    "StallDetected",
    "StateChanged",
    "Subagent",
    "Terminal",
    "TerminalOutput",
    "Text",
    "Thought",
    "TitleChanged",
    "ToolCall",
    "UnknownUpdate",
    "Usage",
    "UserText",
]


class _Event(Struct, frozen=True, kw_only=True):
    raw: bytes = b""
    is_late: bool = False


class Text(_Event, frozen=True, kw_only=True):
    """A chunk of a message of the agent."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class Thought(_Event, frozen=True, kw_only=True):
    """A chunk of a thought of the agent."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class UserText(_Event, frozen=True, kw_only=True):
    """A chunk of a message of the user: replayed, or sent back by the agent."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class MediaContent(_Event, frozen=True, kw_only=True):
    """An image, audio, link or resource in a message of the agent or the user."""

    role: Role
    content: Content
    message_id: str | None = None


class Message(items.Message, frozen=True, kw_only=True):
    """A whole message that replaces the chunks received for it."""

    raw: bytes = b""
    is_late: bool = False


class ToolCall(items.ToolCall, frozen=True, kw_only=True):
    """A tool call that began or changed, with all its fields."""

    raw: bytes = b""
    is_late: bool = False


class Terminal(items.Terminal, frozen=True, kw_only=True):
    """A terminal of the agent (v2): its command began, changed or ended."""

    raw: bytes = b""
    is_late: bool = False


class TerminalOutput(_Event, frozen=True, kw_only=True):
    """Output of a terminal of the agent (v2)."""

    terminal_id: str
    data: bytes


class StateChanged(_Event, frozen=True, kw_only=True):
    """The state of the session (v2): `running`, `requires_action`, `idle`, or a newer one.

    `background` is the work outside of the turn, if the agent reports it.
    """

    state: str
    stop_reason: str | None = None
    background: list[BackgroundWork] | None = None


class LocationChanged(_Event, frozen=True, kw_only=True):
    """The file, and perhaps line, that a tool call of the agent works on."""

    path: str
    line: int | None = None
    tool_call_id: str | None = None


class Plan(items.Plan, frozen=True, kw_only=True):
    """The whole plan."""

    raw: bytes = b""
    is_late: bool = False


class PlanRemoved(_Event, frozen=True, kw_only=True):
    """A plan was removed."""

    plan_id: str


class CommandsChanged(_Event, frozen=True, kw_only=True):
    """The slash commands that the agent offers."""

    commands: list[AvailableCommand]


class ModeChanged(_Event, frozen=True, kw_only=True):
    """The current mode changed."""

    mode_id: str


class SettingsChanged(_Event, frozen=True, kw_only=True):
    """All config options of the session."""

    settings: list[ConfigOption]


class TitleChanged(_Event, frozen=True, kw_only=True):
    """The title of the session, or `None` if it has none."""

    title: str | None
    updated_at: str | None = None
    meta: JsonObject | None = None


class Usage(items.Usage, frozen=True, kw_only=True):
    """Use of the context window (tokens), and the cost of the session."""

    raw: bytes = b""
    is_late: bool = False


class Notice(_Event, frozen=True, kw_only=True):
    """A notice for the user that is not part of the conversation."""

    severity: str
    title: str
    description: str | None = None


class Compaction(items.Compaction, frozen=True, kw_only=True):
    """The agent compacts its context."""

    raw: bytes = b""
    is_late: bool = False


class SessionMessage(items.SessionMessage, frozen=True, kw_only=True):
    """A message between two sessions of the agent."""

    raw: bytes = b""
    is_late: bool = False


class Subagent(items.Subagent, frozen=True, kw_only=True):
    """A session that the agent started."""

    raw: bytes = b""
    is_late: bool = False


class StallDetected(_Event, frozen=True, kw_only=True):
    """The turn had no activity for `seconds`, and no open tool call or permission request explains it."""

    seconds: float


class UnknownUpdate(_Event, frozen=True, kw_only=True):
    """An update that this version does not know, unchanged."""

    tag: str | None
    fields: JsonObject


Event: TypeAlias = (
    Text
    | Thought
    | UserText
    | MediaContent
    | ToolCall
    | LocationChanged
    | Plan
    | PlanRemoved
    | CommandsChanged
    | ModeChanged
    | SettingsChanged
    | TitleChanged
    | Usage
    | Notice
    | Compaction
    | SessionMessage
    | Subagent
    | StallDetected
    | Message
    | Terminal
    | TerminalOutput
    | StateChanged
    | UnknownUpdate
)

TEXT_EVENTS: dict[str, type[Text | Thought | UserText]] = {"agent": Text, "thought": Thought, "user": UserText}
_ITEM_EVENTS: dict[
    type, type[ToolCall | Plan | Usage | Compaction | SessionMessage | Subagent | Message | Terminal]
] = {
    items.Message: Message,
    items.Terminal: Terminal,
    items.ToolCall: ToolCall,
    items.Plan: Plan,
    items.Usage: Usage,
    items.Compaction: Compaction,
    items.SessionMessage: SessionMessage,
    items.Subagent: Subagent,
}


def event_of(update: updates.Update, changed: object, raw: bytes = b"", is_late: bool = False) -> Event:
    """Return the event of an update; `changed` is what `Transcript.apply` returned for it."""
    event_class = _ITEM_EVENTS.get(type(changed))
    if event_class is not None:
        fields = {name: getattr(changed, name) for name in type(changed).__struct_fields__}  # type: ignore[attr-defined]
        return event_class(**fields, raw=raw, is_late=is_late)
    match update:
        case updates.MessageChunk(content=TextContent() as content):
            return TEXT_EVENTS[update.role](
                text=content.text,
                message_id=update.message_id,
                annotations=content.annotations,
                meta=update.meta if isinstance(update.meta, dict) else None,
                raw=raw,
                is_late=is_late,
            )
        case updates.MessageChunk():
            return MediaContent(
                role=update.role, content=update.content, message_id=update.message_id, raw=raw, is_late=is_late
            )
        case updates.PlanRemovedUpdate():
            return PlanRemoved(plan_id=update.plan_id, raw=raw, is_late=is_late)
        case updates.CommandsUpdate():
            return CommandsChanged(commands=update.commands, raw=raw, is_late=is_late)
        case updates.ModeUpdate():
            return ModeChanged(mode_id=update.mode_id, raw=raw, is_late=is_late)
        case updates.SettingsUpdate():
            return SettingsChanged(settings=update.settings, raw=raw, is_late=is_late)
        case updates.InfoUpdate():
            title = update.title if isinstance(update.title, str) else None
            touched = update.updated_at if isinstance(update.updated_at, str) else None
            meta = update.meta if isinstance(update.meta, dict) else None
            return TitleChanged(title=title, updated_at=touched, meta=meta, raw=raw, is_late=is_late)
        case updates.NoticeUpdate():
            return Notice(
                severity=update.severity, title=update.title, description=update.description, raw=raw, is_late=is_late
            )
        case _:
            return _rarer_event(update, raw, is_late)


def _rarer_event(update: updates.Update, raw: bytes, is_late: bool) -> Event:
    match update:
        case updates.MessageUpdate():
            content = update.content if isinstance(update.content, list) else []
            return Message(role=update.role, content=content, message_id=update.message_id, raw=raw, is_late=is_late)
        case updates.TerminalOutputChunk():
            return TerminalOutput(terminal_id=update.terminal_id, data=update.data, raw=raw, is_late=is_late)
        case updates.StateUpdate():
            return StateChanged(
                state=update.state,
                stop_reason=update.stop_reason,
                background=update.background,
                raw=raw,
                is_late=is_late,
            )
        case updates.UnrecognizedUpdate():
            return UnknownUpdate(tag=update.tag, fields=update.fields, raw=raw, is_late=is_late)
        case _:
            return UnknownUpdate(tag=type(update).__name__, fields={}, raw=raw, is_late=is_late)
