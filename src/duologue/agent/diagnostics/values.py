"""Check values that the protocol lists: kinds, statuses, severities, stop reasons."""

from __future__ import annotations

from collections.abc import Sequence

from duologue.conversation.work_state import (
    COMPACTION_STATUSES,
    SEVERITIES,
    STOP_REASONS,
    TOOL_KINDS,
    TOOL_STATUSES,
)
from duologue.suggestion import suggestion

_PRIORITIES = ("high", "medium", "low")
_STEP_STATUSES = ("pending", "in_progress", "completed", "cancelled")


def check_tool_call(kind: object = None, status: object = None) -> None:
    """Check kind and status of a tool call, where they are given.

    Raises:
        ValueError: One of them is unknown; the message names the known ones.
    """
    if kind is not None and kind not in TOOL_KINDS:
        raise _unknown("kind of a tool call", kind, TOOL_KINDS)
    if status is not None and status not in TOOL_STATUSES:
        raise _unknown("status of a tool call", status, TOOL_STATUSES)


def check_step(status: object, priority: object) -> None:
    """Check status and priority of a step of a plan; raises `ValueError` with the known ones."""
    if status not in _STEP_STATUSES:
        raise _unknown("status of a plan's step", status, _STEP_STATUSES)
    if priority not in _PRIORITIES:
        raise _unknown("priority of a plan's step", priority, _PRIORITIES)


def check_compaction(status: object) -> None:
    """Check the status of a compaction; raises `ValueError` with the known ones."""
    if status not in COMPACTION_STATUSES:
        raise _unknown("status of a compaction", status, COMPACTION_STATUSES)


def check_stop_reason(reason: object) -> None:
    """Check a stop reason; raises `ValueError` with the known ones."""
    if reason not in STOP_REASONS:
        raise _unknown("stop reason", reason, STOP_REASONS)


def check_severity(severity: object) -> None:
    """Check the severity of a notice; raises `ValueError` with the known ones."""
    if severity not in SEVERITIES:
        raise _unknown("severity", severity, SEVERITIES)


def _unknown(role: str, value: object, known: Sequence[str]) -> ValueError:
    near = suggestion(value, known) if isinstance(value, str) else ""
    return ValueError(f"{value!r} is not a {role}; use one of {', '.join(known)}{near}")
