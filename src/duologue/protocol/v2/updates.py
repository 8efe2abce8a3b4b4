"""Session updates, to version 2 and back.

In version 2 a patch field has three states: absent keeps the value, null clears it, a value replaces it. A chunk needs
the id of its message; `MessageIds` gives one to chunks without.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType, structs, to_builtins

from duologue.conversation import updates as u
from duologue.protocol.shared.fields import convert_fields
from duologue.protocol.shared.updates import (
    UpdateConverter,
    meta_from_wire,
    meta_to_wire,
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

_common = UpdateConverter(v2, content, settings)

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


def update_to_wire(update: u.Update) -> v2.SessionUpdate:
    """Write one update.

    Raises:
        TypeError: The update has no form in version 2, where modes are config options.
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
            blocks = patch(update.content, blocks_to_wire)
            return _MESSAGES[update.role](message_id=update.message_id, content=blocks, meta=update.meta)
        case _:
            return _rarer_to_wire(update)


def _chunk_to_wire(chunk: u.MessageChunk) -> v2.SessionUpdate:
    if chunk.message_id is None:
        raise ValueError("a message chunk of version 2 needs a message id")
    return _CHUNKS[chunk.role](
        content=to_wire(chunk.content),
        message_id=chunk.message_id,
        meta=None if chunk.meta is UNSET else chunk.meta,
    )


def _rarer_to_wire(update: u.Update) -> v2.SessionUpdate:
    meta = meta_to_wire(update.meta)
    match update:
        case u.PlanUpdate():
            return _plan_to_wire(update)
        case u.CommandsUpdate():
            return v2.AvailableCommandsUpdate(available_commands=commands_to_wire(update.commands), meta=meta)
        case u.InfoUpdate():
            return convert_fields(update, v2.SessionInfoUpdate)
        case u.UsageUpdate():
            return v2.UsageUpdate(used=update.used, size=update.size, cost=_cost_to_wire(update), meta=meta)
        case _:
            if isinstance(update, u.NoticeUpdate) and not update.title:  # version 2 requires a title
                update = structs.replace(update, title=update.severity)
            wire: v2.SessionUpdate | None = _common.to_wire(update)
            if wire is None:
                raise TypeError(f"{type(update).__name__} has no form in version 2")
            return wire


def update_from_wire(update: v2.SessionUpdate) -> u.Update:
    """Read one update.

    Raises:
        InvalidParams: It is terminal output that is not base64.
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
            return _plan_from_wire(update)
        case v2.PlanRemoved(plan_id=plan_id) if plan_id == NAMELESS:
            return u.PlanUpdate(entries=[], meta=meta_from_wire(update.meta))
        case v2.AvailableCommandsUpdate():
            commands = commands_from_wire(update.available_commands)
            return u.CommandsUpdate(commands=commands, meta=meta_from_wire(update.meta))
        case v2.SessionInfoUpdate():
            return convert_fields(update, u.InfoUpdate)
        case v2.UsageUpdate():
            return _usage_from_wire(update)
        case Other() if update.tag == "state_update" and isinstance(update.get("state"), str):  # unknown, not idle
            return u.StateUpdate(state=update["state"], other=dict(update))
        case _:
            return _common.from_wire(update)


# --- the smaller pieces


def _chunk_from_wire(role: u.Role, chunk: v2.ContentChunk) -> u.MessageChunk:
    return u.MessageChunk(
        role=role, content=from_wire(chunk.content), message_id=chunk.message_id, meta=meta_from_wire(chunk.meta)
    )


def _message_from_wire(role: u.Role, message: v2.UserMessage | v2.AgentMessage | v2.AgentThought) -> u.MessageUpdate:
    blocks = patch(message.content, blocks_from_wire)
    return u.MessageUpdate(role=role, message_id=message.message_id, content=blocks, meta=message.meta)


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
        meta=meta_from_wire(update.meta),
    )


# --- plans and commands


def _plan_to_wire(update: u.PlanUpdate) -> v2.PlanUpdate:
    """Write a plan."""
    plan_id = NAMELESS if update.plan_id is None else update.plan_id
    return v2.PlanUpdate(plan=plan_content_to_wire(v2, update, plan_id), meta=meta_to_wire(update.meta))


def _plan_from_wire(update: v2.PlanUpdate) -> u.PlanUpdate:
    """Read a plan."""
    plan = plan_from_wire(v2, update)
    is_nameless = isinstance(update.plan, v2.PlanItems) and plan.plan_id == NAMELESS
    return structs.replace(plan, plan_id=None) if is_nameless else plan


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
    return v2.Command(name=command.name, description=command.description, input=hint, meta=command.meta)


def _command_from_wire(command: v2.AvailableCommand) -> u.AvailableCommand:
    if isinstance(command, Other):
        return u.AvailableCommand(str(command["name"]), str(command["description"]), other=dict(command))
    if isinstance(command.input, Other):
        return u.AvailableCommand(
            command.name, command.description, meta=command.meta, other=dict(to_builtins(command))
        )
    hint = None if command.input is None else command.input.hint
    return u.AvailableCommand(command.name, command.description, hint, command.meta)
