"""The output of commands while they run, line by line, inside the tool call that shows them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from duologue.cli.console.agent_terminals import OutputSource
from duologue.errors import ResourceNotFound
from duologue.sanitize import sanitize

__all__ = ["MOST_LINES", "LiveOutput", "end_of"]

MOST_LINES = 20
"""Lines of a long output that are shown of its end, where the result stands."""

MOST_LIVE_LINES = 100
"""Lines that are shown while they come; a command that says more is one whose end matters."""

MOST_COLUMNS = 2000
"""Characters of one line that are shown, from its beginning; then how long it was."""

_LINE_END = re.compile(r"\r\n?|\n")


class _Lines:
    """Cuts text into lines as it comes; a line that never ends takes neither time nor memory that grows."""

    def __init__(self) -> None:
        self._kept = ""
        self._length = 0
        self._has_return = False
        """The last piece ended with a carriage return: a line feed may still belong to it."""

    def feed(self, text: str) -> Iterator[str]:
        """The lines that end in this piece, sanitized."""
        text = f"\r{text}" if self._has_return else text
        self._has_return = text.endswith("\r")
        start, end = 0, len(text) - self._has_return
        for found in _LINE_END.finditer(text, 0, end):
            self._add(text, start, found.start())
            start = found.end()
            yield self._take()
        self._add(text, start, end)

    def finish(self) -> Iterator[str]:
        """The last line, if it has no end."""
        if self._length or self._has_return:
            self._has_return = False
            yield self._take()

    def _add(self, text: str, start: int, end: int) -> None:
        self._kept += text[start : min(end, start + MOST_COLUMNS - len(self._kept))]
        self._length += end - start

    def _take(self) -> str:
        cut = f"… ({self._length:,} characters)" if self._length > MOST_COLUMNS else ""
        line, self._kept, self._length = sanitize(self._kept) + cut, "", 0
        return line


def end_of(output: str) -> tuple[int, list[str]]:
    """The last lines of what a command printed, and how many were before them."""
    lines, last, count = _Lines(), deque[str](maxlen=MOST_LINES), 0
    for line in chain(lines.feed(output), lines.finish()):
        last.append(line)
        count += 1
    return count - len(last), list(last)


class LiveOutput:
    """Shows what one command prints, from its first line to the end of the tool call.

    Args:
        terminals: Where it runs.
        terminal_id: Its terminal.
        show: Shows one line.
        may_show: Whether that can be done now; lines wait until it can.
    """

    def __init__(
        self, terminals: OutputSource, terminal_id: str, show: Callable[[str], None], may_show: Callable[[], bool]
    ) -> None:
        self._show = show
        self._may_show = may_show
        self._lines = _Lines()
        self._waiting: list[str] = []
        self._count = 0
        self._last: deque[str] = deque(maxlen=MOST_LINES)
        so_far = terminals.shown(terminal_id)
        if so_far is not None:
            self._take(so_far.output)
        try:
            self._stop = terminals.watch(terminal_id, self._take)
        except ResourceNotFound:  # it has ended already, or the agent made the id up
            self._stop = _nothing

    def end(self) -> None:
        """The tool call is over: show what is still to be shown."""
        self._stop()
        self._stop = _nothing
        self._keep(self._lines.finish())
        self._may_show = _always
        self._flush()
        left_out = self._count - MOST_LIVE_LINES - len(self._last)
        if self._last and left_out > 0:
            self._show(f"… {left_out} lines")
        for line in self._last:
            self._show(line)
        self._last.clear()

    def _take(self, text: str) -> None:
        self._keep(self._lines.feed(text))
        self._flush()

    def _keep(self, lines: Iterator[str]) -> None:
        for line in lines:
            (self._waiting if self._count < MOST_LIVE_LINES else self._last).append(line)
            self._count += 1

    def _flush(self) -> None:
        if self._waiting and self._may_show():
            lines, self._waiting = self._waiting, []
            for line in lines:
                self._show(line)


def _nothing() -> None:
    """Nobody is watched."""


def _always() -> bool:
    return True
