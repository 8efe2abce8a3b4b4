"""Session updates: what an agent sends, and what a client builds its transcript from.

Fields of patches have three states: `UNSET` leaves the value, `None` clears it, a value replaces it; chunks append.
Metadata (`meta`) is patched key by key, and a key with the value `None` is removed. A store writes updates as JSON
(`decode_update` reads them); replaying a session is sending its updates again.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET as UNSET
from msgspec import Struct
from msgspec import UnsetType as UnsetType

from duologue.conversation.content import Content, JsonObject
from duologue.conversation.settings import ConfigOption
from duologue.conversation.tool_content import ContentPart as ContentPart
from duologue.conversation.tool_content import FileChange as FileChange
from duologue.conversation.tool_content import Location as Location
from duologue.conversation.tool_content import TerminalPart as TerminalPart
from duologue.conversation.tool_content import ToolContent as ToolContent
from duologue.conversation.tool_content import UnknownPart as UnknownPart
from duologue.conversation.work_state import BackgroundWork, Failure, TerminalExit, TerminalSize, TokenUsage

Role: TypeAlias = Literal["agent", "user", "thought"]
"""The author of a message: the agent, the user, or the agent thinking."""


class _Update(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="update", gc=False):
    wire_name: ClassVar[str | None] = None
    """The name of its class in the schemas; None: the same as here."""
    capability: ClassVar[str | None] = None
    """The field of `ClientCapabilities` without which version 1 does not send it."""
    entity: ClassVar[tuple[str, ...]] = ()
    """The entity that it updates: a name, and the field with the id. A replay has one update for each entity."""
    is_state: ClassVar[bool] = False
    """It replaces a value, so that receiving it twice changes nothing."""
    is_item: ClassVar[bool] = False
    """It adds its entity to the items of a transcript, after which a chunk without an id begins a new message."""
    is_stored: ClassVar[bool] = True
    """A store keeps it, and a replay contains it."""
    is_of_turn: ClassVar[bool] = False
    """In version 1 it belongs to the running turn, and is late after that."""

    meta: JsonObject | None | UnsetType = UNSET


class MessageChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="message_chunk"):
    """A chunk of a message; chunks with the same `message_id` are one message."""

    is_of_turn = True

    role: Role
    content: Content
    message_id: str | None = None


class MessageUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="message"):
    """A whole message: its content replaces that of the message with this id, and later chunks append to it."""

    role: Role
    message_id: str
    content: list[Content] | None | UnsetType = UNSET


class ToolCallUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="tool_call"):
    """A new tool call (`is_new`) or a change of one; fields that are not set stay."""

    entity = ("tool", "tool_call_id")
    is_item = True
    is_of_turn = True

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
    """It came with a permission request: its content is added to that of the call, and replaces nothing."""


class ToolContentChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="tool_call_chunk"):
    """Content to append to a tool call: one part, or several file changes."""

    entity = ("tool", "tool_call_id")
    is_item = True

    tool_call_id: str
    content: list[ToolContent]


class TerminalUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="terminal"):
    """A command that the agent runs, for the client to show; fields that are not set stay.

    `output` replaces all output so far; an `exit` without a code means that the command has ended.
    """

    entity = ("terminal", "terminal_id")

    terminal_id: str
    command: str | None | UnsetType = UNSET
    cwd: str | None | UnsetType = UNSET
    output: bytes | None | UnsetType = UNSET
    exit: TerminalExit | None | UnsetType = UNSET
    size: TerminalSize | None | UnsetType = UNSET
    can_cancel: bool | None | UnsetType = UNSET


class TerminalOutputChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="terminal_chunk"):
    """Output to append to a terminal."""

    entity = ("terminal", "terminal_id")

    terminal_id: str
    data: bytes


class StateUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="state"):
    """The state of the session: `running`, `requires_action`, `idle`, `unknown`, or one this version does not know.

    Only `idle` means that the work has ended, and says why. It is a snapshot: receiving it twice means nothing new.
    `background` is `None` if the agent does not report its background work.
    """

    is_state = True
    is_stored = False

    state: str
    stop_reason: str | None = None
    error: Failure | None = None
    usage: TokenUsage | None = None
    background: list[BackgroundWork] | None = None
    other: JsonObject | None = None
    """A state that this version does not know, unchanged."""


class PlanEntry(Struct, frozen=True, omit_defaults=True):
    """One step of a plan.

    Priority: `high`, `medium`, `low`. Status: `pending`, `in_progress`, `completed`, `cancelled`.
    """

    content: str
    status: str = "pending"
    priority: str = "medium"
    meta: JsonObject | None = None


class PlanUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="plan"):
    """A whole plan, replacing the one before: entries, or a file, or Markdown.

    `plan_id` is `None` if the session has only one plan, which has no id.
    """

    entity = ("plan", "plan_id")
    is_of_turn = True

    plan_id: str | None = None
    entries: list[PlanEntry] | None = None
    uri: str | None = None
    markdown: str | None = None
    other: JsonObject | None = None
    """A kind of plan that this version does not know, unchanged."""


class PlanRemovedUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="plan_removed"):
    """A plan was removed."""

    wire_name = "PlanRemoved"
    capability = "named_plans"
    entity = ("plan", "plan_id")

    plan_id: str


class AvailableCommand(Struct, frozen=True, omit_defaults=True):
    """A slash command that the agent offers; `hint` describes its argument."""

    name: str
    description: str
    hint: str | None = None
    meta: JsonObject | None = None
    other: JsonObject | None = None
    """A kind of command that this version does not know, unchanged."""


class CommandsUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="commands"):
    """All slash commands that the agent offers."""

    entity = ("commands",)
    is_state = True

    commands: list[AvailableCommand]


class ModeUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="mode"):
    """The current mode changed."""

    entity = ("mode",)
    is_state = True

    mode_id: str


class SettingsUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="settings"):
    """All config options of the session."""

    entity = ("settings",)
    is_state = True

    settings: list[ConfigOption]


class InfoUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="info"):
    """The title of the session, or the time of its last change."""

    wire_name = "SessionInfoUpdate"
    entity = ("info",)
    is_state = True

    title: str | None | UnsetType = UNSET
    updated_at: str | None | UnsetType = UNSET


class UsageUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="usage"):
    """Use of the context window, and the cost of the session so far; a cost that is not set stays."""

    entity = ("usage",)
    is_state = True

    used: int
    size: int
    cost: float | None | UnsetType = UNSET
    currency: str | None = None


class NoticeUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="notice"):
    """A notice for the user; it is not part of the conversation."""

    wire_name = "Notice"
    capability = "notices"
    is_state = True
    is_stored = False

    severity: str
    title: str
    description: str | None = None


class CompactionUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="compaction"):
    """A compaction of the agent's context: `in_progress`, then `completed`, `failed` or `cancelled`."""

    capability = "compaction"
    entity = ("compaction", "compaction_id")
    is_item = True

    compaction_id: str
    status: str
    summary: list[Content] | None | UnsetType = UNSET
    error: str | None | UnsetType = UNSET
    replaces_meta: bool = False
    """`meta` replaces all metadata, rather than patching it key by key."""


class CompactionChunk(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="compaction_chunk"):
    """A chunk of the summary that a compaction writes."""

    wire_name = "CompactionSummaryChunk"
    capability = "compaction"
    entity = ("compaction", "compaction_id")
    is_item = True

    compaction_id: str
    content: Content


class SubagentUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="subagent"):
    """A session started by this one, and its state; fields that are not set stay."""

    capability = "subagents"
    entity = ("subagent", "session_id")

    session_id: str
    title: str | None | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    state: JsonObject | None | UnsetType = UNSET
    can_cancel: bool | None | UnsetType = UNSET
    cwd: str | None | UnsetType = UNSET
    additional_directories: list[str] | None | UnsetType = UNSET


class BackgroundTaskUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="background_task"):
    """Work of the agent that goes on between turns, and its state; fields that are not set stay."""

    capability = "background_tasks"
    is_state = True
    is_stored = False

    task_id: str
    is_new: bool = False
    title: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    can_stop: bool | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET
    output_file: str | UnsetType = UNSET
    other: JsonObject | UnsetType = UNSET


class SessionMessageUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="session_message"):
    """A message between two sessions of one agent."""

    wire_name = "SessionMessage"
    capability = "subagents"
    entity = ("message", "message_id")
    is_item = True

    message_id: str
    sender_session_id: str | None | UnsetType = UNSET
    recipient_session_id: str | None | UnsetType = UNSET
    sender_message_id: str | None | UnsetType = UNSET
    recipient_message_id: str | None | UnsetType = UNSET
    content: list[Content] | None | UnsetType = UNSET


class SessionMessageChunk(
    _Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="session_message_chunk"
):
    """A chunk of a message between two sessions."""

    capability = "subagents"
    entity = ("message", "message_id")
    is_item = True

    message_id: str
    content: Content


class UnrecognizedUpdate(_Update, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="?"):
    """An update that this version does not know, unchanged."""

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
    | BackgroundTaskUpdate
    | SessionMessageUpdate
    | SessionMessageChunk
    | UnrecognizedUpdate
)

KINDS: tuple[type[_Update], ...] = get_args(Update)
"""Every kind of update."""


@cache
def _decoder() -> msgspec.json.Decoder[Update]:
    return msgspec.json.Decoder(Update)


def decode_update(stored: bytes) -> Update:
    """Decode an update that a store wrote as JSON; the wire format differs.

    Raises:
        ValueError: The data is damaged, or was written by a newer version.
    """
    return _decoder().decode(stored)
