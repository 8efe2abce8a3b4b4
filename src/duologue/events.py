"""What a client sees of a turn, made for `match`:

    async for event in turn:
        match event:
            case Text(text=text): print(text, end="")
            case ToolCall(title=title, status="failed"): print("failed:", title)
            case Plan(entries=entries): show(entries)

Text comes in pieces; everything else as it stands after the change. Every event has `raw`, the frame as it was
received, so that nothing an agent says is out of reach, and `is_late`, for what came after its turn had ended.
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
    """A piece of what the agent says."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class Thought(_Event, frozen=True, kw_only=True):
    """A piece of what the agent thinks."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class UserText(_Event, frozen=True, kw_only=True):
    """A piece of what the user said: replayed, or echoed by the agent."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class MediaContent(_Event, frozen=True, kw_only=True):
    """A picture, sound, link or resource in a message of the agent or the user."""

    role: Role
    content: Content
    message_id: str | None = None


class Message(items.Message, frozen=True, kw_only=True):
    """A whole message, instead of what was said of it before."""

    raw: bytes = b""
    is_late: bool = False


class ToolCall(items.ToolCall, frozen=True, kw_only=True):
    """A tool call began or changed; here is all of it."""

    raw: bytes = b""
    is_late: bool = False


class Terminal(items.Terminal, frozen=True, kw_only=True):
    """A command that the agent itself runs began, changed or ended; here is all of it."""

    raw: bytes = b""
    is_late: bool = False


class TerminalOutput(_Event, frozen=True, kw_only=True):
    """Such a command has printed this."""

    terminal_id: str
    data: bytes


class StateChanged(_Event, frozen=True, kw_only=True):
    """What the session is doing: `running`, `requires_action`, `idle`, or something newer; agents of version 2 say so.

    `background` is what goes on beside the turn, if the agent tells.
    """

    state: str
    stop_reason: str | None = None
    background: list[BackgroundWork] | None = None


class LocationChanged(_Event, frozen=True, kw_only=True):
    """The agent works here now."""

    path: str
    line: int | None = None
    tool_call_id: str | None = None


class Plan(items.Plan, frozen=True, kw_only=True):
    """A plan, whole."""

    raw: bytes = b""
    is_late: bool = False


class PlanRemoved(_Event, frozen=True, kw_only=True):
    """A named plan is no more."""

    plan_id: str


class CommandsChanged(_Event, frozen=True, kw_only=True):
    """The slash commands on offer."""

    commands: list[AvailableCommand]


class ModeChanged(_Event, frozen=True, kw_only=True):
    """The agent works in another mode now."""

    mode_id: str


class SettingsChanged(_Event, frozen=True, kw_only=True):
    """The settings, all of them."""

    settings: list[ConfigOption]


class TitleChanged(_Event, frozen=True, kw_only=True):
    """The session's title, or that it has none."""

    title: str | None
    updated_at: str | None = None
    meta: JsonObject | None = None


class Usage(items.Usage, frozen=True, kw_only=True):
    """How full the context is, and what the session has cost."""

    raw: bytes = b""
    is_late: bool = False


class Notice(_Event, frozen=True, kw_only=True):
    """Something to see now that is no part of the conversation."""

    severity: str
    title: str
    description: str | None = None


class Compaction(items.Compaction, frozen=True, kw_only=True):
    """The agent shortens its context."""

    raw: bytes = b""
    is_late: bool = False


class SessionMessage(items.SessionMessage, frozen=True, kw_only=True):
    """A message between two sessions of the agent."""

    raw: bytes = b""
    is_late: bool = False


class Subagent(items.Subagent, frozen=True, kw_only=True):
    """A session the agent started by itself."""

    raw: bytes = b""
    is_late: bool = False


class StallDetected(_Event, frozen=True, kw_only=True):
    """Nothing was heard of the turn for so long, and nothing is open that would explain it."""

    seconds: float


class UnknownUpdate(_Event, frozen=True, kw_only=True):
    """An update this version does not know, as it came."""

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

_SPOKEN: dict[str, type[Text | Thought | UserText]] = {"agent": Text, "thought": Thought, "user": UserText}
_WHOLE: dict[type, type[ToolCall | Plan | Usage | Compaction | SessionMessage | Subagent | Message | Terminal]] = {
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
    """The event an update is to its client; `changed` is what it made of the transcript."""
    whole = _WHOLE.get(type(changed))
    if whole is not None:
        fields = {name: getattr(changed, name) for name in type(changed).__struct_fields__}  # type: ignore[attr-defined]
        return whole(**fields, raw=raw, is_late=is_late)
    match update:
        case updates.MessageChunk(content=TextContent() as content):
            return _SPOKEN[update.role](
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
