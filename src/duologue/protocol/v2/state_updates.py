"""States of a session and terminals of its agent, to version 2 and back."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from duologue.conversation import updates as u
from duologue.conversation.fields import convert_fields
from duologue.conversation.work_state import BackgroundWork, Failure, TerminalExit, TerminalSize
from duologue.errors import InvalidParams
from duologue.protocol.shared.updates import (
    patch,
    token_usage_from_wire,
    token_usage_to_wire,
)
from duologue.schema import v2
from duologue.schema.base import JsonObject, Other

_STATES = ("running", "idle", "requires_action", "unknown")
_BACKGROUND: dict[str, tuple[type[Any], str]] = {
    "terminal": (v2.BackgroundTerminal, "terminal_id"),
    "tool_call": (v2.BackgroundToolCall, "tool_call_id"),
    "subagent": (v2.BackgroundSubagent, "session_id"),
}
"""The kinds of background work: the class, and the field with its id."""

# --- states


def state_to_wire(update: u.StateUpdate) -> v2.WorkStateUpdate | Other:
    """Write a state; only an idle state says why work ended."""
    if update.other is not None:
        return Other("state_update", update.other)
    wire = convert_fields(
        update,
        v2.WorkStateUpdate,
        state=update.state if update.state in _STATES else "unknown",
        background=None if update.background is None else [_background_to_wire(work) for work in update.background],
        error=None if update.error is None else convert_fields(update.error, v2.Error),
        usage=token_usage_to_wire(v2, update.usage),
    )
    if update.state in _STATES:
        return wire
    fields: JsonObject = msgspec.to_builtins(wire)
    return Other("state_update", {**fields, "state": update.state})


def state_from_wire(update: v2.WorkStateUpdate) -> u.StateUpdate:
    """Read a state."""
    error, background = update.error, update.background
    return convert_fields(
        update,
        u.StateUpdate,
        error=None if error is None else convert_fields(error, Failure),
        usage=token_usage_from_wire(update.usage),
        background=None if background is None else [_background_from_wire(work) for work in background],
    )


def _background_to_wire(work: BackgroundWork) -> v2.BackgroundWork:
    if work.other is not None:
        return Other(work.kind, work.other)
    if work.kind not in _BACKGROUND:
        return Other(work.kind, {"type": work.kind})
    target, field = _BACKGROUND[work.kind]
    wire: v2.BackgroundWork = convert_fields(work, target, **{field: work.work_id})
    return wire


def _background_from_wire(work: v2.BackgroundWork) -> BackgroundWork:
    if isinstance(work, Other):
        return BackgroundWork(kind=work.tag or "", other=dict(work))
    kind = str(work.__struct_config__.tag)
    return convert_fields(work, BackgroundWork, kind=kind, work_id=getattr(work, _BACKGROUND[kind][1]))


# --- terminals


def terminal_to_wire(update: u.TerminalUpdate) -> v2.TerminalUpdate:
    """Write what changed of a terminal."""
    return convert_fields(
        update,
        v2.TerminalUpdate,
        output=patch(update.output, lambda output: v2.TerminalOutput(data=_encoded(output))),
        exit_status=patch(update.exit, lambda end: convert_fields(end, v2.TerminalExitStatus)),
        size=patch(update.size, lambda size: convert_fields(size, v2.TerminalSize)),
        capabilities=patch(update.can_cancel, _cancel_to_wire),
    )


def terminal_from_wire(update: v2.TerminalUpdate) -> u.TerminalUpdate:
    """Read what changed of a terminal."""
    return convert_fields(
        update,
        u.TerminalUpdate,
        output=patch(update.output, _snapshot),
        exit=patch(update.exit_status, lambda end: convert_fields(end, TerminalExit)),
        size=patch(update.size, lambda size: convert_fields(size, TerminalSize)),
        can_cancel=patch(update.capabilities, lambda capabilities: capabilities.cancel is not None),
    )


def output_to_wire(chunk: u.TerminalOutputChunk) -> v2.TerminalOutputChunk:
    """Write more output of a terminal."""
    return convert_fields(chunk, v2.TerminalOutputChunk, data=_encoded(chunk.data))


def output_from_wire(chunk: v2.TerminalOutputChunk) -> u.TerminalOutputChunk:
    """Read more output of a terminal.

    Raises:
        InvalidParams: The data is not base64.
    """
    return convert_fields(chunk, u.TerminalOutputChunk, data=_decoded(chunk.data))


def _snapshot(output: v2.TerminalOutput) -> bytes | UnsetType:
    """Read all output of a terminal; the schema treats a bad value as absent."""
    try:
        return _decoded(output.data)
    except InvalidParams:
        return UNSET


def _encoded(output: bytes) -> str:
    return b64encode(output).decode()


def _decoded(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidParams(f"$.update.data: terminal output must be base64: {error}") from None


def _cancel_to_wire(can_cancel: bool) -> v2.TerminalCapabilities:
    return v2.TerminalCapabilities(cancel=v2.TerminalCancelCapabilities() if can_cancel else None)
