"""The state of work in a session: how turns and commands end, background work, token usage."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from duologue.conversation.content import JsonObject

FINAL_STATUSES = ("completed", "failed", "cancelled")
"""The statuses in which a tool call or a compaction has ended; only `cancelled` may become another one of them."""

OUTPUT_LIMIT = 1024 * 1024
"""Bytes of a command's output that an agent keeps: more than a model reads."""

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
ToolStatus: TypeAlias = Literal["pending", "in_progress", "paused", "completed", "failed", "cancelled"]
CompactionStatus: TypeAlias = Literal["in_progress", "completed", "failed", "cancelled"]
Severity: TypeAlias = Literal["info", "warning", "error"]

STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)
TOOL_KINDS: tuple[ToolKind, ...] = get_args(ToolKind)
TOOL_STATUSES: tuple[ToolStatus, ...] = get_args(ToolStatus)
COMPACTION_STATUSES: tuple[CompactionStatus, ...] = get_args(CompactionStatus)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


class TokenUsage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens used by one turn."""

    total: int
    input: int
    output: int
    thought: int | None = None
    cached_read: int | None = None
    cached_write: int | None = None
    meta: JsonObject | None = None


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The JSON-RPC error with which work ended."""

    code: int
    message: str
    data: Any = None


class BackgroundWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Work outside of a turn. `kind` is `terminal`, `tool_call`, `subagent`, or unknown (see `other`).

    `work_id` is the id of that terminal, tool call or session.
    """

    kind: str
    work_id: str = ""
    other: JsonObject | None = None
    meta: JsonObject | None = None


class TerminalExit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a command ended: with an exit code or by a signal; perhaps neither is known."""

    exit_code: int | None = None
    signal: str | None = None
    meta: JsonObject | None = None


class TerminalSize(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The columns and rows of a terminal."""

    cols: int
    rows: int
    meta: JsonObject | None = None
