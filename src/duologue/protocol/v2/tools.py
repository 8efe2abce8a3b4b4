"""Tool calls and the subjects of permission requests, to version 2 and back."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, structs

from duologue.conversation import updates as u
from duologue.conversation.content import TextContent
from duologue.conversation.fields import convert_fields
from duologue.protocol.shared.updates import patch
from duologue.protocol.v2.tool_parts import parts_from_wire, parts_to_wire
from duologue.schema import v2


def tool_to_wire(update: u.ToolCallUpdate) -> v2.ToolCallUpdate:
    """Write a new or changed tool call."""
    return convert_fields(update, v2.ToolCallUpdate, **_fields(update))


def tool_from_wire(tool: v2.ToolCallUpdate | v2.PermissionToolCall) -> u.ToolCallUpdate:
    """Read a new or changed tool call."""
    return convert_fields(
        tool,
        u.ToolCallUpdate,
        content=patch(tool.content, parts_from_wire),
        locations=patch(tool.locations, lambda found: [convert_fields(each, u.Location) for each in found]),
        can_cancel=patch(tool.capabilities, lambda capabilities: capabilities.cancel is not None),
    )


def tool_content_to_wire(chunk: u.ToolContentChunk) -> v2.ToolCallContentChunk:
    """Write more content of a tool call.

    Raises:
        ValueError: It is neither one part nor only changes to files.
    """
    parts = parts_to_wire(chunk.content)
    if len(parts) != 1:
        raise ValueError(f"a chunk of tool content must be one part, not {len(parts)}")
    return convert_fields(chunk, v2.ToolCallContentChunk, content=parts[0])


def tool_content_from_wire(chunk: v2.ToolCallContentChunk) -> u.ToolContentChunk:
    """Read more content of a tool call."""
    return convert_fields(chunk, u.ToolContentChunk, content=parts_from_wire([chunk.content]))


# --- permission


def permission_subject(update: u.ToolCallUpdate) -> v2.ToolCallPermissionSubject:
    """Write the subject of a permission request."""
    return v2.ToolCallPermissionSubject(tool_call=convert_fields(update, v2.PermissionToolCall, **_fields(update)))


def permission_tool_from_wire(request: v2.RequestPermissionRequest) -> u.ToolCallUpdate:
    """Read the subject of a permission request as a patch of a tool call; the id is empty if it is not subject one."""
    content: list[u.ToolContent] = []
    if request.description is not None:
        content.append(u.ContentPart(TextContent(request.description)))
    match request.subject:
        case v2.ToolCallPermissionSubject(tool_call=tool):
            subject = tool_from_wire(tool)
            title = request.title if subject.title is UNSET else subject.title
            return structs.replace(subject, title=title, is_question=True)
        case v2.CommandPermissionSubject() as command:
            if command.terminal_id is not None:
                content.append(u.TerminalPart(command.terminal_id))
            return convert_fields(
                command,
                u.ToolCallUpdate,
                tool_call_id=command.tool_call_id or "",
                title=request.title,
                kind="execute",
                content=content or UNSET,
                raw_input={"command": command.command, "cwd": command.cwd},
                is_question=True,
            )
        case unknown:
            raw = UNSET if unknown is None else dict(unknown)
            return u.ToolCallUpdate(
                tool_call_id="", title=request.title, content=content or UNSET, raw_input=raw, is_question=True
            )


def _fields(update: u.ToolCallUpdate) -> dict[str, Any]:
    """Return the fields that are not the same on the wire."""
    return {
        "content": patch(update.content, parts_to_wire),
        "locations": patch(update.locations, _locations_to_wire),
        "capabilities": patch(update.can_cancel, _cancel_to_wire),
    }


def _locations_to_wire(locations: list[u.Location]) -> list[v2.ToolCallLocation]:
    """Write locations; version 2 has no line 0."""
    return [convert_fields(location, v2.ToolCallLocation, line=location.line or None) for location in locations]


def _cancel_to_wire(can_cancel: bool) -> v2.ToolCallCapabilities:
    return v2.ToolCallCapabilities(cancel=v2.ToolCallCancelCapabilities() if can_cancel else None)
