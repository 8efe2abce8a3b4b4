"""The steps of a conversation as they travel: what an agent tells, and what a client folds into a transcript.

Patches have three states: `UNSET` leaves what is there, `None` clears it, a value replaces it; chunks append. What is
attached (`meta`) is patched key by key, and a key that is `None` goes away. Every update can be written to a store and
read back (`decode_update`, `encode_update`); replaying a session is sending its updates again.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.settings import ConfigOption
from duologue.conversation.tool_content import ContentPart, FileChange, Location, TerminalPart, ToolContent, UnknownPart
from duologue.conversation.work_state import BackgroundWork, Failure, TerminalExit, TerminalSize, TokenUsage

__all__ = [
    "UNSET",
    "AvailableCommand",
    "CommandsUpdate",
    "CompactionChunk",
    "CompactionUpdate",
    "ContentPart",
    "FileChange",
    "InfoUpdate",
    "Location",
    "MessageChunk",
    "MessageUpdate",
    "ModeUpdate",
    "NoticeUpdate",
    "PlanEntry",
    "PlanRemovedUpdate",
    "PlanUpdate",
    "Role",
    "SessionMessageChunk",
    "SessionMessageUpdate",
    "SettingsUpdate",
    "StateUpdate",
    "SubagentUpdate",
    "TerminalOutputChunk",
    "TerminalPart",
    "TerminalUpdate",
    "ToolCallUpdate",
    "ToolContent",
    "ToolContentChunk",
    "UnknownPart",
    "UnrecognizedUpdate",
    "UnsetType",
    "Update",
    "UsageUpdate",
    "decode_update",
    "encode_update",
]

Role: TypeAlias = Literal["agent", "user", "thought"]
"""Whose words: the agent's, the user's, or the agent thinking aloud."""


class _Update(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="update", gc=False):
    meta: JsonObject | None | UnsetType = UNSET


class MessageChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="message_chunk"):
    """A piece of a message; pieces with one `message_id` are one message."""

    role: Role
    content: Content
    message_id: str | None = None


class MessageUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="message"):
    """A whole message: its content replaces what was said under that id, and chunks that follow append to it."""

    role: Role
    message_id: str
    content: list[Content] | None | UnsetType = UNSET


class ToolCallUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="tool_call"):
    """A tool call begins (`is_new`) or goes on; only what is set changes."""

    tool_call_id: str
    title: str | None | UnsetType = UNSET
    kind: str | None | UnsetType = UNSET
    status: str | None | UnsetType = UNSET
    content: list[ToolContent] | None | UnsetType = UNSET
    locations: list[Location] | None | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    name: str | None | UnsetType = UNSET
    is_new: bool = False
    can_cancel: bool | None | UnsetType = UNSET
    """Whether a client may cancel this call alone."""
    is_question: bool = False
    """It came with a permission request: its content is added to what the call shows, and replaces nothing."""


class ToolContentChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="tool_call_chunk"):
    """More of what a tool call shows, after what it shows already: one part, or several changes to files."""

    tool_call_id: str
    content: list[ToolContent]


class TerminalUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="terminal"):
    """A command the agent runs, for the client to show; only what is set changes.

    `output` is all it has printed, replacing what was known; an `exit` without a code means that it has ended.
    """

    terminal_id: str
    command: str | None | UnsetType = UNSET
    cwd: str | None | UnsetType = UNSET
    output: bytes | None | UnsetType = UNSET
    exit: TerminalExit | None | UnsetType = UNSET
    size: TerminalSize | None | UnsetType = UNSET
    can_cancel: bool | None | UnsetType = UNSET


class TerminalOutputChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="terminal_chunk"):
    """What such a command has printed since."""

    terminal_id: str
    data: bytes


class StateUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="state"):
    """What the session is doing: `running`, `requires_action`, `idle`, `unknown`, or one this version does not know.

    Only `idle` says that the work has ended, and then why. It is a snapshot: hearing it twice means nothing more.
    `background` is `None` if the agent does not say what goes on beside the turn.
    """

    state: str
    stop_reason: str | None = None
    error: Failure | None = None
    usage: TokenUsage | None = None
    background: list[BackgroundWork] | None = None
    other: JsonObject | None = None
    """A state this version does not know, as it came."""


class PlanEntry(Struct, frozen=True, omit_defaults=True):
    """One step of a plan.

    Priority: `high`, `medium`, `low`. Status: `pending`, `in_progress`, `completed`, `cancelled`.
    """

    content: str
    status: str = "pending"
    priority: str = "medium"
    meta: JsonObject | None = None


class PlanUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="plan"):
    """The whole plan, replacing the one before: entries, or a file, or Markdown.

    `plan_id` is `None` for the one plan a session has when plans have no names.
    """

    plan_id: str | None = None
    entries: list[PlanEntry] | None = None
    uri: str | None = None
    markdown: str | None = None
    other: JsonObject | None = None
    """A kind of plan this version does not know, as it came."""


class PlanRemovedUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="plan_removed"):
    """A named plan is no more."""

    plan_id: str


class AvailableCommand(Struct, frozen=True, omit_defaults=True):
    """A slash command the agent offers; `hint` says what may follow it."""

    name: str
    description: str
    hint: str | None = None
    meta: JsonObject | None = None
    other: JsonObject | None = None
    """A kind of command this version does not know, as it came."""


class CommandsUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="commands"):
    """The commands on offer, all of them."""

    commands: list[AvailableCommand]


class ModeUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="mode"):
    """The agent works in another mode now."""

    mode_id: str


class SettingsUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="settings"):
    """The settings of the session, all of them."""

    settings: list[ConfigOption]


class InfoUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="info"):
    """The session has another title, or was touched."""

    title: str | None | UnsetType = UNSET
    updated_at: str | None | UnsetType = UNSET


class UsageUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="usage"):
    """How full the context is, and what the session has cost so far; a cost that is not set is as it was."""

    used: int
    size: int
    cost: float | None | UnsetType = UNSET
    currency: str | None = None


class NoticeUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="notice"):
    """Something the user should see now; it is not part of the conversation."""

    severity: str
    title: str
    description: str | None = None


class CompactionUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="compaction"):
    """The agent shortens its context: `in_progress`, then `completed`, `failed` or `cancelled`."""

    compaction_id: str
    status: str
    summary: list[Content] | None | UnsetType = UNSET
    error: str | None | UnsetType = UNSET
    replaces_meta: bool = False
    """What is attached replaces all that was, rather than key by key."""


class CompactionChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="compaction_chunk"):
    """A piece of the summary a compaction is writing."""

    compaction_id: str
    content: Content


class SubagentUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="subagent"):
    """A session started by this one, and what it is doing; only what is set changes."""

    session_id: str
    title: str | None | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    state: JsonObject | None | UnsetType = UNSET
    can_cancel: bool | None | UnsetType = UNSET
    cwd: str | None | UnsetType = UNSET
    additional_directories: list[str] | None | UnsetType = UNSET


class SessionMessageUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="session_message"):
    """A message between two sessions of one agent."""

    message_id: str
    sender_session_id: str | None | UnsetType = UNSET
    recipient_session_id: str | None | UnsetType = UNSET
    sender_message_id: str | None | UnsetType = UNSET
    recipient_message_id: str | None | UnsetType = UNSET
    content: list[Content] | None | UnsetType = UNSET


class SessionMessageChunk(
    _Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="session_message_chunk"
):
    """A piece of a message between two sessions."""

    message_id: str
    content: Content


class UnrecognizedUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="?"):
    """An update this version does not know, as it came."""

    tag: str | None
    fields: JsonObject


Update: TypeAlias = (
    MessageChunk
    | MessageUpdate
    | ToolCallUpdate
    | ToolContentChunk
    | TerminalUpdate
    | TerminalOutputChunk
    | StateUpdate
    | PlanUpdate
    | PlanRemovedUpdate
    | CommandsUpdate
    | ModeUpdate
    | SettingsUpdate
    | InfoUpdate
    | UsageUpdate
    | NoticeUpdate
    | CompactionUpdate
    | CompactionChunk
    | SubagentUpdate
    | SessionMessageUpdate
    | SessionMessageChunk
    | UnrecognizedUpdate
)

_encoder = msgspec.json.Encoder()


@cache
def _decoder() -> msgspec.json.Decoder[Update]:
    return msgspec.json.Decoder(Update)


def encode_update(update: Update) -> bytes:
    """An update as bytes for a store; not what travels on the wire."""
    return _encoder.encode(update)


def decode_update(stored: bytes) -> Update:
    """What `encode_update` wrote.

    Raises:
        ValueError: It was damaged, or written by a newer version.
    """
    return _decoder().decode(stored)
