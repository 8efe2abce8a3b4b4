"""Plans and commands, to version 2 and back.

Every plan of version 2 has an id; the one plan of a session whose plans have no names has `NAMELESS`.
"""

from __future__ import annotations

import msgspec
from msgspec import structs

from duologue.conversation import updates as u
from duologue.protocol.shared import updates as shared
from duologue.protocol.shared.updates import meta_to_wire, plan_content_to_wire
from duologue.schema import v2
from duologue.schema.base import Other

__all__ = [
    "NAMELESS",
    "commands_from_wire",
    "commands_to_wire",
    "plan_from_wire",
    "plan_to_wire",
]

NAMELESS = "plan"
"""The id of the plan that has none."""


def plan_to_wire(update: u.PlanUpdate) -> v2.PlanUpdate:
    """Write a plan."""
    plan_id = NAMELESS if update.plan_id is None else update.plan_id
    return v2.PlanUpdate(plan=plan_content_to_wire(v2, update, plan_id), meta=meta_to_wire(update.meta))


def plan_from_wire(update: v2.PlanUpdate) -> u.PlanUpdate:
    """Read a plan."""
    plan = shared.plan_from_wire(v2, update)
    is_nameless = isinstance(update.plan, v2.PlanItems) and plan.plan_id == NAMELESS
    return structs.replace(plan, plan_id=None) if is_nameless else plan


def commands_to_wire(commands: list[u.AvailableCommand]) -> list[v2.AvailableCommand]:
    """The commands on offer, as they are written."""
    return [_command_to_wire(command) for command in commands]


def commands_from_wire(commands: list[v2.AvailableCommand]) -> list[u.AvailableCommand]:
    """The commands on offer, as they were read."""
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
            command.name, command.description, meta=command.meta, other=dict(msgspec.to_builtins(command))
        )
    hint = None if command.input is None else command.input.hint
    return u.AvailableCommand(command.name, command.description, hint, command.meta)
