"""Commands that the agent itself runs, as its events tell of them: to be watched like those that run here."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Protocol

from duologue.events import Terminal
from duologue.events import TerminalOutput as Printed
from duologue.protocol.values import TerminalExit, TerminalOutputResult

__all__ = ["AgentTerminals", "OutputSource"]

Watcher = Callable[[str], None]

KEPT_BYTES = 64 * 1024
"""The end of what one command has printed: for a tool call that shows it late, and to see what goes on."""

MOST_COMMANDS = 256
"""Commands that are remembered; the oldest is forgotten first."""

_decoder = getincrementaldecoder("utf-8")


class OutputSource(Protocol):
    """Commands that run somewhere."""

    def shown(self, terminal_id: str) -> TerminalOutputResult | None:
        """What one of them has printed, if it is known."""
        ...

    def watch(self, terminal_id: str, watcher: Watcher) -> Callable[[], None]:
        """Be told what it prints; call what is returned to stop."""
        ...


class _Command:
    """A command of the agent, and the end of what it has printed."""

    def __init__(self) -> None:
        self.exit: TerminalExit | None = None
        self.watchers: list[Watcher] = []
        self._end = bytearray()
        self._is_cut = False
        self._decoder = _decoder("replace")

    @property
    def output(self) -> TerminalOutputResult:
        return TerminalOutputResult(output=self._end.decode("utf-8", "replace"), truncated=self._is_cut, exit=self.exit)

    def print(self, data: bytes) -> None:
        self._end += data
        if len(self._end) > KEPT_BYTES:
            del self._end[:-KEPT_BYTES]
            self._is_cut = True
        self._tell(self._decoder.decode(data))

    def change(self, terminal: Terminal) -> None:
        """What it stands like now; output that does not go on with what was seen is shown after a line of its own."""
        self.exit = terminal.exit
        if self._end.endswith(terminal.output):  # of a long output the end is kept
            return
        seen = self._seen_of(terminal.output)
        if seen is None:
            self._end.clear()
            self._is_cut = False
            self._tell("…\n")
        self.print(terminal.output[seen or 0 :])

    def _seen_of(self, output: bytes) -> int | None:
        """How much of this output was seen before; None if it is another one."""
        if not self._is_cut:
            return len(self._end) if output.startswith(self._end) else None
        at = output.rfind(self._end)
        return None if at == -1 else at + len(self._end)

    def _tell(self, text: str) -> None:
        for watcher in self.watchers:
            watcher(text)


class AgentTerminals:
    """All commands of one agent."""

    def __init__(self) -> None:
        self._commands: dict[str, _Command] = {}

    def show(self, event: Terminal | Printed) -> None:
        """What the agent tells of one."""
        command = self._command(event.terminal_id)
        if isinstance(event, Terminal):
            command.change(event)
        else:
            command.print(event.data)

    def shown(self, terminal_id: str) -> TerminalOutputResult | None:
        """What it has printed so far."""
        command = self._commands.get(terminal_id)
        return None if command is None else command.output

    def watch(self, terminal_id: str, watcher: Watcher) -> Callable[[], None]:
        """Be told what it prints; agents may show a command before they tell of it."""
        watchers = self._command(terminal_id).watchers
        watchers.append(watcher)
        return lambda: watchers.remove(watcher)

    def _command(self, terminal_id: str) -> _Command:
        command = self._commands.setdefault(terminal_id, _Command())
        if len(self._commands) > MOST_COMMANDS:
            del self._commands[next(iter(self._commands))]
        return command
