"""Plans and commands, to version 2 and back.

Every plan of version 2 has an id; the one plan of a session whose plans have no names has `NAMELESS`.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from duologue.conversation import updates as u
from duologue.schema import v2
from duologue.schema.base import Other

__all__ = [
    "NAMELESS",
    "commands_from_wire",
    "commands_to_wire",
    "plan_from_wire",
    "plan_removed_from_wire",
    "plan_to_wire",
]

NAMELESS = "plan"
"""The id of the plan that has none."""


def plan_to_wire(update: u.PlanUpdate) -> v2.PlanUpdate:
    """A plan as it is written."""
    meta = update.meta if isinstance(update.meta, dict) else None
    return v2.PlanUpdate(plan=_content_to_wire(update), meta=meta)


def plan_from_wire(update: v2.PlanUpdate) -> u.PlanUpdate:
    """A plan as it was read."""
    meta = UNSET if update.meta is None else update.meta
    match update.plan:
        case v2.PlanItems(plan_id=plan_id, entries=entries):
            steps = [u.PlanEntry(entry.content, entry.status, entry.priority, entry.meta) for entry in entries]
            return u.PlanUpdate(plan_id=None if plan_id == NAMELESS else plan_id, entries=steps, meta=meta)
        case v2.PlanFile(plan_id=plan_id, uri=uri):
            return u.PlanUpdate(plan_id=plan_id, uri=uri, meta=meta)
        case v2.PlanMarkdown(plan_id=plan_id, content=content):
            return u.PlanUpdate(plan_id=plan_id, markdown=content, meta=meta)
        case Other() as other:
            return u.PlanUpdate(plan_id=str(other.get("planId", "")), other=dict(other), meta=meta)


def plan_removed_from_wire(update: v2.PlanRemoved) -> u.PlanRemovedUpdate | u.PlanUpdate:
    """That a plan is no more; the one without a name is then empty."""
    meta = UNSET if update.meta is None else update.meta
    if update.plan_id == NAMELESS:
        return u.PlanUpdate(entries=[], meta=meta)
    return u.PlanRemovedUpdate(plan_id=update.plan_id, meta=meta)


def commands_to_wire(commands: list[u.AvailableCommand]) -> list[v2.AvailableCommand]:
    """The commands on offer, as they are written."""
    return [_command_to_wire(command) for command in commands]


def commands_from_wire(commands: list[v2.AvailableCommand]) -> list[u.AvailableCommand]:
    """The commands on offer, as they were read."""
    return [_command_from_wire(command) for command in commands]


def _content_to_wire(update: u.PlanUpdate) -> v2.PlanUpdateContent:
    plan_id = NAMELESS if update.plan_id is None else update.plan_id
    if update.other is not None:
        return Other(update.other.get("type"), update.other)
    if update.uri is not None:
        return v2.PlanFile(plan_id=plan_id, uri=update.uri)
    if update.markdown is not None:
        return v2.PlanMarkdown(plan_id=plan_id, content=update.markdown)
    entries = [
        v2.PlanEntry(content=entry.content, priority=entry.priority, status=entry.status, meta=entry.meta)
        for entry in update.entries or []
    ]
    return v2.PlanItems(plan_id=plan_id, entries=entries)


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
