"""States of a session and terminals of its agent, to version 2 and back."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from duologue.conversation import updates as u
from duologue.conversation.work_state import BackgroundWork, Failure, TerminalExit, TerminalSize
from duologue.errors import InvalidParams
from duologue.protocol.shared.fields import convert_fields
from duologue.protocol.shared.updates import (
    meta_from_wire,
    meta_to_wire,
    patch,
    token_usage_from_wire,
    token_usage_to_wire,
)
from duologue.schema import v2
from duologue.schema.base import JsonObject, Other

# --- states


def state_to_wire(update: u.StateUpdate) -> v2.WorkStateUpdate | Other:
    """Write a state; only an idle state says why work ended."""
    if update.other is not None:
        return Other("state_update", update.other)
    background = update.background
    error = update.error
    fields: dict[str, Any] = {
        "background": None if background is None else [_background_to_wire(work) for work in background],
        "stop_reason": update.stop_reason,
        "error": None if error is None else convert_fields(error, v2.Error),
        "usage": token_usage_to_wire(v2, update.usage),
        "meta": meta_to_wire(update.meta),
    }
    match update.state:
        case "running" | "idle" | "requires_action" | "unknown" as state:
            return v2.WorkStateUpdate(state=state, **fields)
        case _:
            known: JsonObject = msgspec.to_builtins(v2.WorkStateUpdate(state="unknown", **fields))
            return Other("state_update", {**known, "state": update.state})


def state_from_wire(update: v2.WorkStateUpdate) -> u.StateUpdate:
    """Read a state."""
    error, background = update.error, update.background
    return u.StateUpdate(
        state=update.state,
        stop_reason=update.stop_reason,
        error=None if error is None else convert_fields(error, Failure),
        usage=token_usage_from_wire(update.usage),
        background=None if background is None else [_background_from_wire(work) for work in background],
        meta=meta_from_wire(update.meta),
    )


def _background_to_wire(work: BackgroundWork) -> v2.BackgroundWork:
    if work.other is not None:
        return Other(work.kind, work.other)
    match work.kind:
        case "terminal":
            return v2.BackgroundTerminal(terminal_id=work.work_id, meta=work.meta)
        case "tool_call":
            return v2.BackgroundToolCall(tool_call_id=work.work_id, meta=work.meta)
        case "subagent":
            return v2.BackgroundSubagent(session_id=work.work_id, meta=work.meta)
        case _:
            return Other(work.kind, {"type": work.kind})


def _background_from_wire(work: v2.BackgroundWork) -> BackgroundWork:
    match work:
        case v2.BackgroundTerminal():
            return BackgroundWork(kind="terminal", work_id=work.terminal_id, meta=work.meta)
        case v2.BackgroundToolCall():
            return BackgroundWork(kind="tool_call", work_id=work.tool_call_id, meta=work.meta)
        case v2.BackgroundSubagent():
            return BackgroundWork(kind="subagent", work_id=work.session_id, meta=work.meta)
        case Other():
            return BackgroundWork(kind=work.tag or "", other=dict(work))


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
    return v2.TerminalOutputChunk(
        terminal_id=chunk.terminal_id, data=_encoded(chunk.data), meta=meta_to_wire(chunk.meta)
    )


def output_from_wire(chunk: v2.TerminalOutputChunk) -> u.TerminalOutputChunk:
    """Read more output of a terminal.

    Raises:
        InvalidParams: The data is not base64.
    """
    meta = meta_from_wire(chunk.meta)
    return u.TerminalOutputChunk(terminal_id=chunk.terminal_id, data=_decoded(chunk.data), meta=meta)


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
