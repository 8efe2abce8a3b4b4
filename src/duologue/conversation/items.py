"""The items of a transcript: messages, tool calls, plans and so on, as of the last update.

Items are immutable: a change makes a new one, so that a caller can keep the one it got.
"""

from __future__ import annotations

from collections.abc import Iterator
from reprlib import Repr
from typing import Any, TypeAlias, cast

from msgspec import UNSET, Struct

from duologue.conversation.content import Content, JsonObject, TextContent, text_of
from duologue.conversation.fields import set_fields
from duologue.conversation.tool_content import ContentPart, FileChange, Location, TerminalPart, ToolContent
from duologue.conversation.updates import PlanEntry, Role
from duologue.conversation.work_state import FINAL_STATUSES, TerminalExit, TerminalSize
from duologue.sanitize import safe_markdown

RAW_OUTPUT_KEYS: tuple[tuple[str, ...], ...] = (
    ("aggregatedoutput",),  # codex: stdout and stderr as they came
    ("formattedoutput",),
    ("stdout", "stderr"),
    ("output",),
    ("content",),  # results of MCP tools: blocks of content
    ("text",),
    ("result",),
    ("error",),
    ("message",),
)
"""Keys under which agents put the text of a raw output, best first; the texts of one row are joined."""

RAW_OUTPUT_DEPTH = 4
"""How deep text is searched for: a content block in a list in a result in a response."""


_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 120


class Received(Struct, frozen=True, kw_only=True):
    """Something received: an event, or an item of a transcript, where these fields have their defaults."""

    raw: bytes = b""
    """The frame as received, in an event."""
    is_late: bool = False
    """It arrived after its turn had ended."""

    def __repr__(self) -> str:
        """Name the fields that differ from their defaults, long ones cut; `raw` would repeat them."""
        shown = (f"{name}={_SHORT.repr(value)}" for name, value in set_fields(self).items() if name != "raw")
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Received, frozen=True, kw_only=True):
    """A message of the user or the agent, or a thought of the agent."""

    role: Role
    content: list[Content]
    message_id: str | None = None
    is_refused: bool = False
    """The agent refused it; it and what followed are not part of the context of the next prompt."""
    is_truncated: bool = False
    """Its beginning was dropped, because it was larger than a transcript may be."""
    meta: JsonObject | None = None

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)

    def _repr_markdown_(self) -> str:
        """Return what a notebook shows."""
        return safe_markdown(self.text)


class ToolCall(Received, frozen=True, kw_only=True):
    """A tool call as of the last update. Title and kind may be missing if the agent never sent them."""

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
    """Its turn ended without a final status; `status` is the last that the agent sent."""
    is_truncated: bool = False
    """Its oldest content, perhaps even its kind, was dropped, because it was larger than a transcript may be."""

    @property
    def is_over(self) -> bool:
        """Whether the call has ended: completed, failed or cancelled."""
        return self.status in FINAL_STATUSES

    @property
    def output(self) -> str:
        """The text that the tool printed or returned: from its content, else from `raw_output`.

        Content of a permission request and the output of terminals are left out.
        """
        own = (part for part in self.content if part not in self.permission_content)
        texts = [
            part.content.text for part in own if isinstance(part, ContentPart) and isinstance(part.content, TextContent)
        ]
        return "\n".join(texts) or _text_of_raw_output(self.raw_output)

    @property
    def changes(self) -> list[FileChange]:
        """The file changes in its content."""
        return [part for part in self.content if isinstance(part, FileChange)]

    @property
    def terminals(self) -> list[str]:
        """The ids of the terminals in its content."""
        return [part.terminal_id for part in self.content if isinstance(part, TerminalPart)]


class Terminal(Received, frozen=True, kw_only=True):
    """A command that the agent runs; only the end of its output is kept."""

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
        """The output as text; invalid UTF-8 becomes U+FFFD."""
        return self.output.decode("utf-8", "replace")


class Plan(Received, frozen=True, kw_only=True):
    """The current plan: entries, which it iterates over, or a file, or Markdown."""

    plan_id: str | None = None
    entries: list[PlanEntry] = []
    uri: str | None = None
    markdown: str | None = None
    other: JsonObject | None = None
    meta: JsonObject | None = None

    def __iter__(self) -> Iterator[PlanEntry]:
        return iter(self.entries)

    def _repr_markdown_(self) -> str:
        """Return what a notebook shows: a list of tasks, or the plan's own Markdown."""
        steps = (f"- [{'x' if step.status == 'completed' else ' '}] {step.content}" for step in self.entries)
        return safe_markdown(self.markdown or self.uri or "\n".join(steps))


class Compaction(Received, frozen=True, kw_only=True):
    """A compaction: the agent shortened its context here, or is doing so."""

    compaction_id: str
    status: str
    summary: list[Content] = []
    error: str | None = None
    meta: JsonObject | None = None
    is_truncated: bool = False


class SessionMessage(Received, frozen=True, kw_only=True):
    """A message between two sessions of one agent."""

    message_id: str
    sender_session_id: str | None = None
    recipient_session_id: str | None = None
    content: list[Content] = []
    meta: JsonObject | None = None
    is_truncated: bool = False


class Subagent(Received, frozen=True, kw_only=True):
    """A session that this session started."""

    session_id: str
    title: str | None = None
    description: str | None = None
    state: JsonObject | None = None
    can_cancel: bool = False
    cwd: str | None = None
    additional_directories: list[str] = []
    meta: JsonObject | None = None

    @property
    def is_idle(self) -> bool:
        """True if it has ended its work."""
        return self.state is not None and self.state.get("state") == "idle"


class BackgroundTask(Received, frozen=True, kw_only=True):
    """Work of the agent that goes on between turns, as far as the agent has reported it.

    Attributes:
        task_id: Its id.
        title: What it is, for a person.
        kind: `shell`, `task` or another word of the agent.
        description: What it does.
        state: `running`, `paused`, `completed`, `failed` or `stopped`; `lost` if its agent was lost; or a newer word.
        summary: What it has done so far, or how it ended.
        can_stop: The agent offers to stop it.
        tool_call_id: The tool call that started it.
        output_file: The file that the agent writes its output to.
        other: What else the agent sent with the last update that had more.
    """

    task_id: str
    title: str = ""
    kind: str = "task"
    description: str = ""
    state: str = "running"
    summary: str | None = None
    can_stop: bool = False
    tool_call_id: str | None = None
    output_file: str | None = None
    other: JsonObject | None = None
    meta: JsonObject | None = None

    @property
    def is_over(self) -> bool:
        """True if it has ended."""
        return self.state in TASK_ENDS


TASK_ENDS = ("completed", "failed", "stopped", "lost")
"""The states of a background task that has ended."""


class Usage(Received, frozen=True, kw_only=True):
    """Use of the context window (tokens), and the cost of the session."""

    used: int
    size: int
    cost: float | None = None
    currency: str | None = None


Item: TypeAlias = Message | ToolCall | Compaction | SessionMessage


def _text_of_raw_output(raw: object, depth: int = RAW_OUTPUT_DEPTH) -> str:
    """Return the text in the raw output of a tool, which has no schema; empty if no known key has any."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, list) and depth:
        return "\n".join(text for part in cast("list[object]", raw) if (text := _text_of_raw_output(part, depth - 1)))
    if isinstance(raw, dict) and depth:
        fields = cast("dict[str, object]", raw)
        named = {key.replace("_", "").lower(): value for key, value in fields.items()}
        found = ("".join(_text_of_raw_output(named.get(key), depth - 1) for key in keys) for keys in RAW_OUTPUT_KEYS)
        return next((text for text in found if text), "")
    return ""
