"""Session updates, to version 1 and back. In version 1 an absent and a null patch field both mean "unchanged"."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from duologue.conversation import updates as u
from duologue.protocol.shared.fields import convert_fields
from duologue.protocol.shared.updates import (
    UpdateConverter,
    meta_from_wire,
    meta_to_wire,
    plan_content_to_wire,
    plan_entries_to_wire,
    plan_from_wire,
)
from duologue.protocol.v1 import content, settings
from duologue.protocol.v1.content import from_wire, part_from_wire, part_to_wire, to_wire
from duologue.schema import v1

_common = UpdateConverter(v1, content, settings)

_CHUNKS: dict[str, type[v1.UserMessageChunk | v1.AgentMessageChunk | v1.AgentThoughtChunk]] = {
    "user": v1.UserMessageChunk,
    "agent": v1.AgentMessageChunk,
    "thought": v1.AgentThoughtChunk,
}


def update_to_wire(update: u.Update) -> v1.SessionUpdate | None:
    """Write one update; None if version 1 has no form for it."""
    match update:
        case u.MessageChunk():
            return chunk_to_wire(update)
        case u.ToolCallUpdate(is_new=True):
            return v1.ToolCall(**_tool_fields(update, title=update.title or ""))
        case u.ToolCallUpdate():
            return v1.ToolCallUpdate(**_tool_fields(update))
        case u.PlanUpdate():
            return _plan_to_wire(update)
        case u.CommandsUpdate():
            commands = [_command_to_wire(command) for command in update.commands]
            return v1.AvailableCommandsUpdate(available_commands=commands, meta=meta_to_wire(update.meta))
        case u.ModeUpdate():
            return v1.CurrentModeUpdate(current_mode_id=update.mode_id, meta=meta_to_wire(update.meta))
        case _:
            return _rarer_to_wire(update)


def chunk_to_wire(chunk: u.MessageChunk) -> v1.SessionUpdate:
    """Write a message chunk."""
    return _CHUNKS[chunk.role](
        content=to_wire(chunk.content), message_id=chunk.message_id, meta=meta_to_wire(chunk.meta)
    )


def _rarer_to_wire(update: u.Update) -> v1.SessionUpdate | None:
    meta = meta_to_wire(update.meta)
    match update:
        case u.InfoUpdate():
            return convert_fields(update, v1.SessionInfoUpdate, meta=meta)
        case u.UsageUpdate():
            cost = None
            if isinstance(update.cost, int | float) and update.currency is not None:
                cost = v1.Cost(amount=update.cost, currency=update.currency)
            return v1.UsageUpdate(used=update.used, size=update.size, cost=cost, meta=meta)
        case u.ToolContentChunk():  # callers that need the earlier content send all of it
            parts = [part_to_wire(part) for part in update.content]
            return v1.ToolCallUpdate(tool_call_id=update.tool_call_id, content=parts, meta=meta)
        case _:  # not states and the agent's own terminals; whole messages are sent in chunks
            wire: v1.SessionUpdate | None = _common.to_wire(update)
            return wire


def update_from_wire(update: v1.SessionUpdate) -> u.Update:
    """Read one update."""
    match update:
        case v1.AgentMessageChunk():
            return _chunk_from_wire("agent", update)
        case v1.AgentThoughtChunk():
            return _chunk_from_wire("thought", update)
        case v1.UserMessageChunk():
            return _chunk_from_wire("user", update)
        case v1.ToolCall():
            return _tool_from_wire(update, is_new=True)
        case v1.ToolCallUpdate():
            return _tool_from_wire(update, is_new=False)
        case v1.Plan():
            entries = [convert_fields(entry, u.PlanEntry) for entry in update.entries]
            return u.PlanUpdate(entries=entries, meta=meta_from_wire(update.meta))
        case v1.AvailableCommandsUpdate():
            commands = [_command_from_wire(command) for command in update.available_commands]
            return u.CommandsUpdate(commands=commands, meta=meta_from_wire(update.meta))
        case v1.CurrentModeUpdate():
            return u.ModeUpdate(mode_id=update.current_mode_id, meta=meta_from_wire(update.meta))
        case _:
            return _rarer_from_wire(update)


def _rarer_from_wire(update: v1.SessionUpdate) -> u.Update:
    match update:
        case v1.SessionInfoUpdate():
            return convert_fields(update, u.InfoUpdate, meta=UNSET if update.meta is None else update.meta)
        case v1.UsageUpdate():
            cost = update.cost
            return u.UsageUpdate(
                used=update.used,
                size=update.size,
                cost=UNSET if cost is None else cost.amount,
                currency=None if cost is None else cost.currency,
                meta=meta_from_wire(update.meta),
            )
        case v1.PlanUpdate():
            return plan_from_wire(v1, update)
        case v1.CompactionUpdate():
            meaning = _common.from_wire(update)
            return msgspec.structs.replace(meaning, replaces_meta=isinstance(update.meta, dict))
        case _:
            return _common.from_wire(update)


# --- tool calls


def permission_tool(update: u.ToolCallUpdate) -> v1.PermissionToolCall:
    """Write the tool call of a permission request."""
    return v1.PermissionToolCall(**_tool_fields(update))


def permission_tool_from_wire(tool: v1.PermissionToolCall) -> u.ToolCallUpdate:
    """Read the tool call of a permission request, as a patch of what is known of it."""
    return msgspec.structs.replace(_tool_from_wire(tool, is_new=False), is_question=True)


_STATUSES = {"paused": "in_progress", "cancelled": "failed"}
"""The statuses that version 1 lacks, and the nearest it has."""


def _tool_fields(update: u.ToolCallUpdate, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"tool_call_id": update.tool_call_id}
    for name in ("title", "kind", "status", "name", "raw_input", "raw_output"):
        value = getattr(update, name)
        if value is not UNSET and value is not None:
            fields[name] = value
    if "status" in fields:
        fields["status"] = _STATUSES.get(fields["status"], fields["status"])
    if isinstance(update.content, list):
        fields["content"] = [part_to_wire(part) for part in update.content]
    if isinstance(update.locations, list):
        fields["locations"] = [
            v1.ToolCallLocation(path=location.path, line=location.line, meta=location.meta)
            for location in update.locations
        ]
    if isinstance(update.meta, dict):
        fields["meta"] = update.meta
    return fields | more


def _tool_from_wire(tool: v1.ToolCall | v1.ToolCallUpdate | v1.PermissionToolCall, is_new: bool) -> u.ToolCallUpdate:
    fields: dict[str, Any] = {"tool_call_id": tool.tool_call_id, "is_new": is_new}
    for name in ("title", "kind", "status", "name", "raw_input", "raw_output", "meta"):
        value = getattr(tool, name)
        if value is not None:
            fields[name] = value
    if tool.content is not None and (tool.content or not is_new):
        fields["content"] = [part_from_wire(part) for part in tool.content]
    if tool.locations is not None and (tool.locations or not is_new):
        fields["locations"] = [u.Location(location.path, location.line, location.meta) for location in tool.locations]
    return u.ToolCallUpdate(**fields)


# --- the smaller pieces


def _chunk_from_wire(role: u.Role, chunk: v1.ContentChunk) -> u.MessageChunk:
    return u.MessageChunk(
        role=role, content=from_wire(chunk.content), message_id=chunk.message_id, meta=meta_from_wire(chunk.meta)
    )


def _plan_to_wire(update: u.PlanUpdate) -> v1.Plan | v1.PlanUpdate:
    """Write a plan; version 1 has no cancelled entries, and a form of its own for the plan without an id."""
    meta = meta_to_wire(update.meta)
    entries = [entry for entry in update.entries or [] if entry.status != "cancelled"]
    if update.plan_id is None:
        return v1.Plan(entries=plan_entries_to_wire(v1, entries), meta=meta)
    plan = plan_content_to_wire(v1, msgspec.structs.replace(update, entries=entries), update.plan_id)
    return v1.PlanUpdate(plan=plan, meta=meta)


def _command_to_wire(command: u.AvailableCommand) -> v1.AvailableCommand:
    hint = None if command.hint is None else v1.UnstructuredCommandInput(hint=command.hint)
    return v1.AvailableCommand(name=command.name, description=command.description, input=hint, meta=command.meta)


def _command_from_wire(command: v1.AvailableCommand) -> u.AvailableCommand:
    hint = None if command.input is None else command.input.hint
    return u.AvailableCommand(command.name, command.description, hint, command.meta)
