"""The tool calls of a recording while they run: what each update changes, in bounded memory."""

from __future__ import annotations

from msgspec import UNSET, Struct

from duologue.conversation.content import TextContent
from duologue.conversation.tool_content import ContentPart, FileChange, ToolContent
from duologue.conversation.updates import ToolCallUpdate, ToolContentChunk
from duologue.conversation.work_state import FINAL_STATUSES
from duologue.trace.item_queue import ConversationItem

MAX_TOOLS = 10_000
"""Tool calls that are remembered; of more, the oldest are forgotten."""
MAX_CONTENT_BYTES = 16 * 1024 * 1024
"""Content of all tool calls that run, by the length of their frames; more is not remembered."""


class ToolState(Struct, kw_only=True):
    """A tool call as far as it is known.

    Attributes:
        t: When it began, in seconds since the start of the recording.
        title: Title.
        kind: Kind.
        status: Status.
    """

    t: float
    title: str = ""
    kind: str = ""
    status: str = "pending"
    content: list[ToolContent] = []
    size: int = 0


class ToolStates:
    """Follows the tool calls of all sessions."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], ToolState] = {}
        self._bytes = 0

    def get(self, session: str, tool_call_id: str) -> ToolState | None:
        """Return the state of a tool call; None if it is not known."""
        return self._tools.get((session, tool_call_id))

    def update(
        self, at: ConversationItem, update: ToolCallUpdate | ToolContentChunk, size: int
    ) -> ConversationItem | None:
        """Apply an update; return an item if the tool call is new or has ended.

        Args:
            at: Item with the frame's number, time and session.
            update: The update.
            size: Length of its frame in bytes.
        """
        key = at.session, update.tool_call_id
        tool = self._tools.get(key)
        is_new = tool is None
        if tool is None:
            tool = self._tools[key] = ToolState(t=at.t)
            if len(self._tools) > MAX_TOOLS:
                self._bytes -= self._tools.pop(next(iter(self._tools))).size
        before = tool.status
        self._apply(tool, update, size)
        has_ended = tool.status in FINAL_STATUSES and (is_new or tool.status != before)
        if not is_new and not has_ended:
            return None
        item = ConversationItem(
            number=at.number, t=at.t, kind="tool_call", session=at.session, title=tool.title,
            tool_call_id=update.tool_call_id, tool_kind=tool.kind, status=tool.status,
            text=_text(tool.content) if has_ended else "",
            changes=[part for part in tool.content if isinstance(part, FileChange)] if has_ended else [],
            seconds=round(at.t - tool.t, 6) if has_ended and not is_new else None,
        )  # fmt: skip
        if has_ended:
            self._bytes -= tool.size
            tool.content, tool.size = [], 0
        return item

    def _apply(self, tool: ToolState, update: ToolCallUpdate | ToolContentChunk, size: int) -> None:
        if isinstance(update, ToolCallUpdate):
            tool.title = _changed(tool.title, update.title)
            tool.kind = _changed(tool.kind, update.kind)
            tool.status = _changed(tool.status, update.status)
            if update.content is UNSET:
                return
            if not update.is_question:
                self._bytes -= tool.size
                tool.content, tool.size = [], 0
        content = update.content or []
        if content and self._bytes + size <= MAX_CONTENT_BYTES:
            tool.content = [*tool.content, *content]
            tool.size += size
            self._bytes += size


def _changed(old: str, new: object) -> str:
    return new if isinstance(new, str) else old


def _text(content: list[ToolContent]) -> str:
    parts = [part.content for part in content if isinstance(part, ContentPart)]
    return "\n".join(part.text for part in parts if isinstance(part, TextContent))
