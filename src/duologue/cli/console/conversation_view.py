"""Show a recorded conversation to people: one block for each item, with its time at the left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from duologue.cli.console.diff import styled_diff
from duologue.cli.console.renderer import ASCII_MARKS, MARKS, PLAN_MARKS, TOOL_COLOURS
from duologue.cli.console.safe_output import SafeOutput, Style, columns_of, first_columns
from duologue.sanitize import escape_line, sanitize
from duologue.trace.item_queue import ConversationItem

PLAIN, BOLD, DIM, RED, GREEN, YELLOW, CYAN = Style
INDENT = 12
"""Columns before every text: a time such as `1,234.567`, and space."""
MOST_LINES = {"message": 200, "prompt": 200, "thought": 8, "tool_call": 6, "stderr": 12, "plan": 40}
"""Lines of each kind that are shown without `--full`."""
DIFF_LINES = 20
"""Lines of a diff that are shown without `--full`."""
SPEAKERS = {"user": "user", "agent": "agent", "thought": "thought"}
SEVERITIES = {"error": RED, "warning": YELLOW}
DONE = {"end_turn": GREEN, "cancelled": YELLOW}
MAX_SESSIONS = 1000
"""Sessions that get a number of their own."""


class ConversationView:
    """Writes the items of a conversation, sanitized.

    Args:
        out: The stream to write to.
        is_full: Show long texts whole.
    """

    def __init__(self, out: SafeOutput, *, is_full: bool = False) -> None:
        self._out = out
        self._is_full = is_full
        self._columns = columns_of(out) - INDENT if out.isatty() else None
        self._marks, self._plan_marks = (MARKS, PLAN_MARKS) if out.has_symbols else (ASCII_MARKS, ASCII_MARKS)
        self._sessions: dict[str, int] = {}
        self._cwd = Path("/")

    def show(self, item: ConversationItem) -> None:
        """Write one item."""
        match item.kind:
            case "prompt":
                self._head(item, "user", BOLD, "added while the agent worked" if item.status else "")
                self._body(item, item.text)
            case "message":
                style = DIM if item.role == "thought" else BOLD if item.role == "user" else CYAN
                if not item.continues:
                    self._head(item, SPEAKERS[item.role or "agent"], style)
                self._body(item, item.text, DIM if item.role == "thought" else PLAIN)
            case "tool_call":
                self._tool(item)
            case "plan":
                self._plan(item)
            case "stderr":
                self._head(item, "stderr", YELLOW)
                self._body(item, item.text, DIM)
            case _:
                self._head(item, *_line(item))
        if item.kind == "session" and item.text:
            self._cwd = Path(item.text)

    def _tool(self, item: ConversationItem) -> None:
        mark = self._marks.get(item.status, self._marks[""])
        kind = f"{escape_line(item.tool_kind)}: " if item.tool_kind else ""
        title = escape_line(item.title) or escape_line(item.tool_call_id)
        style = TOOL_COLOURS.get(item.status, PLAIN)
        self._head(item, f"{mark} {kind}{title}", style, _seconds(item.seconds))
        for change in item.changes:
            lines = styled_diff(change, self._cwd)
            most = len(lines) if self._is_full else DIFF_LINES
            for line, colour in lines[:most]:
                self._write(f"  {line}", colour)
            if len(lines) > most:
                self._write(f"  … {len(lines) - most:,} more lines; --full shows them", DIM)
        self._body(item, item.text, DIM, "  ")

    def _plan(self, item: ConversationItem) -> None:
        self._head(item, "plan", CYAN)
        for entry in item.entries[: None if self._is_full else MOST_LINES["plan"]]:
            mark = self._plan_marks.get(entry.status, self._plan_marks[""])
            self._write(f"{mark} {escape_line(entry.content)}", DIM if entry.status == "completed" else PLAIN)
        self._body(item, item.text)

    def _head(self, item: ConversationItem, text: str, style: Style = PLAIN, after: str = "") -> None:
        """Write the first line of an item: its time, its text, and the number of its session from the second on."""
        if item.kind in ("prompt", "session"):
            self._out.write("\n")
        number = self._number(item.session)
        parts = [after, f"session {number}" if number > 1 and item.kind != "session" else ""]
        rest = ", ".join(filter(None, parts))
        self._out.write(f"{item.t:>10,.3f}  ", DIM)
        lines = list(self._wrapped(text))
        self._out.write(lines[0], style)
        for line in lines[1:]:
            self._out.write(f"\n{'':{INDENT}}{line}", style)
        self._out.write(f"  {rest}\n" if rest else "\n", DIM)

    def _body(self, item: ConversationItem, text: str, style: Style = PLAIN, prefix: str = "") -> None:
        lines = sanitize(text).strip("\n").split("\n") if text.strip() else []
        most = len(lines) if self._is_full else MOST_LINES["thought" if item.role == "thought" else item.kind]
        rest = len(lines) - most
        has_end = rest > 0 and (item.status == "failed" or item.tool_kind == "execute")
        if has_end:
            self._write(f"{prefix}… {rest:,} earlier lines; --full shows them", DIM)
        for line in lines[-most:] if has_end else lines[:most]:
            for part in self._wrapped(line.expandtabs(4)):
                self._write(prefix + part, style)
        if rest > 0 and not has_end:
            self._write(f"{prefix}… {rest:,} more lines; --full shows them", DIM)

    def _write(self, line: str, style: Style = PLAIN) -> None:
        self._out.write(f"{'':{INDENT}}{line}".rstrip() + "\n", style)

    def _wrapped(self, line: str) -> Iterator[str]:
        """Yield the parts of a line that fit on the terminal, broken at spaces where there are some."""
        if self._columns is None:
            yield line if self._is_full or len(line) < 10_000 else f"{line[:10_000]}… ({len(line):,} characters)"
            return
        columns = max(20, self._columns - 2)
        most = len(line) if self._is_full else 100 * columns
        shown, rest = line[:most], len(line) - most
        while len(head := first_columns(shown, columns)) < len(shown):
            space = head.rfind(" ")
            end = space + 1 if space > len(head) // 2 else len(head)
            yield shown[:end].rstrip()
            shown = shown[end:]
        yield shown if rest <= 0 else f"{shown}… ({len(line):,} characters)"

    def _number(self, session: str) -> int:
        if session and session not in self._sessions and len(self._sessions) < MAX_SESSIONS:
            self._sessions[session] = len(self._sessions) + 1
        return self._sessions.get(session, 0)


def _line(item: ConversationItem) -> tuple[str, Style, str]:
    """Return the line of an item without a body, its style, and what follows in small letters."""
    text, title, status = (escape_line(each) for each in (item.text, item.title, item.status))
    seconds = _seconds(item.seconds)
    match item.kind:
        case "connection":
            return text, PLAIN, ""
        case "session":
            opened = {"session/new": "new session", "session/fork": "forked session"}.get(item.title, "session")
            return f"{opened} {escape_line(item.session)}" + (f" in {text}" if text else ""), PLAIN, ""
        case "permission":
            options = " / ".join(escape_line(each, 60) for each in item.options)
            return f"? permission for {title or 'a tool call'}", YELLOW, options
        case "permission_answer":
            style = GREEN if item.status.startswith("allow") else RED
            return f"! {text or 'no answer'}", style, f"answered after {seconds}" if seconds else ""
        case "stop":
            style = DONE.get(item.status, RED)
            return f"turn ended: {status}" + (f": {text}" if text else ""), style, seconds
        case "error":
            return f"{title or 'response'} failed: {text}", RED, seconds
        case "invalid":
            return f"{title or 'not a message'}: {text}", RED, ""
        case "exit":
            return f"the agent ended with exit code {status}", PLAIN if item.status == "0" else RED, ""
        case "gap":
            return f"{text} frames are missing here", YELLOW, ""
        case "update":
            return f"{title}: {text}" if text else title, SEVERITIES.get(item.title, PLAIN), ""
        case _:
            return f"{title} {text}".strip(), PLAIN, seconds


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"
