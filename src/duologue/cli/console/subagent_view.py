"""Show what subagents write and do: one line after the other, each after the name of its subagent."""

from __future__ import annotations

from pathlib import Path

from duologue.cli.console.live_output import MOST_COLUMNS
from duologue.cli.console.shown_text import BoundedDict
from duologue.cli.console.summaries import title_of
from duologue.conversation.items import BackgroundTask
from duologue.events import Event, Message, Subagent, Text, ToolCall
from duologue.sanitize import escape_line

SHORT_LINES = 3
"""Lines shown of each message of a subagent, whose result the agent tells in its own words; all with `--verbose`."""


class SubagentView:
    """Makes lines of the events of subagents.

    Args:
        cwd: Directory that paths are shown relative to.
        is_verbose: Show messages in full.
    """

    def __init__(self, cwd: Path, is_verbose: bool) -> None:
        self._cwd = cwd
        self._most = None if is_verbose else SHORT_LINES
        self._shown = BoundedDict[str, _SubagentText]()
        self._tools = BoundedDict[tuple[str, str], str]()

    def rename(self, work: Subagent | BackgroundTask) -> None:
        """Use the title that the agent gives a subagent."""
        if isinstance(work, Subagent):
            self._of(work.session_id).name = escape_line(work.title or work.session_id)

    def lines(self, session_id: str, event: Event) -> list[str]:
        """Return the lines to show now for an event of a subagent's session."""
        shown = self._of(session_id)
        match event:
            case Text():
                return shown.add(event.message_id, event.text, self._most)
            case Message(role="agent") if shown.message_id != event.message_id or not shown.count:
                return [*shown.add(event.message_id, event.text, self._most), *shown.end(self._most)]
            case ToolCall() if (session_id, event.tool_call_id) not in self._tools:
                self._tools[session_id, event.tool_call_id] = ""
                title = title_of(event, self._cwd)
                return [*shown.end(self._most), f"  {shown.name} | {escape_line(event.kind)}: {title}"]
            case Subagent():
                self.rename(event)
                return []
            case _:
                return []

    def rest(self) -> list[str]:
        """Return the lines that have begun, because other output follows."""
        return [line for shown in self._shown.values() for line in shown.end(self._most)]

    def _of(self, session_id: str) -> _SubagentText:
        if session_id not in self._shown:
            self._shown[session_id] = _SubagentText(escape_line(session_id))
        return self._shown[session_id]


class _SubagentText:
    """Text of one subagent: the line that has begun, and how many lines its message has had."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.message_id: str | None = None
        self.count = 0
        self._begun = ""

    def add(self, message_id: str | None, text: str, most: int | None) -> list[str]:
        """Return the lines that this text completes."""
        before = self.end(most) if message_id != self.message_id else []
        self.message_id = message_id
        *lines, self._begun = (self._begun + text).split("\n")
        if len(self._begun) > MOST_COLUMNS:
            lines.append(self._begun)
            self._begun = ""
        return before + self._first(lines, most)

    def end(self, most: int | None) -> list[str]:
        """End the message: return the line that has begun, and how many lines were not shown."""
        lines = self._first([self._begun], most) if self._begun else []
        if most is not None and self.count > most:
            lines.append(f"  {self.name} | … {self.count - most} more lines; --verbose shows them")
        self._begun, self.count = "", 0
        return lines

    def _first(self, lines: list[str], most: int | None) -> list[str]:
        """Return the lines that are among the first of the message."""
        shown = lines if most is None else lines[: max(0, most - self.count)]
        self.count += len(lines)
        return [f"  {self.name} | {escape_line(line, MOST_COLUMNS)}" for line in shown]
