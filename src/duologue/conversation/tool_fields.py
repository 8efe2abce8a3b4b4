"""The fields of a tool call that an update changes."""

from __future__ import annotations

from typing import Any

from duologue.conversation.fields import patched_fields
from duologue.conversation.items import ToolCall
from duologue.conversation.tool_content import FileChange, ToolContent
from duologue.conversation.updates import ToolCallUpdate
from duologue.conversation.work_state import FINAL_STATUSES


def tool_fields(before: ToolCall, change: ToolCallUpdate) -> dict[str, Any]:
    """Return the fields of a tool call that an update changes, with their new values."""
    fields = patched_fields(change, ToolCall(tool_call_id=change.tool_call_id))
    if "status" in fields and not _can_become(before, fields["status"]):
        del fields["status"]
    if "status" in fields:
        fields["is_unsettled"] = False
    if "content" in fields and change.is_question:
        fields["permission_content"] = fields["content"]
        fields["content"] = _with_permission_content(before, fields["content"])
    elif "content" in fields:
        fields["content"] = _with_requested_changes(before, fields["content"])
    return fields


def _can_become(before: ToolCall, status: str) -> bool:
    """Return True unless the call has ended; a cancelled call may still get another final status from the agent."""
    return not before.is_over or (before.status == "cancelled" and status in FINAL_STATUSES)


def _with_permission_content(before: ToolCall, content: list[ToolContent]) -> list[ToolContent]:
    """Add the content of a permission request to that of the call: it is a reason to ask, and not output."""
    paths = _paths_of(content)
    own = [part for part in before.content if part not in before.permission_content and part not in content]
    return [*(part for part in own if not (isinstance(part, FileChange) and part.path in paths)), *content]


def _with_requested_changes(before: ToolCall, content: list[ToolContent]) -> list[ToolContent]:
    """Replace the content of a call; keep file changes of its permission request unless there are newer ones."""
    changes = (part for part in before.permission_content if isinstance(part, FileChange))
    paths = _paths_of(content)
    return [*content, *(change for change in changes if change.path not in paths)]


def _paths_of(content: list[ToolContent]) -> set[str]:
    return {part.path for part in content if isinstance(part, FileChange)}
