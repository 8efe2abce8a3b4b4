"""Show the output of running commands line by line, below the tool call that shows them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from duologue.cli.console.agent_terminals import OutputSource
from duologue.errors import ResourceNotFound
from duologue.sanitize import sanitize

MOST_LINES = 20
"""Lines shown from the end of a long output."""

MOST_LIVE_LINES = 100
"""Lines shown while a command runs; of a longer output only the end follows."""

MOST_COLUMNS = 2000
"""Characters shown of one line; a longer line ends with its length."""

_LINE_END = re.compile(r"\r\n?|\n")


class _Lines:
    """Split text into lines as it arrives; an endless line takes bounded time and memory."""

    def __init__(self) -> None:
        self._line = ""
        self._length = 0
        self._has_return = False
        """Set if the last piece ended with a carriage return, which a line feed may follow."""

    def feed(self, text: str) -> Iterator[str]:
        """Yield the lines that end in this piece, sanitized."""
        text = f"\r{text}" if self._has_return else text
        self._has_return = text.endswith("\r")
        start, end = 0, len(text) - self._has_return
        for found in _LINE_END.finditer(text, 0, end):
            self._add(text, start, found.start())
            start = found.end()
            yield self._pop_line()
        self._add(text, start, end)

    def finish(self) -> Iterator[str]:
        """Yield the last line if it has no line end."""
        if self._length or self._has_return:
            self._has_return = False
            yield self._pop_line()

    def _add(self, text: str, start: int, end: int) -> None:
        self._line += text[start : min(end, start + MOST_COLUMNS - len(self._line))]
        self._length += end - start

    def _pop_line(self) -> str:
        cut = f"… ({self._length:,} characters)" if self._length > MOST_COLUMNS else ""
        line, self._line, self._length = sanitize(self._line) + cut, "", 0
        return line


def end_of(output: str, most: int | None = MOST_LINES) -> tuple[int, list[str]]:
    """Return the last lines of a command's output (None: all), and how many precede them."""
    lines, last, count = _Lines(), deque[str](maxlen=most), 0
    for line in chain(lines.feed(output), lines.finish()):
        last.append(line)
        count += 1
    return count - len(last), list(last)


class LiveOutput:
    """Show the output of one command until its tool call ends.

    Args:
        terminals: Source of the output.
        terminal_id: Terminal of the command.
        show: Called to show one line.
        may_show: Returns whether lines can be shown now; they wait until it does.
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
            self._receive(so_far.output)
        try:
            self._stop = terminals.watch(terminal_id, self._receive)
        except ResourceNotFound:  # it has ended already, or the agent sent an unknown id
            self._stop = _nothing

    def end(self) -> None:
        """Stop watching and show the remaining lines."""
        self._stop()
        self._stop = _nothing
        self._add(self._lines.finish())
        self._may_show = lambda: True
        self._flush()
        left_out = self._count - MOST_LIVE_LINES - len(self._last)
        if self._last and left_out > 0:
            self._show(f"… {left_out} lines")
        for line in self._last:
            self._show(line)
        self._last.clear()

    def _receive(self, text: str) -> None:
        self._add(self._lines.feed(text))
        self._flush()

    def _add(self, lines: Iterator[str]) -> None:
        for line in lines:
            (self._waiting if self._count < MOST_LIVE_LINES else self._last).append(line)
            self._count += 1

    def _flush(self) -> None:
        if self._waiting and self._may_show():
            lines, self._waiting = self._waiting, []
            for line in lines:
                self._show(line)


def _nothing() -> None:
    """Do nothing: no command is watched."""
