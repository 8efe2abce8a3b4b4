"""Approval of a tool call by the user: once, always for these arguments, or with arguments that the user edited."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, cast

from duologue.agent.elicitation import is_secret_name
from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.turn import Turn
from duologue.errors import RequestError
from duologue.integrations.tool_calls import to_json, tool_title
from duologue.protocol.values import PermissionOption

EDIT = "edit_arguments"
"""Id of the option that lets the user edit the arguments."""


def approval_options(covered: str, *, can_edit: bool = False) -> list[PermissionOption]:
    """Return the options of a permission request; the names of "always" say what it covers."""
    edit = PermissionOption(option_id=EDIT, name="Edit the arguments, then allow once", kind="allow_once")
    return [
        PermissionOption(option_id="allow_once", name="Allow once", kind="allow_once"),
        PermissionOption(option_id="allow_always", name=f"Always allow {covered}", kind="allow_always"),
        *([edit] if can_edit else []),
        PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"),
        PermissionOption(option_id="reject_always", name=f"Always reject {covered}", kind="reject_always"),
    ]


async def request_approval(
    turn: Turn[Any],
    tool: ToolCallHandle,
    name: str,
    arguments: Any,
    *,
    can_edit: bool = True,
    remember_as: str | None = None,
) -> Any:
    """Request permission for a tool call; return the arguments to call it with, or `None` if it is rejected.

    Clients that support forms also offer to edit the arguments. The tool call then shows the edited ones.

    Args:
        turn: The turn of the tool call.
        tool: The tool call, which shows its arguments.
        name: The name of the tool.
        arguments: The arguments of the model.
        can_edit: Whether the library can call the tool with other arguments.
        remember_as: What an "always" answer covers; see `ToolCallHandle.request_permission`.
    """
    can_edit = can_edit and turn.client_capabilities.forms and bool(_editable(arguments))
    options = approval_options("with these arguments", can_edit=can_edit)
    chosen = await tool.request_permission_option(options=options, remember_as=remember_as)
    if chosen is None or not chosen.kind.startswith("allow"):
        await tool.update(status="failed")
        return None
    if chosen.option_id != EDIT:
        await tool.update(status="in_progress")
        return arguments
    edited = await _edit(turn, tool, name, arguments)
    if edited is None:
        await tool.fail("the form with the edited arguments was not submitted")
        return None
    await tool.update(title=tool_title(name, edited), raw_input=edited)
    return edited


async def _edit(turn: Turn[Any], tool: ToolCallHandle, name: str, arguments: Any) -> dict[str, Any] | None:
    """Ask the user for other arguments in a form; what a form cannot hold is edited as JSON."""
    fields = _editable(arguments)
    form: type[Any] = dataclasses.make_dataclass(
        "Arguments",
        [(key, kind, dataclasses.field(default=value)) for key, (kind, value) in fields.items()],
        namespace={"__doc__": f"Arguments of {name}"},
    )
    try:
        filled = await turn.elicit(form, f"Edit the arguments of {name}; they are used once.", tool=tool)
    except RequestError:
        return None
    if filled is None:
        return None
    given = {key: getattr(filled, key) for key in fields}
    return {**arguments, **{key: _value_of(given[key], arguments[key]) for key in fields}}


def _editable(arguments: Any) -> dict[str, tuple[type, Any]]:
    """Return the type and default of the fields of a form for these arguments; secrets are left out."""
    if not isinstance(arguments, Mapping):
        return {}
    fields: dict[str, tuple[type, Any]] = {}
    for key, value in cast("Mapping[str, Any]", arguments).items():
        if key.isidentifier() and not iskeyword(key) and not is_secret_name(key):
            fields[key] = (type(value), value) if type(value) in (str, int, float, bool) else (str, to_json(value))
    return fields


def _value_of(given: Any, before: Any) -> Any:
    """Return the value of a field: of one that showed JSON the JSON, or the text if that is none."""
    if type(before) in (str, int, float, bool):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given
