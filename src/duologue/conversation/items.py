"""What a transcript is made of: whole messages, tool calls, plans, as they stand after every update so far.

Items are values: a change makes a new one, so that whoever was shown one can keep it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from duologue.conversation.content import Content, JsonObject, TextContent, text_of
from duologue.conversation.raw_output import text_of_raw_output
from duologue.conversation.tool_content import ContentPart, FileChange, Location, TerminalPart, ToolContent
from duologue.conversation.updates import PlanEntry, Role
from duologue.conversation.work_state import FINAL_STATUSES, TerminalExit, TerminalSize

__all__ = [
    "Compaction",
    "Item",
    "Message",
    "Plan",
    "SessionMessage",
    "Subagent",
    "Terminal",
    "ToolCall",
    "Usage",
]


class Message(Struct, frozen=True, kw_only=True):
    """What one party said, or thought, in one go."""

    role: Role
    content: list[Content]
    message_id: str | None = None
    is_refused: bool = False
    """The agent refused it; neither it nor what followed counts for the next prompt."""
    is_truncated: bool = False
    """It was longer than a transcript may be, and its beginning is gone."""
    meta: JsonObject | None = None

    @property
    def text(self) -> str:
        """Its text blocks run together."""
        return text_of(self.content)


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call as it stands. An agent need not have announced it: a title or kind may be missing."""

    tool_call_id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    content: list[ToolContent] = []
    locations: list[Location] = []
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    name: str | None = None
    meta: JsonObject | None = None
    can_cancel: bool = False
    """Whether the client may cancel this call alone."""
    permission_content: list[ToolContent] = []
    """The part of `content` that came with the last permission request."""
    is_unsettled: bool = False
    """Its turn ended without a word on how it ended; `status` is the last that the agent sent."""
    is_truncated: bool = False
    """It showed more than a transcript may hold, and the oldest of its content is gone, perhaps even its kind."""

    @property
    def is_over(self) -> bool:
        """Whether the call has ended: completed, failed or cancelled."""
        return self.status in FINAL_STATUSES

    @property
    def output(self) -> str:
        """What it printed or returned, as text: what its content says, else what `raw_output` does.

        What came with a permission request is left out, and so is the output of terminals.
        """
        own = (part for part in self.content if part not in self.permission_content)
        texts = [
            part.content.text for part in own if isinstance(part, ContentPart) and isinstance(part.content, TextContent)
        ]
        return "\n".join(texts) or text_of_raw_output(self.raw_output)

    @property
    def changes(self) -> list[FileChange]:
        """The changes to files it shows."""
        return [part for part in self.content if isinstance(part, FileChange)]

    @property
    def terminals(self) -> list[str]:
        """The terminals it shows."""
        return [part.terminal_id for part in self.content if isinstance(part, TerminalPart)]


class Terminal(Struct, frozen=True, kw_only=True):
    """A command the agent runs, as it stands; of its output the end is kept."""

    terminal_id: str
    command: str | None = None
    cwd: str | None = None
    output: bytes = b""
    is_truncated: bool = False
    exit: TerminalExit | None = None
    size: TerminalSize | None = None
    can_cancel: bool = False
    meta: JsonObject | None = None

    @property
    def text(self) -> str:
        """Its output as text; bytes that are none are shown as such."""
        return self.output.decode("utf-8", "replace")


class Plan(Struct, frozen=True, kw_only=True):
    """A plan as it stands: entries, or a file, or Markdown."""

    plan_id: str | None = None
    entries: list[PlanEntry] = []
    uri: str | None = None
    markdown: str | None = None
    other: JsonObject | None = None
    meta: JsonObject | None = None


class Compaction(Struct, frozen=True, kw_only=True):
    """The context was shortened here, or is being shortened."""

    compaction_id: str
    status: str
    summary: list[Content] = []
    error: str | None = None
    meta: JsonObject | None = None
    is_truncated: bool = False


class SessionMessage(Struct, frozen=True, kw_only=True):
    """A message between two sessions of one agent."""

    message_id: str
    sender_session_id: str | None = None
    recipient_session_id: str | None = None
    content: list[Content] = []
    meta: JsonObject | None = None
    is_truncated: bool = False


class Subagent(Struct, frozen=True, kw_only=True):
    """A session that this one started."""

    session_id: str
    title: str | None = None
    description: str | None = None
    state: JsonObject | None = None
    can_cancel: bool = False
    cwd: str | None = None
    additional_directories: list[str] = []
    meta: JsonObject | None = None


class Usage(Struct, frozen=True, kw_only=True):
    """How full the context is, and what the session has cost."""

    used: int
    size: int
    cost: float | None = None
    currency: str | None = None


Item: TypeAlias = Message | ToolCall | Compaction | SessionMessage
