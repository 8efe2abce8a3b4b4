"""Events made to be read: the agent's words on stdout, everything else on stderr."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from duologue.cli.console.agent_terminals import AgentTerminals, OutputSource
from duologue.cli.console.diff import MOST_LINES, diff_lines
from duologue.cli.console.live_output import LiveOutput, end_of
from duologue.cli.console.markdown import words_for
from duologue.cli.console.safe_output import Style, safe
from duologue.cli.console.shown_text import BoundedDict, ShownText
from duologue.cli.exit_codes import ExitCode
from duologue.client.services.terminals import Terminals
from duologue.conversation import items
from duologue.conversation.content import AudioContent, Content, ImageContent, Resource, ResourceLink
from duologue.conversation.updates import FileChange, PlanEntry
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
from duologue.protocol.values import TokenUsage
from duologue.sanitize import escape_line

__all__ = ["ConsoleOutput", "Output", "TurnSummary"]

PLAIN, BOLD, DIM, RED, GREEN, YELLOW, CYAN = Style
MARKS = {"pending": "○", "in_progress": "◐", "completed": "●", "failed": "✗", "cancelled": "–"}
TOOL_COLOURS = {"completed": GREEN, "failed": RED, "cancelled": DIM}
PLAN_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
MOST_COLUMNS = 1000
"""Characters of a line without tabs that are shown of a change; more is cut, and says so."""
SEVERITIES = {"error": RED, "warning": YELLOW}


@dataclass(frozen=True, kw_only=True)
class TurnSummary:
    """What came of a turn."""

    session_id: str
    stop_reason: str
    code: ExitCode
    seconds: float
    tools: int
    usage: TokenUsage | None = None
    cost: float | None = None
    currency: str | None = None


class Output(Protocol):
    """Somewhere a turn is shown."""

    def opened(self, session_id: str, cwd: str) -> None: ...
    def show(self, event: Event) -> None: ...
    def asked(self, tool: items.ToolCall) -> None:
        """Show what a question is about; it follows."""
        ...

    def denied(self, what: str) -> None: ...
    def pause(self) -> None:
        """Something else will be shown now."""
        ...

    def end(self, report: TurnSummary) -> None: ...
    def error(self, text: str, code: ExitCode, error: Exception | None = None) -> None: ...


class ConsoleOutput:
    """Text for people; on a terminal with colours.

    Args:
        out, talk: Where the agent's words go, and everything else.
        cwd: Paths are shown as seen from here.
        terminals: Where the commands run that tool calls show.
        may_show_output: Whether what they print can be shown now, in between.
    """

    def __init__(
        self,
        out: TextIO,
        talk: TextIO,
        cwd: Path,
        terminals: Terminals,
        may_show_output: Callable[[], bool] = lambda: True,
    ) -> None:
        self._words = words_for(out)
        self._talk = safe(talk)
        self._cwd = cwd
        self._terminals = terminals
        self._may_show_output = may_show_output
        self._agents_own = AgentTerminals()
        self._outputs = BoundedDict[str, LiveOutput]()
        self._said = BoundedDict[str | None, ShownText]()
        self._states = BoundedDict[str, tuple[str, str]]()
        self._diffs = BoundedDict[tuple[str, str], int]()
        self._steps = BoundedDict[str | None, list[PlanEntry]]()
        self._place: tuple[str, int | None] | None = None
        self._is_thinking = False

    # --- what a turn brings

    def opened(self, session_id: str, cwd: str) -> None:
        """Nothing that a person needs to see."""

    def show(self, event: Event) -> None:
        """One event."""
        if self._is_thinking and not isinstance(event, Thought):
            self._stop_thinking()
        match event:
            case Text():
                self._speak(event.message_id, event.text)
            case Message():
                self._message(event)
            case Terminal() | TerminalOutput():
                self._agents_own.show(event)
            case Thought():
                self._think(event.text)
            case ToolCall():
                self._tool(event)
            case Plan():
                self._plan(event)
            case LocationChanged():
                self._follow(event)
            case _:
                self._rest(event)

    def pause(self) -> None:
        """Leave the screen at the start of a line."""
        self._stop_thinking()
        self._words.pause()

    def asked(self, tool: items.ToolCall) -> None:
        """The changes a question is about."""
        for change in tool.changes:
            self._diff(tool.tool_call_id, change)

    def denied(self, what: str) -> None:
        """Something was not permitted."""
        self._line(f"not permitted: {escape_line(what)}", RED)

    def end(self, report: TurnSummary) -> None:
        """The closing line."""
        self.pause()
        tools = "1 tool" if report.tools == 1 else f"{report.tools} tools"
        parts = [
            report.stop_reason,
            f"{report.seconds:.1f} s",
            *([tools] if report.tools else []),
            *([f"{report.usage.total:,} tokens"] if report.usage is not None else []),
            *([f"{report.cost:g} {report.currency or ''}".strip()] if report.cost is not None else []),
        ]
        self._line(f"({escape_line(', '.join(parts))})", DIM)

    def error(self, text: str, code: ExitCode, error: Exception | None = None) -> None:
        """Why there is no more."""
        self.pause()
        self._line(f"duologue: {text}", RED)

    # --- the kinds of events

    def _rest(self, event: Event) -> None:
        match event:
            case MediaContent():
                self._line(f"[{_described(event.content)}]", DIM)
            case Notice():
                told = f": {event.description}" if event.description else ""
                self._line(
                    f"{escape_line(event.severity)}: {escape_line(event.title + told, 1000)}",
                    SEVERITIES.get(event.severity, CYAN),
                )
            case ModeChanged():
                self._line(f"mode: {escape_line(event.mode_id)}", DIM)
            case Compaction():
                self._line(f"shortening the context: {escape_line(event.error or event.status)}", DIM)
            case Subagent():
                state = (event.state or {}).get("state", "")
                self._line(f"subagent {escape_line(event.title or event.session_id)}: {escape_line(str(state))}", DIM)
            case StallDetected():
                self._line(f"no sign of life for {event.seconds:g} s", YELLOW)
            case UnknownUpdate():
                self._line(f"[{escape_line(event.tag or '?')}: an update this version does not know]", DIM)
            case UserText():
                self._line(f"> {event.text}", BOLD)
            case StateChanged(state="requires_action" | "running" | "idle"):
                pass  # the question follows, and so do the words and the end
            case StateChanged():
                self._line(f"the agent is {escape_line(event.state)}", DIM)
            case _:
                pass

    def _message(self, message: Message) -> None:
        """A whole message; of one that was shown in part, the rest."""
        if message.role == "user":
            self._line(f"> {message.text}", BOLD)
            return
        shown = self._said.get(message.message_id)
        if shown is not None and not shown.begins(message.text):
            self._words.pause()  # it was taken back; what a person has read cannot be
            del self._said[message.message_id]
            shown = None
        rest = message.text[0 if shown is None else shown.length :]
        if message.role == "thought":
            self._think(rest)
            self._stop_thinking()
        else:
            self._speak(message.message_id, rest)

    def _speak(self, message_id: str | None, text: str) -> None:
        if message_id not in self._said:
            self._said[message_id] = ShownText()
        self._said[message_id].add(text)
        self._words.write(text)

    def _think(self, text: str) -> None:
        if not self._is_thinking:
            self._words.pause()
            self._is_thinking = True
        self._say(text, DIM)

    def _stop_thinking(self) -> None:
        if self._is_thinking:
            self._say("\n")
            self._is_thinking = False

    def _follow(self, event: LocationChanged) -> None:
        """Where the agent works, when that is news: a tool that names its file in its title says so already."""
        place = (event.path, event.line)
        shown = self._states.get(event.tool_call_id or "", ("", ""))[1]
        if place != self._place and (event.line is not None or Path(event.path).name not in shown):
            line = "" if event.line is None else f":{event.line}"
            self._line(f"  at {escape_line(self._short(event.path), None)}{line}", DIM)
        self._place = place

    def _tool(self, call: ToolCall) -> None:
        title = escape_line(call.title) or escape_line(call.tool_call_id)
        before = self._states.get(call.tool_call_id)
        self._states[call.tool_call_id] = (call.status, title)
        has_ended = call.is_over or call.is_unsettled
        is_news = (
            before is None or before[1] != title or (before[0] != call.status and call.is_over) or call.is_unsettled
        )
        terminals = self._terminals_of(call)
        if has_ended:
            self._end_outputs(terminals)
        if is_news:
            colour = TOOL_COLOURS.get(call.status, CYAN)
            unsettled = " (not settled: the turn ended without its result)" if call.is_unsettled else ""
            self._line(f"{MARKS.get(call.status, '·')} {escape_line(call.kind)}: {title}{unsettled}", colour)
        for terminal_id in terminals:
            self._watch_output(terminal_id)
        if is_news and has_ended:
            self._end_outputs(terminals)
            self._results(call, terminals)

    def _terminals_of(self, call: ToolCall) -> list[str]:
        """The terminals a call shows, and the one that has its id: some agents send its output and do not show it."""
        own = call.tool_call_id
        is_own = (call.kind == "execute" or call.status == "failed") and self._agents_own.shown(own) is not None
        return list(dict.fromkeys([*call.terminals, *([own] if is_own else [])]))

    def _results(self, call: ToolCall, terminals: list[str]) -> None:
        for change in call.changes if call.status == "completed" else []:
            self._diff(call.tool_call_id, change)
        if (call.status == "failed" or call.kind == "execute") and not any(map(self._has_printed, terminals)):
            self._block(call.output)
        for terminal_id in terminals:
            self._end_of_command(terminal_id)

    def _has_printed(self, terminal_id: str) -> bool:
        said = self._running(terminal_id).shown(terminal_id)
        return said is not None and bool(said.output)

    def _diff(self, tool_call_id: str, change: FileChange) -> None:
        shown = hash((change.old_text, change.new_text, change.patch, change.old_path, change.operation))
        if self._diffs.get((tool_call_id, change.path)) == shown:
            return
        self._diffs[tool_call_id, change.path] = shown
        lines = diff_lines(change, self._cwd)
        for number, line in enumerate(lines[:MOST_LINES]):
            colour = BOLD if number < 2 else {"+": GREEN, "-": RED, "@": CYAN}.get(line[:1], PLAIN)
            self._line("    " + _spelt_out(line), colour)
        if len(lines) > MOST_LINES:
            self._line(f"    … {len(lines) - MOST_LINES} more lines", DIM)

    def _watch_output(self, terminal_id: str) -> None:
        if terminal_id not in self._outputs:
            self._outputs[terminal_id] = LiveOutput(
                self._running(terminal_id),
                terminal_id,
                lambda line: self._line(f"    {line}", DIM),
                self._may_show_output,
            )

    def _running(self, terminal_id: str) -> OutputSource:
        """Where a command runs: here, or at the agent."""
        return self._agents_own if self._terminals.shown(terminal_id) is None else self._terminals

    def _end_outputs(self, terminals: list[str]) -> None:
        for terminal_id in terminals:
            if terminal_id in self._outputs:
                self._outputs[terminal_id].end()

    def _end_of_command(self, terminal_id: str) -> None:
        said = self._running(terminal_id).shown(terminal_id)
        if said is not None and said.exit is not None and said.exit.exit_code != 0:
            self._line(f"    ended with {escape_line(said.exit.signal or f'code {said.exit.exit_code}')}", RED)

    def _block(self, text: str) -> None:
        before, lines = end_of(text.strip("\n"))
        if before:
            self._line(f"    … {before} lines before", DIM)
        for line in lines:
            self._line("    " + line, DIM)

    def _plan(self, plan: Plan) -> None:
        before, self._steps[plan.plan_id] = self._steps.get(plan.plan_id, []), plan.entries
        is_same = [entry.content for entry in before] == [entry.content for entry in plan.entries]
        for entry in plan.entries:
            if not is_same or entry not in before:
                mark = PLAN_MARKS.get(entry.status, "·")
                self._line(f"  {mark} {escape_line(entry.content)}", DIM if entry.status == "completed" else PLAIN)
        if plan.markdown is not None:
            self._block(plan.markdown)

    # --- writing

    def _line(self, text: str, colour: Style = PLAIN) -> None:
        self._words.pause()
        self._say(text, colour)
        self._say("\n")

    def _say(self, text: str, colour: Style = PLAIN) -> None:
        self._talk.write(text, colour)
        self._talk.flush()

    def _short(self, path: str) -> str:
        return str(Path(path).relative_to(self._cwd)) if Path(path).is_relative_to(self._cwd) else path


def _spelt_out(line: str) -> str:
    """A line of a change with all its characters: one that could not be seen, or would hide others, is spelt out."""
    return "\t".join(escape_line(part, MOST_COLUMNS) for part in line.split("\t"))


def _described(content: Content) -> str:
    match content:
        case ImageContent() | AudioContent():
            return escape_line(f"{content.mime_type}, {len(content.data) * 3 // 4:,} bytes")
        case ResourceLink():
            return escape_line(f"{content.title or content.name}: {content.uri}")
        case Resource():
            return escape_line(content.uri)
        case _:
            return "content this version does not know"
