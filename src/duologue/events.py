"""Events of a turn, made for `match`:

    async for event in turn:
        match event:
            case Text(text=text): print(text, end="")
            case ToolCall(title=title, status="failed"): print("failed:", title)
            case Plan(entries=entries): show(entries)

Text arrives in chunks; other events carry the whole thing after the change, as the transcript has it. Every event has
`raw`, the frame as received, and `is_late`, which is true if it arrived after its turn had ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from duologue.conversation import updates
from duologue.conversation.content import Annotations, Content, JsonObject, TextContent
from duologue.conversation.fields import convert_fields
from duologue.conversation.items import (
    BackgroundTask,
    Compaction,
    Message,
    Plan,
    Received,
    SessionMessage,
    Subagent,
    Terminal,
    ToolCall,
    Usage,
)
from duologue.conversation.settings import ConfigOption
from duologue.conversation.updates import AvailableCommand, Role
from duologue.conversation.work_state import BackgroundWork
from duologue.usage.amounts import SessionUsage, TurnUsage

if TYPE_CHECKING:
    from duologue.conversation.transcript import Changed

__all__ = [
    "BackgroundTask",
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
    "UsageChanged",
    "UserText",
]


class _TextChunk(Received, frozen=True, kw_only=True, gc=False):
    text: str
    message_id: str | None = None
    annotations: Annotations | None = None
    meta: JsonObject | None = None


class Text(_TextChunk, frozen=True, kw_only=True, gc=False):
    """A chunk of a message of the agent."""


class Thought(_TextChunk, frozen=True, kw_only=True, gc=False):
    """A chunk of a thought of the agent."""


class UserText(_TextChunk, frozen=True, kw_only=True, gc=False):
    """A chunk of a message of the user: replayed, or sent back by the agent."""


class MediaContent(Received, frozen=True, kw_only=True):
    """An image, audio, link or resource in a message of the agent or the user."""

    role: Role
    content: Content
    message_id: str | None = None


class TerminalOutput(Received, frozen=True, kw_only=True):
    """Output of a terminal of the agent (v2)."""

    terminal_id: str
    data: bytes


class StateChanged(Received, frozen=True, kw_only=True):
    """The state of the session (v2): `running`, `requires_action`, `idle`, or a newer one.

    `background` is the work outside of the turn, if the agent reports it.
    """

    state: str
    stop_reason: str | None = None
    background: list[BackgroundWork] | None = None


class LocationChanged(Received, frozen=True, kw_only=True):
    """The file, and perhaps line, that a tool call of the agent works on."""

    path: str
    line: int | None = None
    tool_call_id: str | None = None


class PlanRemoved(Received, frozen=True, kw_only=True):
    """A plan was removed."""

    plan_id: str


class CommandsChanged(Received, frozen=True, kw_only=True):
    """The slash commands that the agent offers."""

    commands: list[AvailableCommand]


class ModeChanged(Received, frozen=True, kw_only=True):
    """The current mode changed."""

    mode_id: str


class SettingsChanged(Received, frozen=True, kw_only=True):
    """All config options of the session."""

    settings: list[ConfigOption]


class TitleChanged(Received, frozen=True, kw_only=True):
    """The title of the session, or `None` if it has none."""

    title: str | None = None
    updated_at: str | None = None
    meta: JsonObject | None = None


class Notice(Received, frozen=True, kw_only=True):
    """A notice for the user that is not part of the conversation."""

    severity: str
    title: str
    description: str | None = None


class StallDetected(Received, frozen=True, kw_only=True):
    """The turn had no activity for `seconds`, and no open tool call or permission request explains it."""

    seconds: float


class UsageChanged(Received, frozen=True, kw_only=True):
    """The usage of a turn that has ended, and of its session; only if the agent reports any."""

    turn: TurnUsage
    session: SessionUsage


class UnknownUpdate(Received, frozen=True, kw_only=True):
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
    | UsageChanged
    | Notice
    | Compaction
    | SessionMessage
    | Subagent
    | BackgroundTask
    | StallDetected
    | Message
    | Terminal
    | TerminalOutput
    | StateChanged
    | UnknownUpdate
)

TEXT_EVENTS: dict[str, type[Text | Thought | UserText]] = {"agent": Text, "thought": Thought, "user": UserText}
_EVENTS: dict[type, type[Event]] = {
    updates.PlanRemovedUpdate: PlanRemoved,
    updates.CommandsUpdate: CommandsChanged,
    updates.ModeUpdate: ModeChanged,
    updates.SettingsUpdate: SettingsChanged,
    updates.InfoUpdate: TitleChanged,
    updates.NoticeUpdate: Notice,
    updates.TerminalOutputChunk: TerminalOutput,
    updates.StateUpdate: StateChanged,
    updates.UnrecognizedUpdate: UnknownUpdate,
}
"""The events that have the fields of an update; those of the others are what the update changed."""


def event_of(update: updates.Update, changed: Changed, raw: bytes = b"", is_late: bool = False) -> Event:
    """Return the event of an update; `changed` is what `Transcript.apply` returned for it."""
    if changed is not None:
        return structs.replace(changed, raw=raw, is_late=is_late)
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
            return convert_fields(update, MediaContent, raw=raw, is_late=is_late)
        case updates.MessageUpdate():
            return convert_fields(update, Message, content=update.content or [], raw=raw, is_late=is_late)
        case _:
            return convert_fields(update, _EVENTS[type(update)], raw=raw, is_late=is_late)
