"""Session updates, to version 1 and back. In version 1 an absent and a null patch field both mean "unchanged"."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from duologue.conversation import updates as u
from duologue.conversation.fields import convert_fields
from duologue.protocol.background_tasks import task_to_wire
from duologue.protocol.shared.updates import (
    UpdateConverter,
    plan_content_to_wire,
    plan_entries_to_wire,
    plan_from_wire,
)
from duologue.protocol.v1 import content, settings
from duologue.protocol.v1.content import from_wire, part_from_wire, part_to_wire, to_wire
from duologue.schema import v1

_CHUNKS: dict[str, type[v1.UserMessageChunk | v1.AgentMessageChunk | v1.AgentThoughtChunk]] = {
    "user": v1.UserMessageChunk,
    "agent": v1.AgentMessageChunk,
    "thought": v1.AgentThoughtChunk,
}
_STATUSES = {"paused": "in_progress", "cancelled": "failed"}
"""The statuses that version 1 lacks, and the nearest it has."""


# --- messages


def chunk_to_wire(chunk: u.MessageChunk) -> v1.SessionUpdate:
    """Write a message chunk."""
    meta = None if isinstance(chunk.meta, UnsetType) else chunk.meta
    return _CHUNKS[chunk.role](content=to_wire(chunk.content), message_id=chunk.message_id, meta=meta)


def _chunk_from_wire(role: u.Role, chunk: v1.ContentChunk) -> u.MessageChunk:
    meta = UNSET if chunk.meta is None else chunk.meta
    return u.MessageChunk(role=role, content=from_wire(chunk.content), message_id=chunk.message_id, meta=meta)


# --- tool calls


def permission_tool(update: u.ToolCallUpdate) -> v1.PermissionToolCall:
    """Write the tool call of a permission request."""
    return convert_fields(update, v1.PermissionToolCall, **_tool_fields(update))


def permission_tool_from_wire(tool: v1.PermissionToolCall) -> u.ToolCallUpdate:
    """Read the tool call of a permission request, as a patch of what is known of it."""
    return msgspec.structs.replace(_tool_from_wire(tool), is_question=True)


def _tool_to_wire(update: u.ToolCallUpdate) -> v1.ToolCall | v1.ToolCallUpdate:
    if not update.is_new:
        return convert_fields(update, v1.ToolCallUpdate, **_tool_fields(update))
    fields: dict[str, Any] = {"content": [], "locations": [], **_tool_fields(update)}
    return convert_fields(update, v1.ToolCall, title=update.title or "", **fields)


def _tool_fields(update: u.ToolCallUpdate) -> dict[str, Any]:
    """Return the fields that are not the same on the wire, if they are set."""
    fields: dict[str, Any] = {}
    if isinstance(update.status, str):
        fields["status"] = _STATUSES.get(update.status, update.status)
    if isinstance(update.content, list):
        fields["content"] = [part_to_wire(part) for part in update.content]
    if isinstance(update.locations, list):
        fields["locations"] = [convert_fields(location, v1.ToolCallLocation) for location in update.locations]
    return fields


def _tool_from_wire(tool: v1.ToolCallUpdate | v1.PermissionToolCall) -> u.ToolCallUpdate:
    content = UNSET if tool.content is None else [part_from_wire(part) for part in tool.content]
    locations = UNSET if tool.locations is None else [convert_fields(each, u.Location) for each in tool.locations]
    return convert_fields(tool, u.ToolCallUpdate, content=content, locations=locations)


def _new_tool_from_wire(tool: v1.ToolCall) -> u.ToolCallUpdate:
    content = [part_from_wire(part) for part in tool.content] or UNSET
    locations = [convert_fields(each, u.Location) for each in tool.locations] or UNSET
    return convert_fields(tool, u.ToolCallUpdate, content=content, locations=locations, is_new=True)


def _tool_content_to_wire(update: u.ToolContentChunk) -> v1.ToolCallUpdate:
    """Write more content of a tool call; callers that need the earlier content send all of it."""
    return convert_fields(update, v1.ToolCallUpdate, content=[part_to_wire(part) for part in update.content])


# --- plans, commands and compactions


def _plan_to_wire(update: u.PlanUpdate) -> v1.Plan | v1.PlanUpdate:
    """Write a plan; version 1 has no cancelled entries, and a form of its own for the plan without an id."""
    entries = [entry for entry in update.entries or [] if entry.status != "cancelled"]
    if update.plan_id is None:
        return convert_fields(update, v1.Plan, entries=plan_entries_to_wire(v1, entries))
    plan = plan_content_to_wire(v1, msgspec.structs.replace(update, entries=entries), update.plan_id)
    return convert_fields(update, v1.PlanUpdate, plan=plan)


def _only_plan_from_wire(plan: v1.Plan) -> u.PlanUpdate:
    return convert_fields(plan, u.PlanUpdate, entries=[convert_fields(entry, u.PlanEntry) for entry in plan.entries])


def _commands_to_wire(update: u.CommandsUpdate) -> v1.AvailableCommandsUpdate:
    commands = [_command_to_wire(command) for command in update.commands]
    return convert_fields(update, v1.AvailableCommandsUpdate, available_commands=commands)


def _commands_from_wire(update: v1.AvailableCommandsUpdate) -> u.CommandsUpdate:
    commands = [_command_from_wire(command) for command in update.available_commands]
    return convert_fields(update, u.CommandsUpdate, commands=commands)


def _command_to_wire(command: u.AvailableCommand) -> v1.AvailableCommand:
    hint = None if command.hint is None else v1.UnstructuredCommandInput(hint=command.hint)
    return convert_fields(command, v1.AvailableCommand, input=hint)


def _command_from_wire(command: v1.AvailableCommand) -> u.AvailableCommand:
    return convert_fields(command, u.AvailableCommand, hint=None if command.input is None else command.input.hint)


def _compaction_from_wire(update: v1.CompactionUpdate) -> u.CompactionUpdate:
    compaction: u.CompactionUpdate = converter.copy_from_wire(u.CompactionUpdate, update)
    return msgspec.structs.replace(compaction, replaces_meta=isinstance(update.meta, dict))


converter = UpdateConverter(
    v1,
    content,
    settings,
    to_wire={
        u.MessageChunk: chunk_to_wire,
        u.ToolCallUpdate: _tool_to_wire,
        u.ToolContentChunk: _tool_content_to_wire,
        u.PlanUpdate: _plan_to_wire,
        u.CommandsUpdate: _commands_to_wire,
        u.ModeUpdate: lambda update: convert_fields(update, v1.CurrentModeUpdate, current_mode_id=update.mode_id),
        u.BackgroundTaskUpdate: task_to_wire,
    },
    from_wire={
        v1.AgentMessageChunk: partial(_chunk_from_wire, "agent"),
        v1.AgentThoughtChunk: partial(_chunk_from_wire, "thought"),
        v1.UserMessageChunk: partial(_chunk_from_wire, "user"),
        v1.ToolCall: _new_tool_from_wire,
        v1.ToolCallUpdate: _tool_from_wire,
        v1.Plan: _only_plan_from_wire,
        v1.PlanUpdate: partial(plan_from_wire, v1),
        v1.AvailableCommandsUpdate: _commands_from_wire,
        v1.CurrentModeUpdate: lambda update: convert_fields(update, u.ModeUpdate, mode_id=update.current_mode_id),
        v1.CompactionUpdate: _compaction_from_wire,
    },
)
WITHOUT_FORM = (u.MessageUpdate, u.StateUpdate, u.TerminalUpdate, u.TerminalOutputChunk)
"""Updates that version 1 does not have; whole messages are sent in chunks."""

update_from_wire: Callable[[v1.SessionUpdate], u.Update] = converter.from_wire


def update_to_wire(update: u.Update) -> v1.SessionUpdate | None:
    """Write one update; None if version 1 has no form for it."""
    return None if isinstance(update, WITHOUT_FORM) else converter.to_wire(update)
