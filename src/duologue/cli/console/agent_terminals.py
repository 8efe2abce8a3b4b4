"""Output of commands that the agent itself runs, built from its events."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Protocol

from duologue.conversation.work_state import TerminalExit
from duologue.events import Terminal
from duologue.events import TerminalOutput as Printed
from duologue.protocol.values import TerminalOutputResult

Watcher = Callable[[str], None]

TAIL_BYTES = 64 * 1024
"""Bytes kept of the end of one command's output, for a tool call that shows it later."""

MOST_COMMANDS = 256
"""Commands that are remembered; the oldest is dropped first."""

_decoder = getincrementaldecoder("utf-8")


class OutputSource(Protocol):
    """Running commands whose output can be watched."""

    def shown(self, terminal_id: str) -> TerminalOutputResult | None:
        """Return the output of a command so far; None if it is unknown."""
        ...

    def watch(self, terminal_id: str, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with each piece of output; the returned function stops that."""
        ...


class _Command:
    """One command of the agent, and the end of its output."""

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
        if len(self._end) > TAIL_BYTES:
            del self._end[:-TAIL_BYTES]
            self._is_cut = True
        self._notify(self._decoder.decode(data))

    def change(self, terminal: Terminal) -> None:
        """Apply the agent's report of the whole output; output that does not continue the known one starts anew."""
        self.exit = terminal.exit
        if self._end.endswith(terminal.output):  # the agent sends only the end of a long output
            return
        seen = self._seen_of(terminal.output)
        if seen is None:
            self._end.clear()
            self._is_cut = False
            self._notify("…\n")
        self.print(terminal.output[seen or 0 :])

    def _seen_of(self, output: bytes) -> int | None:
        """Return how much of this output is known already; None if it is a different one."""
        if not self._is_cut:
            return len(self._end) if output.startswith(self._end) else None
        at = output.rfind(self._end)
        return None if at == -1 else at + len(self._end)

    def _notify(self, text: str) -> None:
        for watcher in self.watchers:
            watcher(text)


class AgentTerminals:
    """All commands that one agent runs."""

    def __init__(self) -> None:
        self._commands: dict[str, _Command] = {}

    def show(self, event: Terminal | Printed) -> None:
        """Apply an event about one command."""
        command = self._command(event.terminal_id)
        if isinstance(event, Terminal):
            command.change(event)
        else:
            command.print(event.data)

    def shown(self, terminal_id: str) -> TerminalOutputResult | None:
        """Return the output of a command so far; None if it is unknown."""
        command = self._commands.get(terminal_id)
        return None if command is None else command.output

    def watch(self, terminal_id: str, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with each piece of output; the command may be reported later than it is shown."""
        watchers = self._command(terminal_id).watchers
        watchers.append(watcher)
        return lambda: watchers.remove(watcher)

    def _command(self, terminal_id: str) -> _Command:
        command = self._commands.setdefault(terminal_id, _Command())
        if len(self._commands) > MOST_COMMANDS:
            del self._commands[next(iter(self._commands))]
        return command
