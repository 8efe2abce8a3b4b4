"""Background tasks on the wire, which are an extension of the adapters for Claude Code and Codex.

A client that declares `asyncTasks` gets updates of each task, in version 2 with an underscore before their names, and
may stop one with a request. Subagents have an earlier spelling of the same kind; both are read into known updates.
"""

from __future__ import annotations

from typing import Any, cast

from duologue.conversation import updates as u
from duologue.conversation.content import JsonObject
from duologue.protocol.steering import value_at
from duologue.schema.base import Model, Other

STOP_TASK = "_session/async_task/stop"
CAPABILITY = "asyncTasks"

SPAWNED, PROGRESS, STATE = "async_task_spawned", "async_task_progress", "async_task_state_update"
SUBAGENT_SPAWNED, SUBAGENT_STATE = "subagent_spawned", "subagent_state_update"

_TEXTS = {
    "title": "name",
    "kind": "taskType",
    "description": "description",
    "state": "state",
    "summary": "summary",
    "tool_call_id": "toolCallId",
    "output_file": "outputFilePath",
}
"""The texts of an update, and their names on the wire."""

_OTHER_THAN = {"sessionUpdate", "asyncTaskId", "canStop", "_meta", *_TEXTS.values()}

_STOP_REASONS = {"completed": "end_turn", "cancelled": "cancelled"}
"""The states of subagents that ended well, in the earlier spelling, and the stop reasons that they stand for."""


class StopTaskRequest(Model, frozen=True, kw_only=True):
    """Parameters of a request to stop a background task."""

    session_id: str
    async_task_id: str
    meta: JsonObject | None = None


class StopTaskResponse(Model, frozen=True, kw_only=True):
    """Result of that request."""

    stopped: bool
    meta: JsonObject | None = None


def declares_tasks(meta: object) -> bool:
    """Return True if this `_meta` declares background tasks."""
    version, names = (value_at(meta, ("jetbrains", "air", key)) for key in ("version", "capabilities"))
    return isinstance(version, int) and version >= 1 and isinstance(names, list) and CAPABILITY in names


def with_tasks_declared(meta: JsonObject | None) -> JsonObject:
    """Return `_meta` that also declares background tasks."""
    if declares_tasks(meta):
        return meta or {}
    jetbrains, air = _object_at(meta, "jetbrains"), _object_at(meta, "jetbrains", "air")
    names = air.get("capabilities")
    declared: JsonObject = {
        **air,
        "version": 1,
        "capabilities": [*(names if isinstance(names, list) else ()), CAPABILITY],
    }
    return {**(meta or {}), "jetbrains": {**jetbrains, "air": declared}}


def _object_at(meta: object, *keys: str) -> JsonObject:
    found = value_at(meta, keys)
    return cast("JsonObject", found) if isinstance(found, dict) else {}


def task_to_wire(update: u.BackgroundTaskUpdate, prefix: str = "") -> Other:
    """Write an update of a background task; `prefix` is what its name begins with in this version."""
    fields = {wire: value for name, wire in _TEXTS.items() if isinstance(value := getattr(update, name), str)}
    tag = prefix + (SPAWNED if update.is_new else STATE if "state" in fields else PROGRESS)
    wire: JsonObject = {"sessionUpdate": tag, "asyncTaskId": update.task_id}
    if update.is_new:
        title = fields.get("name", "")
        wire |= {"name": title, "taskType": "task", "description": title, "showInTranscript": True, "canStop": False}
    wire |= fields
    if isinstance(update.can_stop, bool):
        wire["canStop"] = update.can_stop
    if isinstance(update.other, dict):
        wire |= update.other
    if isinstance(update.meta, dict):
        wire["_meta"] = update.meta
    return Other(tag, wire)


def extension_from_wire(update: Other) -> u.Update:
    """Read an update that is in no schema; it is kept as received if it is not known or malformed."""
    tag = (update.tag or "").removeprefix("_")
    found: u.Update | None = None
    if tag in (SPAWNED, PROGRESS, STATE):
        found = _task_from_wire(tag, update)
    elif tag in (SUBAGENT_SPAWNED, SUBAGENT_STATE):
        found = _subagent_from_wire(tag, update)
    return found or u.UnrecognizedUpdate(tag=update.tag, fields=dict(update))


def _task_from_wire(tag: str, fields: JsonObject) -> u.BackgroundTaskUpdate | None:
    task_id, can_stop, meta = fields.get("asyncTaskId"), fields.get("canStop"), fields.get("_meta")
    texts: dict[str, Any] = {name: value for name, wire in _TEXTS.items() if isinstance(value := fields.get(wire), str)}
    if not isinstance(task_id, str) or (tag == STATE and "state" not in texts):
        return None
    return u.BackgroundTaskUpdate(
        task_id=task_id,
        is_new=tag == SPAWNED,
        can_stop=can_stop if isinstance(can_stop, bool) else u.UNSET,
        other={name: value for name, value in fields.items() if name not in _OTHER_THAN} or u.UNSET,
        meta=cast("JsonObject", meta) if isinstance(meta, dict) else u.UNSET,
        **texts,
    )


def _subagent_from_wire(tag: str, fields: JsonObject) -> u.SubagentUpdate | None:
    session_id, title, task, state = (fields.get(key) for key in ("subagentSessionId", "name", "task", "state"))
    if not isinstance(session_id, str):
        return None
    if tag == SUBAGENT_STATE:
        reason = _STOP_REASONS.get(state, "error") if isinstance(state, str) else "error"
        return u.SubagentUpdate(session_id=session_id, state={"state": "idle", "stopReason": reason})
    return u.SubagentUpdate(
        session_id=session_id,
        title=title if isinstance(title, str) else u.UNSET,
        description=task if isinstance(task, str) else u.UNSET,
        state={"state": "running"},
        can_cancel=value_at(fields, ("capabilities", "cancel")) is not None,
    )
