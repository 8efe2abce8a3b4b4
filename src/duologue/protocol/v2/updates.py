"""Session updates, to version 2 and back.

In version 2 a patch field has three states: absent keeps the value, null clears it, a value replaces it. A chunk needs
the id of its message; `MessageIds` gives one to chunks without.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import UNSET, structs, to_builtins

from duologue.conversation import updates as u
from duologue.conversation.fields import convert_fields
from duologue.protocol.background_tasks import extension_from_wire, task_to_wire
from duologue.protocol.shared.updates import (
    UpdateConverter,
    patch,
    plan_content_to_wire,
    plan_from_wire,
)
from duologue.protocol.v2 import content, settings
from duologue.protocol.v2.content import blocks_from_wire, blocks_to_wire, from_wire, to_wire
from duologue.protocol.v2.state_updates import (
    output_from_wire,
    output_to_wire,
    state_from_wire,
    state_to_wire,
    terminal_from_wire,
    terminal_to_wire,
)
from duologue.protocol.v2.tools import (
    tool_content_from_wire,
    tool_content_to_wire,
    tool_from_wire,
    tool_to_wire,
)
from duologue.schema import v2
from duologue.schema.base import Other

NAMELESS = "plan"
"""The id of the plan that has none: version 2 requires one."""

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


# --- messages


def _chunk_to_wire(chunk: u.MessageChunk) -> v2.SessionUpdate:
    if chunk.message_id is None:
        raise ValueError("a message chunk of version 2 needs a message id")
    return _CHUNKS[chunk.role](
        content=to_wire(chunk.content),
        message_id=chunk.message_id,
        meta=None if chunk.meta is UNSET else chunk.meta,
    )


def _chunk_from_wire(role: u.Role, chunk: v2.ContentChunk) -> u.MessageChunk:
    meta = UNSET if chunk.meta is None else chunk.meta
    return u.MessageChunk(role=role, content=from_wire(chunk.content), message_id=chunk.message_id, meta=meta)


def _message_to_wire(message: u.MessageUpdate) -> v2.SessionUpdate:
    return convert_fields(message, _MESSAGES[message.role], content=patch(message.content, blocks_to_wire))


def _message_from_wire(role: u.Role, message: v2.UserMessage | v2.AgentMessage | v2.AgentThought) -> u.MessageUpdate:
    return convert_fields(message, u.MessageUpdate, role=role, content=patch(message.content, blocks_from_wire))


# --- plans, notices and states


def _plan_to_wire(update: u.PlanUpdate) -> v2.PlanUpdate:
    plan_id = NAMELESS if update.plan_id is None else update.plan_id
    return convert_fields(update, v2.PlanUpdate, plan=plan_content_to_wire(v2, update, plan_id))


def _plan_from_wire(update: v2.PlanUpdate) -> u.PlanUpdate:
    plan = plan_from_wire(v2, update)
    is_nameless = isinstance(update.plan, v2.PlanItems) and plan.plan_id == NAMELESS
    return structs.replace(plan, plan_id=None) if is_nameless else plan


def _plan_removed_from_wire(update: v2.PlanRemoved) -> u.Update:
    if update.plan_id == NAMELESS:
        return convert_fields(update, u.PlanUpdate, plan_id=None, entries=[])
    return convert_fields(update, u.PlanRemovedUpdate)


def _notice_to_wire(notice: u.NoticeUpdate) -> v2.Notice:
    """Write a notice; version 2 requires a title."""
    return convert_fields(notice, v2.Notice, title=notice.title or notice.severity)


def _other_from_wire(update: Other) -> u.Update:
    """Read an update of an unknown kind; an unknown state is a state, and is not idle."""
    if update.tag == "state_update" and isinstance(update.get("state"), str):
        return u.StateUpdate(state=update["state"], other=dict(update))
    return extension_from_wire(update)


# --- commands


def _commands_update_to_wire(update: u.CommandsUpdate) -> v2.AvailableCommandsUpdate:
    return convert_fields(update, v2.AvailableCommandsUpdate, available_commands=commands_to_wire(update.commands))


def _commands_update_from_wire(update: v2.AvailableCommandsUpdate) -> u.CommandsUpdate:
    return convert_fields(update, u.CommandsUpdate, commands=commands_from_wire(update.available_commands))


def commands_to_wire(commands: list[u.AvailableCommand]) -> list[v2.AvailableCommand]:
    """Write the available commands."""
    return [_command_to_wire(command) for command in commands]


def commands_from_wire(commands: list[v2.AvailableCommand]) -> list[u.AvailableCommand]:
    """Read the available commands."""
    return [_command_from_wire(command) for command in commands]


def _command_to_wire(command: u.AvailableCommand) -> v2.AvailableCommand:
    if command.other is not None:
        return Other(command.other.get("type"), command.other)
    hint = None if command.hint is None else v2.TextCommandInput(hint=command.hint)
    return convert_fields(command, v2.Command, input=hint)


def _command_from_wire(command: v2.AvailableCommand) -> u.AvailableCommand:
    if isinstance(command, Other):
        return u.AvailableCommand(str(command["name"]), str(command["description"]), other=dict(command))
    if isinstance(command.input, Other):
        return convert_fields(command, u.AvailableCommand, other=dict(to_builtins(command)))
    return convert_fields(command, u.AvailableCommand, hint=None if command.input is None else command.input.hint)


converter = UpdateConverter(
    v2,
    content,
    settings,
    to_wire={
        u.MessageChunk: _chunk_to_wire,
        u.MessageUpdate: _message_to_wire,
        u.ToolCallUpdate: tool_to_wire,
        u.ToolContentChunk: tool_content_to_wire,
        u.TerminalUpdate: terminal_to_wire,
        u.TerminalOutputChunk: output_to_wire,
        u.StateUpdate: state_to_wire,
        u.PlanUpdate: _plan_to_wire,
        u.CommandsUpdate: _commands_update_to_wire,
        u.NoticeUpdate: _notice_to_wire,
        u.BackgroundTaskUpdate: partial(task_to_wire, prefix="_"),
    },
    from_wire={
        v2.AgentMessageChunk: partial(_chunk_from_wire, "agent"),
        v2.AgentThoughtChunk: partial(_chunk_from_wire, "thought"),
        v2.UserMessageChunk: partial(_chunk_from_wire, "user"),
        v2.AgentMessage: partial(_message_from_wire, "agent"),
        v2.AgentThought: partial(_message_from_wire, "thought"),
        v2.UserMessage: partial(_message_from_wire, "user"),
        v2.ToolCallUpdate: tool_from_wire,
        v2.ToolCallContentChunk: tool_content_from_wire,
        v2.TerminalUpdate: terminal_from_wire,
        v2.TerminalOutputChunk: output_from_wire,
        v2.WorkStateUpdate: state_from_wire,
        v2.PlanUpdate: _plan_from_wire,
        v2.PlanRemoved: _plan_removed_from_wire,
        v2.AvailableCommandsUpdate: _commands_update_from_wire,
        Other: _other_from_wire,
    },
)
WITHOUT_FORM = (u.ModeUpdate,)
"""Updates that version 2 does not have: modes are config options there."""
update_to_wire: Callable[[u.Update], v2.SessionUpdate] = converter.to_wire
update_from_wire: Callable[[v2.SessionUpdate], u.Update] = converter.from_wire
