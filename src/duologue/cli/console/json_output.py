"""A turn as JSON, one event per line, each with the frame it came in: for programs that read `duologue run --json`."""

from __future__ import annotations

from typing import Any, TextIO

import msgspec

from duologue.cli.console.renderer import TurnSummary
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, answered
from duologue.conversation import items
from duologue.events import Event

__all__ = ["JsonLines"]


class JsonLines:
    """Every line has `event`, the name of its kind; lines that came from the agent have `raw`, its frame, unchanged."""

    def __init__(self, out: TextIO) -> None:
        self._out = safe(out, is_exact=True)

    def opened(self, session_id: str, cwd: str) -> None:
        """The first line."""
        self._write("Session", session_id=session_id, cwd=cwd)

    def show(self, event: Event) -> None:
        """One event."""
        fields: dict[str, Any] = msgspec.to_builtins(event)
        fields["raw"] = msgspec.Raw(event.raw) if event.raw else None
        self._write(type(event).__name__, **fields)

    def asked(self, tool: items.ToolCall) -> None:
        """A person will be asked; the tool call itself came as an event."""
        self._write("Asked", tool_call_id=tool.tool_call_id, title=tool.title, kind=tool.kind)

    def denied(self, what: str) -> None:
        """Something was not permitted."""
        self._write("Denied", what=what)

    def pause(self) -> None:
        """Lines are whole already."""

    def end(self, report: TurnSummary) -> None:
        """The last line of a turn that ended."""
        self._write("End", **msgspec.to_builtins(report))

    def error(self, text: str, code: ExitCode, error: Exception | None = None) -> None:
        """The last line of one that did not; `error` is the JSON-RPC error behind it, if there is one."""
        self._write("Error", message=text, code=int(code), error=answered(error))

    def _write(self, name: str, /, **fields: Any) -> None:
        self._out.write_json({"event": name, **fields})
