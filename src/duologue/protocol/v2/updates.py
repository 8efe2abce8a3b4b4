"""Session updates, to version 2 and back.

In version 2 a patch has three states, as it has here: absent leaves, null clears, a value replaces. A chunk needs the
id of its message; `MessageIds` gives one to those that have none.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from duologue.conversation import updates as u
from duologue.protocol.v2.content import blocks_from_wire, blocks_to_wire, from_wire, to_wire
from duologue.protocol.v2.plans import (
    commands_from_wire,
    commands_to_wire,
    plan_from_wire,
    plan_removed_from_wire,
    plan_to_wire,
)
from duologue.protocol.v2.settings import setting_from_wire, setting_to_wire
from duologue.protocol.v2.state_updates import (
    output_from_wire,
    output_to_wire,
    patch,
    plain,
    state_from_wire,
    state_to_wire,
    terminal_from_wire,
    terminal_to_wire,
    unknown_state_from_wire,
)
from duologue.protocol.v2.tools import (
    permission_subject,
    permission_tool,
    permission_tool_from_wire,
    tool_content_from_wire,
    tool_content_to_wire,
    tool_from_wire,
    tool_to_wire,
)
from duologue.schema import v2
from duologue.schema.base import JsonObject, Other

__all__ = [
    "commands_from_wire",
    "commands_to_wire",
    "permission_subject",
    "permission_tool",
    "permission_tool_from_wire",
    "update_from_wire",
    "update_to_wire",
]

_CHUNKS: dict[str, type[v2.UserMessageChunk | v2.AgentMessageChunk | v2.AgentThoughtChunk]] = {
    "user": v2.UserMessageChunk,
    "agent": v2.AgentMessageChunk,
    "thought": v2.AgentThoughtChunk,
}
_MESSAGES: dict[str, type[v2.UserMessage | v2.AgentMessage | v2.AgentThought]] = {
    "user": v2.UserMessage,
    "agent": v2.AgentMessage,
    "thought": v2.AgentThought,
}


def update_to_wire(update: u.Update) -> v2.SessionUpdate:
    """One update as it is written.

    Raises:
        TypeError: It has no form in this version: modes are settings, and those are told whole.
        ValueError: It is a chunk of a message without an id.
    """
    match update:
        case u.MessageChunk():
            return _chunk_to_wire(update)
        case u.ToolCallUpdate():
            return tool_to_wire(update)
        case u.ToolContentChunk():
            return tool_content_to_wire(update)
        case u.TerminalOutputChunk():
            return output_to_wire(update)
        case u.TerminalUpdate():
            return terminal_to_wire(update)
        case u.StateUpdate():
            return state_to_wire(update)
        case u.MessageUpdate():
            content = patch(update.content, blocks_to_wire)
            return _MESSAGES[update.role](message_id=update.message_id, content=content, meta=update.meta)
        case u.UnrecognizedUpdate():
            return Other(update.tag, update.fields)
        case _:
            return _rarer_to_wire(update)


def _chunk_to_wire(chunk: u.MessageChunk) -> v2.SessionUpdate:
    if chunk.message_id is None:
        raise ValueError("a chunk of version 2 belongs to a message with an id")
    return _CHUNKS[chunk.role](
        content=to_wire(chunk.content),
        message_id=chunk.message_id,
        meta=None if chunk.meta is UNSET else chunk.meta,
    )


def _rarer_to_wire(update: u.Update) -> v2.SessionUpdate:
    meta = plain(update.meta)
    match update:
        case u.PlanUpdate():
            return plan_to_wire(update)
        case u.PlanRemovedUpdate():
            return v2.PlanRemoved(plan_id=update.plan_id, meta=meta)
        case u.CommandsUpdate():
            return v2.AvailableCommandsUpdate(available_commands=commands_to_wire(update.commands), meta=meta)
        case u.SettingsUpdate():
            options = [setting_to_wire(setting) for setting in update.settings]
            return v2.ConfigOptionUpdate(config_options=options, meta=meta)
        case u.InfoUpdate():
            return v2.SessionInfoUpdate(title=update.title, updated_at=update.updated_at, meta=update.meta)
        case u.UsageUpdate():
            return v2.UsageUpdate(used=update.used, size=update.size, cost=_cost_to_wire(update), meta=meta)
        case u.NoticeUpdate():
            title = update.title or update.severity  # a notice without words cannot be written
            return v2.Notice(severity=update.severity, title=title, description=update.description, meta=meta)
        case u.CompactionUpdate():
            return v2.CompactionUpdate(
                compaction_id=update.compaction_id,
                status=update.status,
                summary=patch(update.summary, blocks_to_wire),
                error=update.error,
                meta=update.meta,
            )
        case u.CompactionChunk():
            return v2.CompactionSummaryChunk(
                compaction_id=update.compaction_id, content=to_wire(update.content), meta=meta
            )
        case _:
            return _between_sessions_to_wire(update)


def _between_sessions_to_wire(update: u.Update) -> v2.SessionUpdate:
    match update:
        case u.SubagentUpdate():
            state: Any = patch(update.state, lambda fields: Other(fields.get("state"), fields))
            return v2.SubagentUpdate(
                session_id=update.session_id,
                title=update.title,
                description=update.description,
                capabilities=patch(update.can_cancel, _cancel_to_wire),
                state=state,
                cwd=update.cwd,
                additional_directories=update.additional_directories,
                meta=update.meta,
            )
        case u.SessionMessageUpdate():
            return v2.SessionMessage(
                message_id=update.message_id,
                sender_session_id=update.sender_session_id,
                recipient_session_id=update.recipient_session_id,
                sender_message_id=update.sender_message_id,
                recipient_message_id=update.recipient_message_id,
                content=patch(update.content, blocks_to_wire),
                meta=update.meta,
            )
        case u.SessionMessageChunk():
            return v2.SessionMessageChunk(
                message_id=update.message_id, content=to_wire(update.content), meta=plain(update.meta)
            )
        case _:
            raise TypeError(f"{type(update).__name__} has no form in version 2")


def update_from_wire(update: v2.SessionUpdate) -> u.Update:
    """One update as it was read.

    Raises:
        InvalidParams: It is the output of a terminal, and not base64.
    """
    match update:
        case v2.AgentMessageChunk():
            return _chunk_from_wire("agent", update)
        case v2.AgentThoughtChunk():
            return _chunk_from_wire("thought", update)
        case v2.UserMessageChunk():
            return _chunk_from_wire("user", update)
        case v2.ToolCallUpdate():
            return tool_from_wire(update)
        case v2.ToolCallContentChunk():
            return tool_content_from_wire(update)
        case v2.TerminalOutputChunk():
            return output_from_wire(update)
        case v2.TerminalUpdate():
            return terminal_from_wire(update)
        case v2.WorkStateUpdate():
            return state_from_wire(update)
        case v2.AgentMessage():
            return _message_from_wire("agent", update)
        case v2.AgentThought():
            return _message_from_wire("thought", update)
        case v2.UserMessage():
            return _message_from_wire("user", update)
        case _:
            return _rarer_from_wire(update)


def _rarer_from_wire(update: v2.SessionUpdate) -> u.Update:
    match update:
        case v2.PlanUpdate():
            return plan_from_wire(update)
        case v2.PlanRemoved():
            return plan_removed_from_wire(update)
        case v2.AvailableCommandsUpdate():
            commands = commands_from_wire(update.available_commands)
            return u.CommandsUpdate(commands=commands, meta=_set(update.meta))
        case v2.ConfigOptionUpdate():
            settings = [setting_from_wire(option) for option in update.config_options]
            return u.SettingsUpdate(settings=settings, meta=_set(update.meta))
        case v2.SessionInfoUpdate():
            return u.InfoUpdate(title=update.title, updated_at=update.updated_at, meta=update.meta)
        case v2.UsageUpdate():
            return _usage_from_wire(update)
        case v2.Notice():
            return u.NoticeUpdate(
                severity=update.severity, title=update.title, description=update.description, meta=_set(update.meta)
            )
        case v2.CompactionUpdate():
            return u.CompactionUpdate(
                compaction_id=update.compaction_id,
                status=update.status,
                summary=patch(update.summary, blocks_from_wire),
                error=update.error,
                meta=update.meta,
            )
        case v2.CompactionSummaryChunk():
            return u.CompactionChunk(
                compaction_id=update.compaction_id, content=from_wire(update.content), meta=_set(update.meta)
            )
        case _:
            return _between_sessions_from_wire(update)


def _between_sessions_from_wire(update: Any) -> u.Update:
    match update:
        case v2.SubagentUpdate():
            return u.SubagentUpdate(
                session_id=update.session_id,
                title=update.title,
                description=update.description,
                state=patch(update.state, _state_fields),
                can_cancel=patch(update.capabilities, lambda capabilities: capabilities.cancel is not None),
                cwd=update.cwd,
                additional_directories=update.additional_directories,
                meta=update.meta,
            )
        case v2.SessionMessage():
            return u.SessionMessageUpdate(
                message_id=update.message_id,
                sender_session_id=update.sender_session_id,
                recipient_session_id=update.recipient_session_id,
                sender_message_id=update.sender_message_id,
                recipient_message_id=update.recipient_message_id,
                content=patch(update.content, blocks_from_wire),
                meta=update.meta,
            )
        case v2.SessionMessageChunk():
            return u.SessionMessageChunk(
                message_id=update.message_id, content=from_wire(update.content), meta=_set(update.meta)
            )
        case Other():
            state = unknown_state_from_wire(update) if update.tag == "state_update" else None
            return u.UnrecognizedUpdate(tag=update.tag, fields=dict(update)) if state is None else state
        case _:
            raise TypeError(f"{type(update).__name__} is no update of version 2")


# --- the smaller pieces


def _chunk_from_wire(role: u.Role, chunk: v2.ContentChunk) -> u.MessageChunk:
    return u.MessageChunk(
        role=role, content=from_wire(chunk.content), message_id=chunk.message_id, meta=_set(chunk.meta)
    )


def _message_from_wire(role: u.Role, message: v2.UserMessage | v2.AgentMessage | v2.AgentThought) -> u.MessageUpdate:
    content = patch(message.content, blocks_from_wire)
    return u.MessageUpdate(role=role, message_id=message.message_id, content=content, meta=message.meta)


def _cost_to_wire(update: u.UsageUpdate) -> v2.Cost | None | UnsetType:
    if isinstance(update.cost, UnsetType):
        return UNSET
    if update.cost is None or update.currency is None:
        return None
    return v2.Cost(amount=update.cost, currency=update.currency)


def _usage_from_wire(update: v2.UsageUpdate) -> u.UsageUpdate:
    cost = update.cost
    return u.UsageUpdate(
        used=update.used,
        size=update.size,
        cost=patch(cost, lambda known: known.amount),
        currency=cost.currency if isinstance(cost, v2.Cost) else None,
        meta=_set(update.meta),
    )


def _cancel_to_wire(can_cancel: bool) -> v2.SubagentSessionCapabilities:
    return v2.SubagentSessionCapabilities(cancel=v2.SessionCancelCapabilities() if can_cancel else None)


def _state_fields(state: Any) -> JsonObject:
    """What another session is doing, as it is written: here it is only passed on."""
    fields: JsonObject = msgspec.to_builtins(state)
    return fields


def _set(meta: JsonObject | None) -> JsonObject | UnsetType:
    return UNSET if meta is None else meta
