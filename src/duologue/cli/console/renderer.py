"""Show events to the user: the agent's messages on stdout, everything else on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TextIO

from duologue.cli.console.agent_terminals import AgentTerminals, OutputSource
from duologue.cli.console.diff import MOST_LINES, short_path, styled_diff
from duologue.cli.console.live_output import MOST_LINES as LAST_LINES
from duologue.cli.console.live_output import LiveOutput, end_of
from duologue.cli.console.markdown import Draft, text_writer_for
from duologue.cli.console.safe_output import Style, safe
from duologue.cli.console.shown_text import BoundedDict, ShownText
from duologue.cli.console.subagent_view import SubagentView
from duologue.cli.console.summaries import TurnSummary, describe_content, title_of, work_line
from duologue.cli.exit_codes import ExitCode
from duologue.client.services.terminals import Terminals
from duologue.conversation import items
from duologue.conversation.content import TextContent
from duologue.conversation.updates import ContentPart, FileChange, PlanEntry
from duologue.events import (
    Compaction,
    Event,
    LocationChanged,
    MediaContent,
    Message,
    ModeChanged,
    Notice,
    Plan,
    StallDetected,
    StateChanged,
    Subagent,
    Terminal,
    TerminalOutput,
    Text,
    Thought,
    ToolCall,
    UnknownUpdate,
    UserText,
)
from duologue.sanitize import escape_line

PLAIN, BOLD, DIM, RED, GREEN, YELLOW, CYAN = Style
MARKS = {"pending": "○", "in_progress": "◐", "completed": "●", "failed": "✗", "cancelled": "–", "": "·"}
TOOL_COLOURS = {"completed": GREEN, "failed": RED, "cancelled": DIM}
PLAN_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑", "": "·"}
ASCII_MARKS = dict(zip(MARKS, ("[ ]", "[>]", "[x]", "[!]", "[-]", "[?]"), strict=True))
"""Marks of tool calls and plans for a locale without Unicode."""
SHORT_LINES = 3
"""Lines shown of the result of a tool that ran no command; all with `--verbose`."""
SEVERITIES = {"error": RED, "warning": YELLOW}


class Output(Protocol):
    """Shows the events of a turn."""

    def opened(self, session_id: str, cwd: str) -> None: ...
    def show(self, event: Event) -> None: ...
    def show_subagent(self, session_id: str, event: Event) -> None: ...
    def asked(self, tool: items.ToolCall) -> None:
        """Note that a permission request shows this tool call with its changes."""
        ...

    def denied(self, what: str) -> None: ...
    def pause(self) -> None:
        """End the current line, because other output follows."""
        ...

    def end(self, report: TurnSummary) -> None: ...
    def unchecked(self, acts: list[str]) -> None:
        """Show acts that no permission could prevent."""
        ...

    def error(self, text: str, code: ExitCode, error: Exception | None = None) -> None: ...


class ConsoleOutput:
    """Output for people, with colours on a terminal.

    Args:
        out: Stream for the agent's messages.
        err: Stream for everything else.
        cwd: Directory that paths are shown relative to.
        terminals: Commands that run on this side, shown by tool calls.
        may_show_output: Returns whether the output of commands can be shown now.
        is_verbose: Show the results of tools in full.
        draft: Shows a paragraph while it grows; without it, it is drawn on `out`.

    Attributes:
        written_at: Time of the monotonic clock at which something was shown last.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        cwd: Path,
        terminals: Terminals,
        may_show_output: Callable[[], bool] = lambda: True,
        *,
        is_verbose: bool = False,
        draft: Draft | None = None,
    ) -> None:
        self._writer = text_writer_for(out, err, draft)
        self._err = safe(err)
        self._marks, self._plan_marks = (MARKS, PLAN_MARKS) if self._err.has_symbols else (ASCII_MARKS, ASCII_MARKS)
        self._is_verbose, self._cwd = is_verbose, cwd
        self.written_at = time.monotonic()
        self._terminals, self._may_show_output = terminals, may_show_output
        self._agent_terminals, self._subagents = AgentTerminals(), SubagentView(cwd, is_verbose)
        self._outputs = BoundedDict[str, LiveOutput]()
        self._shown_messages = BoundedDict[str | None, ShownText]()
        self._states = BoundedDict[str, tuple[str, str]]()
        self._diffs = BoundedDict[tuple[str, str], int]()
        self._steps = BoundedDict[str | None, list[PlanEntry]]()
        self._location: tuple[str, int | None] | None = None
        self._is_thinking = self._has_new_tool = False

    # --- one turn

    def opened(self, session_id: str, cwd: str) -> None:
        """Show nothing: the session id is of no use here."""

    def show(self, event: Event) -> None:
        """Show one event."""
        if self._is_thinking and not isinstance(event, Thought):
            self._end_thought()
        match event:
            case Text():
                self._write_message(event.message_id, event.text)
            case Message():
                self._message(event)
            case Terminal() | TerminalOutput():
                self._agent_terminals.show(event)
            case Thought():
                self._think(event.text)
            case ToolCall():
                self._tool(event)
            case Plan():
                self._plan(event)
            case LocationChanged():
                self._show_location(event)
            case _:
                self._show_other(event)

    def show_subagent(self, session_id: str, event: Event) -> None:
        """Show an event of a subagent's session."""
        for line in self._subagents.lines(session_id, event):
            self._line(line, DIM)

    def pause(self) -> None:
        """End the current line, because other output follows."""
        self._end_thought()
        self._writer.pause()

    def asked(self, tool: items.ToolCall) -> None:
        """Note the changes that a permission request shows: they are not shown again when they are made."""
        for change in tool.changes:
            self._is_new_diff(tool.tool_call_id, change)

    def denied(self, what: str) -> None:
        """Show that something was not allowed."""
        self._line(f"not allowed: {escape_line(what)}", RED)

    def end(self, report: TurnSummary) -> None:
        """Show the summary of a turn."""
        self.pause()
        for line in self._subagents.rest():
            self._line(line, DIM)
        if report.code is ExitCode.EMPTY_ANSWER:
            self._line("the agent sent no text", YELLOW)
        self._line(report.text, DIM)

    @property
    def doing(self) -> str:
        """The tool call that runs now, or that the agent is silent."""
        running = [title for status, title in self._states.values() if status in ("pending", "in_progress")]
        return f"running: {running[-1]}" if running else "waiting for the agent"

    def unchecked(self, acts: list[str]) -> None:
        """Show what the agent did without asking and without the files and terminals of this client."""
        self.pause()
        self._line("the agent did this without asking, where no rule or --read-only could prevent it:", YELLOW)
        for act in acts[:MOST_LINES]:
            self._line(f"  {act}", YELLOW)
        if len(acts) > MOST_LINES:
            self._line(f"  … {len(acts) - MOST_LINES} more", YELLOW)

    def error(self, text: str, code: ExitCode, error: Exception | None = None) -> None:
        """Show why the turn or the program failed."""
        self.pause()
        self._line(f"duologue: {text}", RED)

    # --- the kinds of events

    def _show_other(self, event: Event) -> None:
        match event:
            case MediaContent():
                self._line(f"[{describe_content(event.content)}]", DIM)
            case Notice():
                description = f": {event.description}" if event.description else ""
                self._line(
                    f"{escape_line(event.severity)}: {escape_line(event.title + description, 1000)}",
                    SEVERITIES.get(event.severity, CYAN),
                )
            case ModeChanged():
                self._line(f"mode: {escape_line(event.mode_id)}", DIM)
            case Compaction():
                self._line(f"compacting the context: {escape_line(event.error or event.status)}", DIM)
            case Subagent() | items.BackgroundTask():
                self._subagents.rename(event)
                if line := work_line(event, self._states):
                    self._line(line, DIM)
            case StallDetected():
                self._line(f"no activity for {event.seconds:g} s", YELLOW)
            case UnknownUpdate():
                self._line(f"[{escape_line(event.tag or '?')}: unknown update]", DIM)
            case UserText():
                self._line(f"> {event.text}", BOLD)
            case StateChanged(state="requires_action" | "running" | "idle"):
                pass  # a permission request, messages and the summary follow anyway
            case StateChanged():
                self._line(f"the agent is {escape_line(event.state)}", DIM)
            case _:
                pass

    def _message(self, message: Message) -> None:
        """Show a whole message, or the rest of one that was shown in part."""
        if message.role == "user":
            self._line(f"> {message.text}", BOLD)
            return
        shown = self._shown_messages.get(message.message_id)
        if shown is not None and not shown.begins(message.text):
            self._writer.pause()  # the agent replaced it; what is on the screen stays
            del self._shown_messages[message.message_id]
            shown = None
        rest = message.text[0 if shown is None else shown.length :]
        if message.role == "thought":
            self._think(rest)
            self._end_thought()
        else:
            self._write_message(message.message_id, rest)

    def _write_message(self, message_id: str | None, text: str) -> None:
        is_new = message_id not in self._shown_messages
        if text and self._has_new_tool and (is_new or message_id is None):
            self._writer.separate()
        self._has_new_tool = self._has_new_tool and not text
        if is_new:
            self._shown_messages[message_id] = ShownText()
        self._shown_messages[message_id].add(text)
        self._writer.write(text)
        self.written_at = time.monotonic()

    def _think(self, text: str) -> None:
        if not self._is_thinking:
            self._writer.pause()
            self._is_thinking = True
        self._print(text, DIM)

    def _end_thought(self) -> None:
        if self._is_thinking:
            self._print("\n")
            self._is_thinking = False

    def _show_location(self, event: LocationChanged) -> None:
        """Show where the agent works, unless the tool's title already names the file."""
        location = (event.path, event.line)
        shown = self._states.get(event.tool_call_id or "", ("", ""))[1]
        if location != self._location and (event.line is not None or Path(event.path).name not in shown):
            line = "" if event.line is None else f":{event.line}"
            self._line(f"  at {escape_line(short_path(event.path, self._cwd), None)}{line}", DIM)
        self._location = location

    def _tool(self, call: ToolCall) -> None:
        title = title_of(call, self._cwd)
        before = self._states.get(call.tool_call_id)
        self._has_new_tool = self._has_new_tool or before is None
        self._states[call.tool_call_id] = ("" if call.is_unsettled else call.status, title)
        has_ended = call.is_over or call.is_unsettled
        has_new_status = before is not None and before[0] != call.status and call.is_over
        if before is not None and (before[0], call.status) == ("cancelled", "failed"):
            has_new_status = False  # the failure is the cancellation
        is_changed = before is None or before[1] != title or has_new_status or call.is_unsettled
        terminals = self._terminals_of(call)
        if has_ended:
            self._end_outputs(terminals)
        if is_changed:
            colour = TOOL_COLOURS.get(call.status, CYAN)
            unsettled = " (no result: the turn ended before it finished)" if call.is_unsettled else ""
            self._line(f"{self._mark(self._marks, call.status)} {escape_line(call.kind)}: {title}{unsettled}", colour)
        for terminal_id in terminals:
            self._watch_output(terminal_id)
        if is_changed and has_ended:
            self._end_outputs(terminals)
            self._results(call, terminals)

    def _terminals_of(self, call: ToolCall) -> list[str]:
        """Return the terminals of a tool call, and the one with the call's own id, which some agents never attach."""
        own = call.tool_call_id
        is_own = (call.kind == "execute" or call.status == "failed") and self._agent_terminals.shown(own) is not None
        return list(dict.fromkeys([*call.terminals, *([own] if is_own else [])]))

    def _results(self, call: ToolCall, terminals: list[str]) -> None:
        for change in call.changes if call.status == "completed" else []:
            self._diff(call.tool_call_id, change)
        if not any(map(self._has_printed, terminals)):
            is_long = call.status == "failed" or call.kind == "execute"
            self._block(call.output, None if is_long else SHORT_LINES)
        for part in call.content:
            if isinstance(part, ContentPart) and not isinstance(part.content, TextContent):
                self._line(f"    [{describe_content(part.content)}]", DIM)
        for terminal_id in terminals:
            self._end_of_command(terminal_id)

    def _has_printed(self, terminal_id: str) -> bool:
        output = self._source_of(terminal_id).shown(terminal_id)
        return output is not None and bool(output.output)

    def _diff(self, tool_call_id: str, change: FileChange) -> None:
        if not self._is_new_diff(tool_call_id, change):
            return
        lines = styled_diff(change, self._cwd)
        for line, style in lines[:MOST_LINES]:
            self._line(f"    {line}", style)
        if len(lines) > MOST_LINES:
            self._line(f"    … {len(lines) - MOST_LINES} more lines", DIM)

    def _is_new_diff(self, tool_call_id: str, change: FileChange) -> bool:
        """Note that a change is shown; return False if it was shown before."""
        shown = hash((change.old_text, change.new_text, change.patch, change.old_path, change.operation))
        is_new = self._diffs.get((tool_call_id, change.path)) != shown
        self._diffs[tool_call_id, change.path] = shown
        return is_new

    def _watch_output(self, terminal_id: str) -> None:
        if terminal_id not in self._outputs:
            self._outputs[terminal_id] = LiveOutput(
                self._source_of(terminal_id),
                terminal_id,
                lambda line: self._line(f"    {line}", DIM),
                self._may_show_output,
            )

    def _source_of(self, terminal_id: str) -> OutputSource:
        """Return where a command runs: on this side, or at the agent."""
        return self._agent_terminals if self._terminals.shown(terminal_id) is None else self._terminals

    def _end_outputs(self, terminals: list[str]) -> None:
        for terminal_id in terminals:
            if terminal_id in self._outputs:
                self._outputs[terminal_id].end()

    def _end_of_command(self, terminal_id: str) -> None:
        output = self._source_of(terminal_id).shown(terminal_id)
        if output is not None and output.exit is not None and output.exit.exit_code != 0:
            self._line(f"    exited with {escape_line(output.exit.signal or f'code {output.exit.exit_code}')}", RED)

    def _block(self, text: str, first: int | None = None) -> None:
        """Show text: its first lines or, without a number of them, its last ones; with `--verbose` all of it."""
        most = sys.maxsize if self._is_verbose else LAST_LINES if first is None else None
        before, lines = end_of(text.strip("\n"), most)
        if before:
            self._line(f"    … {before} earlier lines", DIM)
        for line in lines if most is not None else lines[:first]:
            self._line("    " + line, DIM)
        if most is None and first is not None and len(lines) > first:
            self._line(f"    … {len(lines) - first} more lines; --verbose shows them", DIM)

    def _plan(self, plan: Plan) -> None:
        before, self._steps[plan.plan_id] = self._steps.get(plan.plan_id, []), plan.entries
        for entry in plan.entries:
            if entry not in before:
                mark = self._mark(self._plan_marks, entry.status)
                self._line(f"  {mark} {escape_line(entry.content)}", DIM if entry.status == "completed" else PLAIN)
        for gone in before:
            if gone.content not in [entry.content for entry in plan.entries]:
                self._line(f"  {self._mark(self._marks, 'cancelled')} {escape_line(gone.content)}", DIM)
        if plan.markdown is not None:
            self._block(plan.markdown)

    def _mark(self, marks: Mapping[str, str], status: str) -> str:
        return marks.get(status, marks[""])

    # --- writing

    def _line(self, text: str, colour: Style = PLAIN) -> None:
        self._writer.pause()
        self._print(text, colour)
        self._print("\n")

    def _print(self, text: str, colour: Style = PLAIN) -> None:
        self._err.write(text, colour)
        self._err.flush()
        self.written_at = time.monotonic()
