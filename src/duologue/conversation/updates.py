"""The steps of a conversation as they travel: what an agent tells, and what a client folds into a transcript.

Patches have three states: `UNSET` leaves what is there, `None` clears it, a value replaces it; chunks append. Every
update can be written to a store and read back (`decode_update`, `encode_update`); replaying a session is sending its
updates again.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.settings import Setting

__all__ = [
    "UNSET",
    "Command",
    "CommandsChanged",
    "CompactionChanged",
    "CompactionChunk",
    "ContentPart",
    "FileChange",
    "InfoChanged",
    "Location",
    "MessageChunk",
    "ModeChanged",
    "Notice",
    "PlanChanged",
    "PlanEntry",
    "PlanRemoved",
    "Role",
    "SessionMessageChanged",
    "SessionMessageChunk",
    "SettingsChanged",
    "SubagentChanged",
    "TerminalPart",
    "ToolCallChanged",
    "ToolContent",
    "UnknownPart",
    "UnknownUpdate",
    "UnsetType",
    "Update",
    "UsageChanged",
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


class Location(Struct, frozen=True, omit_defaults=True):
    """A place in a file that a tool works on; lines count from 1."""

    path: str
    line: int | None = None
    meta: JsonObject | None = None


class ContentPart(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="content"):
    """Content a tool produced."""

    content: Content
    meta: JsonObject | None = None


class FileChange(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="change"):
    """A change to one file, whole texts where they are known.

    `old_text` is `None` for a file that did not exist, `new_text` is `None` for one that is gone. `operation` is
    `add`, `delete`, `modify`, `move` or `copy`; the last two carry `old_path`.
    """

    path: str
    old_text: str | None = None
    new_text: str | None = None
    operation: str | None = None
    old_path: str | None = None
    file_type: str | None = None
    mime_type: str | None = None
    patch: str | None = None
    """The same change as a git patch, where the peer speaks in patches."""
    meta: JsonObject | None = None

    @property
    def kind(self) -> str:
        """The operation, inferred from the texts when it was not said."""
        if self.operation is not None:
            return self.operation
        if self.new_text is None:
            return "delete"
        return "add" if self.old_text is None else "modify"


class TerminalPart(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="terminal"):
    """The live output of a terminal, shown inside the tool call."""

    terminal_id: str
    meta: JsonObject | None = None


class UnknownPart(Struct, frozen=True, tag_field="part", tag="?"):
    """A kind of tool content this version does not know, as it came."""

    fields: JsonObject


ToolContent: TypeAlias = ContentPart | FileChange | TerminalPart | UnknownPart


class ToolCallChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="tool_call"):
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


class PlanEntry(Struct, frozen=True, omit_defaults=True):
    """One step of a plan. Priority: `high`, `medium`, `low`. Status: `pending`, `in_progress`, `completed`."""

    content: str
    status: str = "pending"
    priority: str = "medium"
    meta: JsonObject | None = None


class PlanChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="plan"):
    """The whole plan, replacing the one before: entries, or a file, or Markdown.

    `plan_id` is `None` for the one plan a session has when plans have no names.
    """

    plan_id: str | None = None
    entries: list[PlanEntry] | None = None
    uri: str | None = None
    markdown: str | None = None
    other: JsonObject | None = None
    """A kind of plan this version does not know, as it came."""


class PlanRemoved(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="plan_removed"):
    """A named plan is no more."""

    plan_id: str


class Command(Struct, frozen=True, omit_defaults=True):
    """A slash command the agent offers; `hint` says what may follow it."""

    name: str
    description: str
    hint: str | None = None
    meta: JsonObject | None = None


class CommandsChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="commands"):
    """The commands on offer, all of them."""

    commands: list[Command]


class ModeChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="mode"):
    """The agent works in another mode now."""

    mode_id: str


class SettingsChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="settings"):
    """The settings of the session, all of them."""

    settings: list[Setting]


class InfoChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="info"):
    """The session has another title, or was touched."""

    title: str | None | UnsetType = UNSET
    updated_at: str | None | UnsetType = UNSET


class UsageChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="usage"):
    """How full the context is, and what the session has cost so far."""

    used: int
    size: int
    cost: float | None = None
    currency: str | None = None


class Notice(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="notice"):
    """Something the user should see now; it is not part of the conversation."""

    severity: str
    title: str
    description: str | None = None


class CompactionChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="compaction"):
    """The agent shortens its context: `in_progress`, then `completed`, `failed` or `cancelled`."""

    compaction_id: str
    status: str
    summary: list[Content] | None | UnsetType = UNSET
    error: str | None | UnsetType = UNSET


class CompactionChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="compaction_chunk"):
    """A piece of the summary a compaction is writing."""

    compaction_id: str
    content: Content


class SubagentChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="subagent"):
    """A session started by this one, and what it is doing; only what is set changes."""

    session_id: str
    title: str | None | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    state: JsonObject | None | UnsetType = UNSET
    can_cancel: bool | None | UnsetType = UNSET
    cwd: str | None | UnsetType = UNSET
    additional_directories: list[str] | None | UnsetType = UNSET


class SessionMessageChanged(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="session_message"):
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


class UnknownUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="?"):
    """An update this version does not know, as it came."""

    tag: str | None
    fields: JsonObject


Update: TypeAlias = (
    MessageChunk
    | ToolCallChanged
    | PlanChanged
    | PlanRemoved
    | CommandsChanged
    | ModeChanged
    | SettingsChanged
    | InfoChanged
    | UsageChanged
    | Notice
    | CompactionChanged
    | CompactionChunk
    | SubagentChanged
    | SessionMessageChanged
    | SessionMessageChunk
    | UnknownUpdate
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
