"""Write a turn as JSON lines for `duologue run --json`: one event per line, with its frame."""

from __future__ import annotations

from typing import Any, TextIO

import msgspec

from duologue.cli.console.safe_output import safe
from duologue.cli.console.summaries import TurnSummary
from duologue.cli.error_report import answered
from duologue.cli.exit_codes import ExitCode
from duologue.conversation import items
from duologue.events import Event

FORMAT = 1
"""Version of the lines; new events and new fields do not change it."""


class JsonLines:
    """Writes one line per event: `event` names its type; events of the agent have `raw`, their unchanged frame."""

    def __init__(self, out: TextIO) -> None:
        self._out = safe(out, is_exact=True)

    def opened(self, session_id: str, cwd: str) -> None:
        """Write the session's id and directory."""
        self._write("Session", format=FORMAT, session_id=session_id, cwd=cwd)

    def show(self, event: Event) -> None:
        """Write one event."""
        self._write(type(event).__name__, **_fields(event))

    def show_subagent(self, session_id: str, event: Event) -> None:
        """Write an event of a subagent's session; `type` names its type, so that it is not taken for the agent's."""
        fields = _fields(event) | {"session_id": session_id, "type": type(event).__name__}
        self._write("SubagentEvent", **fields)

    def asked(self, tool: items.ToolCall) -> None:
        """Write that the user is asked for permission; the tool call itself was an event."""
        self._write("Asked", tool_call_id=tool.tool_call_id, title=tool.title, kind=tool.kind)

    def denied(self, what: str) -> None:
        """Write that something was not allowed."""
        self._write("Denied", what=what)

    def pause(self) -> None:
        """Do nothing: each line is complete."""

    def end(self, report: TurnSummary) -> None:
        """Write the summary of a turn."""
        self._write("End", **msgspec.to_builtins(report))

    def unchecked(self, acts: list[str]) -> None:
        """Write what the agent did without asking and without the files and terminals of this client."""
        self._write("Unchecked", acts=acts)

    def error(self, text: str, code: ExitCode, error: Exception | None = None) -> None:
        """Write why the turn failed; `error` is the JSON-RPC error that caused it, if any."""
        self._write("Error", message=text, code=int(code), error=answered(error))

    def _write(self, name: str, /, **fields: Any) -> None:
        self._out.write_json({"event": name, **fields})


def _fields(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    fields["raw"] = msgspec.Raw(event.raw) if event.raw else None
    return fields
