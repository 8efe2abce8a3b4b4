"""Summarize a turn and a tool call in one line each: what was done to which file or by which command."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from duologue.cli.console.diff import short_path
from duologue.cli.exit_codes import ExitCode
from duologue.client.permissions.actions import file_actions
from duologue.client.permissions.command_line import join, shell_line
from duologue.client.permissions.tool_input import read_input
from duologue.client.turn import ClientTurn
from duologue.conversation.content import AudioContent, Content, ImageContent, Resource, ResourceLink
from duologue.conversation.items import BackgroundTask, Subagent, ToolCall
from duologue.sanitize import escape_line
from duologue.usage.amounts import SessionUsage, TurnUsage

COUNTED = {"cumulative": ", by the agent's running total", "derived": ", computed from what the agent reports"}
"""Words for tokens that the agent has not reported turn by turn."""


@dataclass(frozen=True, kw_only=True)
class TurnSummary:
    """How a turn ended, and what it cost."""

    session_id: str
    stop_reason: str
    code: ExitCode
    seconds: float
    tools: int
    session_usage: SessionUsage
    usage: TurnUsage | None = None
    cost: float | None = None
    currency: str | None = None

    @classmethod
    def of(cls, turn: ClientTurn, code: ExitCode, began: float) -> Self:
        """Summarize an ended turn that began at this time of the monotonic clock."""
        usage = turn.session.usage
        return cls(
            session_id=turn.session.id,
            stop_reason=turn.stop_reason or "ended",
            code=code,
            seconds=round(time.monotonic() - began, 3),
            tools=len(turn.tool_calls),
            usage=turn.usage,
            session_usage=usage,
            cost=usage.cost,
            currency=usage.currency,
        )

    @property
    def text(self) -> str:
        """The closing line: the turn first, then the session so far if it is more than this turn."""
        tools = "1 tool" if self.tools == 1 else f"{self.tools} tools"
        parts = [
            self.stop_reason,
            f"{self.seconds:.1f} s",
            *([tools] if self.tools else []),
            *([used] if (used := "" if self.usage is None else self.usage.text) else []),
        ]
        so_far = self.session_usage.text
        more = f"; session so far: {so_far}" if so_far and so_far != used else ""
        return f"({escape_line(', '.join(parts) + more)})"


def title_of(call: ToolCall, cwd: Path) -> str:
    """Return the agent's title of a tool call, and the file or command that it is about if the title names neither."""
    title = escape_line(call.title) or escape_line(call.tool_call_id)
    names = [_command(argv) for argv in read_input(call).commands]
    names += [short_path(path, cwd) for _, path in file_actions(call)]
    missing = [name for name in dict.fromkeys(names) if name not in call.title and Path(name).name not in call.title]
    if not missing or len(missing) < len(set(names)):
        return title
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"{title} ({escape_line(missing[0])}{more})"


def _command(argv: list[str]) -> str:
    return shell_line(argv) or join(argv)


def used_text(usage: SessionUsage) -> str:
    """Return what a session has used in how many turns, and how that is known if it is not simply reported."""
    turns = "1 turn" if usage.turns == 1 else f"{usage.turns:,} turns"
    return f"{usage.text} in {turns}{COUNTED.get(usage.provenance, '')}" if usage.text else ""


def describe_content(content: Content) -> str:
    """Return what content that is not text is, in one line."""
    match content:
        case ImageContent() | AudioContent():
            return escape_line(f"{content.mime_type}, {len(content.data) * 3 // 4:,} bytes")
        case ResourceLink():
            return escape_line(f"{content.title or content.name}: {content.uri}")
        case Resource():
            return escape_line(content.uri)
        case _:
            return "unknown content"


def work_line(work: Subagent | BackgroundTask, shown: MutableMapping[str, tuple[str, str]]) -> str:
    """Return the state of a subagent or background task in one line; empty if `shown` has it already."""
    if isinstance(work, Subagent):
        key, line = work.session_id, f"subagent {work.title or work.session_id}: {(work.state or {}).get('state', '')}"
    else:
        summary = f" ({work.summary})" if work.summary and work.is_over else ""
        key, line = work.task_id, f"background task {work.title or work.task_id}: {work.state}{summary}"
    if shown.get(key) == ("", line):
        return ""
    shown[key] = ("", line)
    return escape_line(line)
