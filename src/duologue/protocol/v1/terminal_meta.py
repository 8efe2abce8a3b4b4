"""The output of commands that an agent of version 1 runs itself, which is in the `_meta` of tool calls.

Version 1 has no update for it. This convention comes from Zed; codex, pi and claude follow it:

    terminal_info                            {terminal_id, cwd}                 the tool call shows this terminal
    terminal_output, terminal_output_delta   {terminal_id, data}                it has printed this
    terminal_exit                            {terminal_id, exit_code, signal}   it has ended
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import UNSET, Struct, ValidationError, convert

from duologue.conversation import updates as u
from duologue.conversation.work_state import TerminalExit
from duologue.schema.base import JsonObject

T = TypeVar("T")


class _Info(Struct):
    terminal_id: str
    cwd: str | None = None


class _Output(Struct):
    terminal_id: str
    data: str


class _Exit(Struct):
    terminal_id: str
    exit_code: int | None = None
    signal: str | None = None


def terminal_updates(update: u.Update) -> list[u.Update]:
    """Return the terminal updates in the `_meta` of an update, as version 2 has them; malformed entries are ignored."""
    if not isinstance(update, u.ToolCallUpdate) or not isinstance(update.meta, dict):
        return []
    meta, updates = update.meta, list[u.Update]()
    if (info := _read(meta, "terminal_info", _Info)) is not None:
        updates.append(u.TerminalUpdate(terminal_id=info.terminal_id, cwd=info.cwd or UNSET))
    for key in ("terminal_output", "terminal_output_delta"):
        if (output := _read(meta, key, _Output)) is not None:
            data = output.data.encode("utf-8", "replace")
            updates.append(u.TerminalOutputChunk(terminal_id=output.terminal_id, data=data))
    if (end := _read(meta, "terminal_exit", _Exit)) is not None:
        ended = TerminalExit(exit_code=end.exit_code, signal=end.signal)
        updates.append(u.TerminalUpdate(terminal_id=end.terminal_id, exit=ended))
    return updates


def _read(meta: JsonObject, key: str, kind: type[T]) -> T | None:
    if key not in meta:
        return None
    try:
        return convert(meta[key], kind)
    except ValidationError:
        return None
