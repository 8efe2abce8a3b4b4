"""Events made to be read: the agent's words on stdout, everything else on stderr.

Off a terminal stdout is exactly what the agent said. On one, Markdown is rendered paragraph by paragraph with `rich`
where it is installed, and shown as it is where it is not.
"""

from __future__ import annotations

import difflib
import sys
from typing import Any, Protocol, TextIO

from duologue.conversation.content import TextContent
from duologue.conversation.updates import ContentPart, FileChange
from duologue.events import (
    Compaction,
    Event,
    Following,
    Media,
    ModeSwitched,
    Notice,
    Plan,
    Text,
    Thought,
    ToolCall,
    Unknown,
    UserText,
)

__all__ = ["Shown", "show_for"]

DIM, RED, GREEN, CYAN, BOLD, PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[1m", "\x1b[0m"
MARKS = {"pending": "○", "in_progress": "◐", "completed": "●", "failed": "✗", "cancelled": "–"}
PLAN_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
MOST_DIFF_LINES = 60
"""Lines of one diff that are shown; the rest is counted."""


class Shown(Protocol):
    """Somewhere events are shown."""

    def show(self, event: Event) -> None: ...

    def end(self) -> None:
        """Nothing more of this turn will come."""
        ...


def show_for(out: TextIO, talk: TextIO) -> Shown:
    """The best way to show events on these two: words on `out`, the rest on `talk`."""
    words = _Paragraphs(out) if out.isatty() and _has_rich() else _Plain(out)
    return _Show(words, talk)


class _Show:
    def __init__(self, words: _Plain, talk: TextIO) -> None:
        self._words = words
        self._talk = talk
        self._has_colour = talk.isatty()
        self._seen: dict[str, str] = {}
        self._is_thinking = False

    def show(self, event: Event) -> None:
        if self._is_thinking and not isinstance(event, Thought):
            self._say("\n")
            self._is_thinking = False
        match event:
            case Text():
                self._words.write(event.text)
            case Thought():
                self._is_thinking = True
                self._say(event.text, DIM)
            case ToolCall():
                self._tool(event)
            case Plan():
                self._plan(event)
            case _:
                self._rest(event)

    def end(self) -> None:
        if self._is_thinking:
            self._say("\n")
            self._is_thinking = False
        self._words.end()

    def _rest(self, event: Event) -> None:
        match event:
            case Media():
                self._line(f"[{type(event.content).__name__}]", DIM)
            case Notice():
                colour = RED if event.severity == "error" else CYAN
                self._line(
                    f"{event.severity}: {event.title}{': ' + event.description if event.description else ''}", colour
                )
            case ModeSwitched():
                self._line(f"mode: {event.mode_id}", DIM)
            case Compaction():
                self._line(f"context: {event.status}", DIM)
            case Following():
                self._line(f"  at {event.path}{':' + str(event.line) if event.line else ''}", DIM)
            case Unknown():
                self._line(f"[{event.tag}: an update this version does not know]", DIM)
            case UserText():
                self._line(f"> {event.text}", DIM)
            case _:
                pass

    def _tool(self, call: ToolCall) -> None:
        if self._seen.get(call.tool_call_id) == call.status:
            return
        self._seen[call.tool_call_id] = call.status
        colour = RED if call.status == "failed" else GREEN if call.status == "completed" else CYAN
        self._line(f"{MARKS.get(call.status, '·')} {call.kind}: {_inert(call.title) or call.tool_call_id}", colour)
        if call.status in ("completed", "failed"):
            for part in call.content:
                self._part(part, call.status)

    def _part(self, part: Any, status: str) -> None:
        match part:
            case FileChange():
                self._diff(part)
            case ContentPart(content=TextContent(text=text)) if status == "failed":
                self._line("    " + _inert(text.strip())[:500], DIM)
            case _:
                pass

    def _diff(self, change: FileChange) -> None:
        lines = list(
            difflib.unified_diff(
                (change.old_text or "").splitlines(),
                (change.new_text or "").splitlines(),
                change.path if change.old_text is not None else "/dev/null",
                change.path if change.new_text is not None else "/dev/null",
                lineterm="",
            )
        )
        for line in lines[:MOST_DIFF_LINES]:
            colour = GREEN if line.startswith("+") else RED if line.startswith("-") else DIM
            self._line("    " + _inert(line), colour)
        if len(lines) > MOST_DIFF_LINES:
            self._line(f"    … {len(lines) - MOST_DIFF_LINES} more lines", DIM)

    def _plan(self, plan: Plan) -> None:
        for entry in plan.entries:
            mark = PLAN_MARKS.get(entry.status, "·")
            self._line(f"  {mark} {_inert(entry.content)}", DIM if entry.status == "completed" else "")

    def _line(self, text: str, colour: str = "") -> None:
        self._words.break_line()
        self._say(text, colour)
        self._talk.write("\n")
        self._talk.flush()

    def _say(self, text: str, colour: str = "") -> None:
        self._talk.write(f"{colour}{text}{PLAIN}" if colour and self._has_colour else text)
        self._talk.flush()


class _Plain:
    """The agent's words as they come."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._at_line_start = True

    def write(self, text: str) -> None:
        if not text:
            return
        self._out.write(_inert(text) if self._is_terminal else text)
        self._out.flush()
        self._at_line_start = text.endswith("\n")

    def break_line(self) -> None:
        """Before something else is shown: on a terminal, never in the middle of a line."""
        if self._is_terminal and not self._at_line_start:
            self.write("\n")

    def end(self) -> None:
        self.break_line()


class _Paragraphs(_Plain):
    """Markdown, rendered when a paragraph is whole; code fences are kept together."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        from rich.console import Console

        self._console = Console(file=out)
        self._waiting = ""

    def write(self, text: str) -> None:
        self._waiting += text
        while (end := _end_of_paragraph(self._waiting)) is not None:
            paragraph, self._waiting = self._waiting[:end], self._waiting[end:].lstrip("\n")
            self._render(paragraph)

    def break_line(self) -> None:
        self.end()

    def end(self) -> None:
        if self._waiting.strip():
            self._render(self._waiting)
        self._waiting = ""

    def _render(self, paragraph: str) -> None:
        from rich.markdown import Markdown

        self._console.print(Markdown(_inert(paragraph)))
        self._out.flush()


def _end_of_paragraph(text: str) -> int | None:
    """Where the first whole paragraph ends: at a blank line that is not inside a code fence."""
    start = 0
    while (blank := text.find("\n\n", start)) != -1:
        if text[:blank].count("```") % 2 == 0:
            return blank + 1
        start = blank + 2
    return None


def _inert(text: str) -> str:
    """Without the control characters that act on a terminal."""
    return "".join(sign if sign in "\n\t" or sign.isprintable() else "�" for sign in text)


def _has_rich() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None


def on_terminal() -> bool:
    """A person is watching."""
    return sys.stdout.isatty() and sys.stderr.isatty()
