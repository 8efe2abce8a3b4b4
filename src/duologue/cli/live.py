"""The output of commands while they run, line by line, inside the tool call that shows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from duologue.cli.agentside import Watchable
from duologue.cli.output import sanitize
from duologue.errors import ResourceNotFound

__all__ = ["MOST_LINES", "LiveOutput", "lines_of"]

MOST_LINES = 20
"""Lines of a long output that are shown of its end, where the result stands."""

MOST_LIVE_LINES = 100
"""Lines that are shown while they come; a command that says more is one whose end matters."""


def lines_of(output: str) -> list[str]:
    """What a command printed, without anything that acts on a terminal."""
    return sanitize(output).splitlines()


class LiveOutput:
    """Shows what one command prints, from its first line to the end of the tool call.

    Args:
        terminals: Where it runs.
        terminal_id: Its terminal.
        show: Shows one line.
        may_show: Whether that can be done now; lines wait until it can.
    """

    def __init__(
        self, terminals: Watchable, terminal_id: str, show: Callable[[str], None], may_show: Callable[[], bool]
    ) -> None:
        self._show = show
        self._may_show = may_show
        self._rest = ""
        self._waiting: list[str] = []
        self._shown = 0
        self._left_out = 0
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
        if self._rest:
            self._take("\n")
        self._may_show = _always
        self._flush()
        if self._left_out > len(self._last):
            self._show(f"… {self._left_out - len(self._last)} lines")
        for line in self._last:
            self._show(line)
        self._last.clear()
        self._left_out = 0

    def _take(self, text: str) -> None:
        whole, end, self._rest = (self._rest + text).rpartition("\n")
        if end:
            self._waiting += lines_of(whole)
        self._flush()

    def _flush(self) -> None:
        if not self._waiting or not self._may_show():
            return
        lines, self._waiting = self._waiting, []
        for line in lines:
            if self._shown < MOST_LIVE_LINES:
                self._shown += 1
                self._show(line)
            else:
                self._left_out += 1
                self._last.append(line)


def _nothing() -> None:
    """Nobody is watched."""


def _always() -> bool:
    return True
