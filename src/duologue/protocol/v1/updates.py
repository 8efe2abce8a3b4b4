"""Session updates, to version 1 and back. In version 1 an absent and a null patch field both mean "unchanged"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from duologue.conversation import updates as u
from duologue.protocol.v1.content import (
    blocks_from_wire,
    blocks_to_wire,
    from_wire,
    part_from_wire,
    part_to_wire,
    to_wire,
)
from duologue.protocol.v1.settings import setting_from_wire, setting_to_wire
from duologue.schema import v1
from duologue.schema.base import JsonObject, Other

__all__ = ["permission_tool", "permission_tool_from_wire", "update_from_wire", "update_to_wire"]

T = TypeVar("T")
S = TypeVar("S")

_CHUNKS: dict[str, type[v1.UserMessageChunk | v1.AgentMessageChunk | v1.AgentThoughtChunk]] = {
    "user": v1.UserMessageChunk,
    "agent": v1.AgentMessageChunk,
    "thought": v1.AgentThoughtChunk,
}


def update_to_wire(update: u.Update) -> v1.SessionUpdate | None:
    """One update as it is written; nothing if this version has no words for it."""
    match update:
        case u.MessageChunk():
            return chunk_to_wire(update)
        case u.ToolCallUpdate(is_new=True):
            return v1.ToolCall(**_tool_fields(update, title=update.title or ""))
        case u.ToolCallUpdate():
            return v1.ToolCallUpdate(**_tool_fields(update))
        case u.PlanUpdate():
            return _plan_to_wire(update)
        case u.PlanRemovedUpdate():
            return v1.PlanRemoved(plan_id=update.plan_id, meta=_plain(update.meta))
        case u.CommandsUpdate():
            commands = [_command_to_wire(command) for command in update.commands]
            return v1.AvailableCommandsUpdate(available_commands=commands, meta=_plain(update.meta))
        case u.ModeUpdate():
            return v1.CurrentModeUpdate(current_mode_id=update.mode_id, meta=_plain(update.meta))
        case u.SettingsUpdate():
            options = [setting_to_wire(setting) for setting in update.settings]
            return v1.ConfigOptionUpdate(config_options=options, meta=_plain(update.meta))
        case u.UnrecognizedUpdate():
            return Other(update.tag, update.fields)
        case _:
            return _rarer_to_wire(update)


def chunk_to_wire(chunk: u.MessageChunk) -> v1.SessionUpdate:
    """A piece of a message as it is written."""
    return _CHUNKS[chunk.role](content=to_wire(chunk.content), message_id=chunk.message_id, meta=_plain(chunk.meta))


def _rarer_to_wire(update: u.Update) -> v1.SessionUpdate | None:
    meta = _plain(update.meta)
    match update:
        case u.InfoUpdate():
            return v1.SessionInfoUpdate(title=update.title, updated_at=update.updated_at, meta=meta)
        case u.UsageUpdate():
            cost = None
            if isinstance(update.cost, int | float) and update.currency is not None:
                cost = v1.Cost(amount=update.cost, currency=update.currency)
            return v1.UsageUpdate(used=update.used, size=update.size, cost=cost, meta=meta)
        case u.NoticeUpdate():
            return v1.Notice(severity=update.severity, title=update.title, description=update.description, meta=meta)
        case u.CompactionUpdate():
            summary = _patch(update.summary, blocks_to_wire)
            return v1.CompactionUpdate(
                compaction_id=update.compaction_id,
                status=update.status,
                summary=summary,
                error=update.error,
                meta=update.meta,
            )
        case u.CompactionChunk():
            return v1.CompactionSummaryChunk(
                compaction_id=update.compaction_id, content=to_wire(update.content), meta=meta
            )
        case u.SubagentUpdate():
            return _subagent_to_wire(update)
        case u.SessionMessageUpdate():
            return v1.SessionMessage(
                message_id=update.message_id,
                sender_session_id=update.sender_session_id,
                recipient_session_id=update.recipient_session_id,
                sender_message_id=update.sender_message_id,
                recipient_message_id=update.recipient_message_id,
                content=_patch(update.content, blocks_to_wire),
                meta=update.meta,
            )
        case u.SessionMessageChunk():
            return v1.SessionMessageChunk(message_id=update.message_id, content=to_wire(update.content), meta=meta)
        case u.ToolContentChunk():  # who cares for what came before tells all of it
            content = [part_to_wire(part) for part in update.content]
            return v1.ToolCallUpdate(tool_call_id=update.tool_call_id, content=content, meta=meta)
        case _:  # states and the agent's own terminals; whole messages are told in chunks
            return None


def update_from_wire(update: v1.SessionUpdate) -> u.Update:
    """One update as it was read."""
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
            return u.PlanUpdate(entries=[_entry_from_wire(entry) for entry in update.entries], meta=_set(update.meta))
        case v1.AvailableCommandsUpdate():
            commands = [_command_from_wire(command) for command in update.available_commands]
            return u.CommandsUpdate(commands=commands, meta=_set(update.meta))
        case v1.CurrentModeUpdate():
            return u.ModeUpdate(mode_id=update.current_mode_id, meta=_set(update.meta))
        case v1.ConfigOptionUpdate():
            settings = [setting_from_wire(option) for option in update.config_options]
            return u.SettingsUpdate(settings=settings, meta=_set(update.meta))
        case Other():
            return u.UnrecognizedUpdate(tag=update.tag, fields=dict(update))
        case _:
            return _rarer_from_wire(update)


def _rarer_from_wire(update: Any) -> u.Update:
    meta = update.meta if update.meta is not None else UNSET
    match update:
        case v1.SessionInfoUpdate():
            return u.InfoUpdate(title=update.title, updated_at=update.updated_at, meta=meta)
        case v1.UsageUpdate():
            cost = update.cost
            return u.UsageUpdate(
                used=update.used,
                size=update.size,
                cost=UNSET if cost is None else cost.amount,
                currency=None if cost is None else cost.currency,
                meta=meta,
            )
        case v1.Notice():
            return u.NoticeUpdate(
                severity=update.severity, title=update.title, description=update.description, meta=meta
            )
        case v1.CompactionUpdate():
            return u.CompactionUpdate(
                compaction_id=update.compaction_id,
                status=update.status,
                summary=_patch(update.summary, blocks_from_wire),
                error=update.error,
                replaces_meta=isinstance(update.meta, dict),
                meta=update.meta,
            )
        case v1.CompactionSummaryChunk():
            return u.CompactionChunk(compaction_id=update.compaction_id, content=from_wire(update.content), meta=meta)
        case v1.PlanUpdate():
            return _named_plan_from_wire(update)
        case v1.PlanRemoved():
            return u.PlanRemovedUpdate(plan_id=update.plan_id, meta=meta)
        case v1.SubagentUpdate():
            return _subagent_from_wire(update)
        case v1.SessionMessage():
            return u.SessionMessageUpdate(
                message_id=update.message_id,
                sender_session_id=update.sender_session_id,
                recipient_session_id=update.recipient_session_id,
                sender_message_id=update.sender_message_id,
                recipient_message_id=update.recipient_message_id,
                content=_patch(update.content, blocks_from_wire),
                meta=update.meta,
            )
        case v1.SessionMessageChunk():
            return u.SessionMessageChunk(message_id=update.message_id, content=from_wire(update.content), meta=meta)
        case _:
            raise TypeError(f"{type(update).__name__} is no update of version 1")


# --- tool calls


def permission_tool(update: u.ToolCallUpdate) -> v1.PermissionToolCall:
    """The tool call a permission request is about."""
    return v1.PermissionToolCall(**_tool_fields(update))


def permission_tool_from_wire(tool: v1.PermissionToolCall) -> u.ToolCallUpdate:
    """The tool call a permission request is about, as a patch of what is known of it."""
    return msgspec.structs.replace(_tool_from_wire(tool, is_new=False), is_question=True)


_STATUSES = {"paused": "in_progress", "cancelled": "failed"}
"""How this version tells what it has no words for: paused work goes on some day, and cancelled work will not."""


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
            v1.ToolCallLocation(path=place.path, line=place.line, meta=place.meta) for place in update.locations
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
        fields["locations"] = [u.Location(place.path, place.line, place.meta) for place in tool.locations]
    return u.ToolCallUpdate(**fields)


# --- the smaller pieces


def _chunk_from_wire(role: u.Role, chunk: v1.ContentChunk) -> u.MessageChunk:
    return u.MessageChunk(
        role=role, content=from_wire(chunk.content), message_id=chunk.message_id, meta=_set(chunk.meta)
    )


def _entries_to_wire(plan: u.PlanUpdate) -> list[v1.PlanEntry]:
    """The steps of a plan; one that was cancelled has no form here but to be gone."""
    return [
        v1.PlanEntry(content=entry.content, priority=entry.priority, status=entry.status, meta=entry.meta)
        for entry in plan.entries or []
        if entry.status != "cancelled"
    ]


def _entry_from_wire(entry: v1.PlanEntry) -> u.PlanEntry:
    return u.PlanEntry(entry.content, entry.status, entry.priority, entry.meta)


def _plan_to_wire(update: u.PlanUpdate) -> v1.Plan | v1.PlanUpdate:
    """The one nameless plan of a session has a form of its own."""
    if update.plan_id is None:
        return v1.Plan(entries=_entries_to_wire(update), meta=_plain(update.meta))
    return v1.PlanUpdate(plan=_named_plan_to_wire(update, update.plan_id), meta=_plain(update.meta))


def _named_plan_to_wire(update: u.PlanUpdate, plan_id: str) -> v1.PlanUpdateContent:
    if update.other is not None:
        return Other(update.other.get("type"), update.other)
    if update.uri is not None:
        return v1.PlanFile(plan_id=plan_id, uri=update.uri)
    if update.markdown is not None:
        return v1.PlanMarkdown(plan_id=plan_id, content=update.markdown)
    return v1.PlanItems(plan_id=plan_id, entries=_entries_to_wire(update))


def _named_plan_from_wire(update: v1.PlanUpdate) -> u.PlanUpdate:
    meta = _set(update.meta)
    match update.plan:
        case v1.PlanItems(plan_id=plan_id, entries=entries):
            return u.PlanUpdate(plan_id=plan_id, entries=[_entry_from_wire(entry) for entry in entries], meta=meta)
        case v1.PlanFile(plan_id=plan_id, uri=uri):
            return u.PlanUpdate(plan_id=plan_id, uri=uri, meta=meta)
        case v1.PlanMarkdown(plan_id=plan_id, content=content):
            return u.PlanUpdate(plan_id=plan_id, markdown=content, meta=meta)
        case Other() as other:
            return u.PlanUpdate(plan_id=str(other.get("planId", "")), other=dict(other), meta=meta)


def _command_to_wire(command: u.AvailableCommand) -> v1.AvailableCommand:
    hint = None if command.hint is None else v1.UnstructuredCommandInput(hint=command.hint)
    return v1.AvailableCommand(name=command.name, description=command.description, input=hint, meta=command.meta)


def _command_from_wire(command: v1.AvailableCommand) -> u.AvailableCommand:
    hint = None if command.input is None else command.input.hint
    return u.AvailableCommand(command.name, command.description, hint, command.meta)


def _subagent_to_wire(update: u.SubagentUpdate) -> v1.SubagentUpdate:
    state: Any = _patch(update.state, lambda fields: Other(fields.get("state"), fields))
    return v1.SubagentUpdate(
        session_id=update.session_id,
        title=update.title,
        description=update.description,
        capabilities=_patch(update.can_cancel, _cancel_to_wire),
        state=state,
        cwd=update.cwd,
        additional_directories=update.additional_directories,
        meta=update.meta,
    )


def _subagent_from_wire(update: v1.SubagentUpdate) -> u.SubagentUpdate:
    return u.SubagentUpdate(
        session_id=update.session_id,
        title=update.title,
        description=update.description,
        state=_patch(update.state, _state_fields),
        can_cancel=_patch(update.capabilities, lambda capabilities: capabilities.cancel is not None),
        cwd=update.cwd,
        additional_directories=update.additional_directories,
        meta=update.meta,
    )


def _cancel_to_wire(can_cancel: bool) -> v1.SubagentSessionCapabilities:
    return v1.SubagentSessionCapabilities(cancel=v1.SessionCancelCapabilities() if can_cancel else None)


def _state_fields(state: Any) -> JsonObject:
    """What a session is doing, as it is written: this version only passes it on."""
    fields: JsonObject = msgspec.to_builtins(state)
    return fields


def _patch(value: T | None | UnsetType, convert: Callable[[T], S]) -> S | None | UnsetType:
    if value is UNSET or value is None:
        return value
    return convert(value)


def _plain(meta: JsonObject | None | UnsetType) -> JsonObject | None:
    return None if isinstance(meta, UnsetType) else meta


def _set(meta: JsonObject | None) -> JsonObject | UnsetType:
    return UNSET if meta is None else meta
