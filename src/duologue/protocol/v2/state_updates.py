"""What a session is doing, and the terminals its agent shows, to version 2 and back."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from duologue.conversation import updates as u
from duologue.conversation.work_state import BackgroundWork, Failure, TerminalExit, TerminalSize, TokenUsage
from duologue.errors import InvalidParams
from duologue.schema import v2
from duologue.schema.base import JsonObject, Other

__all__ = [
    "output_from_wire",
    "output_to_wire",
    "patch",
    "plain",
    "state_from_wire",
    "state_to_wire",
    "terminal_from_wire",
    "terminal_to_wire",
    "unknown_state_from_wire",
]

T = TypeVar("T")
S = TypeVar("S")


def patch(value: T | None | UnsetType, convert: Callable[[T], S]) -> S | None | UnsetType:
    """Convert a value; absent stays absent, and null stays null."""
    if value is UNSET or value is None:
        return value
    return convert(value)


def plain(meta: JsonObject | None | UnsetType) -> JsonObject | None:
    """What is attached where absent and null are the same."""
    return None if isinstance(meta, UnsetType) else meta


# --- states


def state_to_wire(update: u.StateUpdate) -> v2.WorkStateUpdate | Other:
    """A state as it is written; why work ended is said of an idle session only."""
    if update.other is not None:
        return Other("state_update", update.other)
    background = update.background
    error, usage = update.error, update.usage
    fields: dict[str, Any] = {
        "background": None if background is None else [_background_to_wire(work) for work in background],
        "stop_reason": update.stop_reason,
        "error": None if error is None else v2.Error(code=error.code, message=error.message, data=error.data),
        "usage": None if usage is None else _usage_to_wire(usage),
        "meta": plain(update.meta),
    }
    match update.state:
        case "running" | "idle" | "requires_action" | "unknown" as state:
            return v2.WorkStateUpdate(state=state, **fields)
        case _:
            known: JsonObject = msgspec.to_builtins(v2.WorkStateUpdate(state="unknown", **fields))
            return Other("state_update", {**known, "state": update.state})


def state_from_wire(update: v2.WorkStateUpdate) -> u.StateUpdate:
    """A state as it was read."""
    error, usage, background = update.error, update.usage, update.background
    return u.StateUpdate(
        state=update.state,
        stop_reason=update.stop_reason,
        error=None if error is None else Failure(code=error.code, message=error.message, data=error.data),
        usage=None if usage is None else _usage_from_wire(usage),
        background=None if background is None else [_background_from_wire(work) for work in background],
        meta=UNSET if update.meta is None else update.meta,
    )


def unknown_state_from_wire(update: Other) -> u.StateUpdate | None:
    """A state this version does not know is still one, and not idle; nothing if this is no state at all."""
    state = update.get("state")
    return u.StateUpdate(state=state, other=dict(update)) if isinstance(state, str) else None


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


def _usage_to_wire(usage: TokenUsage) -> v2.Usage:
    return v2.Usage(
        total_tokens=usage.total,
        input_tokens=usage.input,
        output_tokens=usage.output,
        thought_tokens=usage.thought,
        cached_read_tokens=usage.cached_read,
        cached_write_tokens=usage.cached_write,
        meta=usage.meta,
    )


def _usage_from_wire(usage: v2.Usage) -> TokenUsage:
    return TokenUsage(
        total=usage.total_tokens,
        input=usage.input_tokens,
        output=usage.output_tokens,
        thought=usage.thought_tokens,
        cached_read=usage.cached_read_tokens,
        cached_write=usage.cached_write_tokens,
        meta=usage.meta,
    )


# --- terminals


def terminal_to_wire(update: u.TerminalUpdate) -> v2.TerminalUpdate:
    """What changed of a terminal, as it is written."""
    return v2.TerminalUpdate(
        terminal_id=update.terminal_id,
        command=update.command,
        cwd=update.cwd,
        output=patch(update.output, lambda output: v2.TerminalOutput(data=_encoded(output))),
        exit_status=patch(update.exit, _exit_to_wire),
        size=patch(update.size, lambda size: v2.TerminalSize(cols=size.cols, rows=size.rows, meta=size.meta)),
        capabilities=patch(update.can_cancel, _cancel_to_wire),
        meta=update.meta,
    )


def terminal_from_wire(update: v2.TerminalUpdate) -> u.TerminalUpdate:
    """What changed of a terminal, as it was read."""
    return u.TerminalUpdate(
        terminal_id=update.terminal_id,
        command=update.command,
        cwd=update.cwd,
        output=patch(update.output, _snapshot),
        exit=patch(
            update.exit_status, lambda end: TerminalExit(exit_code=end.exit_code, signal=end.signal, meta=end.meta)
        ),
        size=patch(update.size, lambda size: TerminalSize(cols=size.cols, rows=size.rows, meta=size.meta)),
        can_cancel=patch(update.capabilities, lambda capabilities: capabilities.cancel is not None),
        meta=update.meta,
    )


def output_to_wire(chunk: u.TerminalOutputChunk) -> v2.TerminalOutputChunk:
    """More output, as it is written."""
    return v2.TerminalOutputChunk(terminal_id=chunk.terminal_id, data=_encoded(chunk.data), meta=plain(chunk.meta))


def output_from_wire(chunk: v2.TerminalOutputChunk) -> u.TerminalOutputChunk:
    """More output, as it was read.

    Raises:
        InvalidParams: It is not base64.
    """
    meta = UNSET if chunk.meta is None else chunk.meta
    return u.TerminalOutputChunk(terminal_id=chunk.terminal_id, data=_decoded(chunk.data), meta=meta)


def _snapshot(output: v2.TerminalOutput) -> bytes | UnsetType:
    """The output so far; the schema says of this field that a bad value is as good as none."""
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
        raise InvalidParams(f"$.update.data: the output of a terminal is not base64: {error}") from None


def _exit_to_wire(end: TerminalExit) -> v2.TerminalExitStatus:
    return v2.TerminalExitStatus(exit_code=end.exit_code, signal=end.signal, meta=end.meta)


def _cancel_to_wire(can_cancel: bool) -> v2.TerminalCapabilities:
    return v2.TerminalCapabilities(cancel=v2.TerminalCancelCapabilities() if can_cancel else None)
