"""Commands that the agent itself runs, as its events tell of them: to be watched like those that run here."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Protocol

from duologue.dialects.terms import TerminalExit, TerminalOutput
from duologue.events import Terminal
from duologue.events import TerminalOutput as Printed

__all__ = ["AgentTerminals", "Watchable"]

Watcher = Callable[[str], None]

_decoder = getincrementaldecoder("utf-8")


class Watchable(Protocol):
    """Commands that run somewhere."""

    def shown(self, terminal_id: str) -> TerminalOutput | None:
        """What one of them has printed, if it is known."""
        ...

    def watch(self, terminal_id: str, watcher: Watcher) -> Callable[[], None]:
        """Be told what it prints; call what is returned to stop."""
        ...


class _Command:
    def __init__(self) -> None:
        self.output = b""
        self.exit: TerminalExit | None = None
        self.watchers: list[Watcher] = []
        self._decoder = _decoder("replace")

    def print(self, data: bytes) -> None:
        self.output += data
        self._tell(self._decoder.decode(data))

    def change(self, terminal: Terminal) -> None:
        """What it stands like now; output that does not go on with what was seen is shown after a line of its own."""
        self.exit = terminal.exit
        if self.output.endswith(terminal.output):  # of a long output the end is kept
            return
        goes_on = terminal.output.startswith(self.output)
        new = terminal.output[len(self.output) :] if goes_on else terminal.output
        self.output = terminal.output
        self._tell(("" if goes_on else "…\n") + self._decoder.decode(new))

    def _tell(self, text: str) -> None:
        for watcher in self.watchers:
            watcher(text)


class AgentTerminals:
    """All commands of one agent."""

    def __init__(self) -> None:
        self._commands: dict[str, _Command] = {}

    def show(self, event: Terminal | Printed) -> None:
        """What the agent tells of one."""
        command = self._commands.setdefault(event.terminal_id, _Command())
        if isinstance(event, Terminal):
            command.change(event)
        else:
            command.print(event.data)

    def shown(self, terminal_id: str) -> TerminalOutput | None:
        """What it has printed so far."""
        command = self._commands.get(terminal_id)
        if command is None:
            return None
        return TerminalOutput(output=command.output.decode("utf-8", "replace"), truncated=False, exit=command.exit)

    def watch(self, terminal_id: str, watcher: Watcher) -> Callable[[], None]:
        """Be told what it prints; agents may show a command before they tell of it."""
        watchers = self._commands.setdefault(terminal_id, _Command()).watchers
        watchers.append(watcher)
        return lambda: watchers.remove(watcher)
