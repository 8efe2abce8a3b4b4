"""Show what an agent writes to stderr, and to stdout by mistake: always on request, the last lines when it fails."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from duologue.cli.console.safe_output import Style, say
from duologue.cli.exit_codes import ExitCode
from duologue.runtime.tasks import TaskScope
from duologue.sanitize import escape_line
from duologue.traceback_filter import TracebackFilter

MOST_LINES = 40
"""Lines that are kept for the case that the agent fails."""

LONGEST = 4000
"""Characters after which a line is broken."""

MOST_AT_ONCE = 1000
"""Lines that are shown at once next to a conversation; of more than that, the last ones."""

FEW = 20
"""Lines that arrive together from an agent that does not flood its stderr."""

FLOOD_SECONDS = 0.1
"""Time between two times at which many lines are shown, so that a flood of them leaves the user the terminal."""

LONGEST_FRAME = 1000
"""Characters of a frame that are shown."""

STDERR = "|"
"""Mark of a line that the agent wrote to stderr."""

Above: TypeAlias = Callable[[Callable[[], None]], None]
"""Shows something above the line that is being typed, as `LineEditor.above`."""


class AgentLog:
    """Receives the stderr of an agent.

    Args:
        show: Shows a complete line as soon as it arrives; None keeps the last lines for `show_end`.
        has_all_frames: Leave tracebacks as they are, with the frames of the library.

    Attributes:
        show: As above; it may be changed.
    """

    def __init__(self, show: Callable[[str], None] | None, *, has_all_frames: bool = False) -> None:
        self.show = show
        self._traceback = None if has_all_frames else TracebackFilter()
        self._begun = ""
        self._lines: deque[str] = deque(maxlen=MOST_LINES)

    def __call__(self, piece: bytes) -> None:
        *lines, self._begun = (self._begun + piece.decode("utf-8", "replace")).split("\n")
        if len(self._begun) > LONGEST:
            lines.append(self._begun)
            self._begun = ""
        for line in lines:
            for shown in [line] if self._traceback is None else self._traceback.pass_on(line):
                self.add(shown)

    def add(self, line: str) -> None:
        """Show a line, or keep it for `show_end`."""
        if self.show is None:
            self._lines.append(line[:LONGEST])
        else:
            self.show(line[:LONGEST])

    def show_end(self, error: str, code: ExitCode, next_step: str = "") -> None:
        """Show the kept lines after an error of the agent, unless the error contains them; once.

        Where there are none, and none were shown before, show what the user can do next.
        """
        lines = [line for line in [*self._lines, self._begun] if line.strip()]
        self._lines.clear()
        self._begun = ""
        if not lines and next_step and self.show is None:
            say(f"  {next_step}\n")
        if not lines or lines[-1].strip() in error or code in (ExitCode.USAGE, ExitCode.LOGIN, ExitCode.INTERRUPTED):
            return
        say("the agent wrote to stderr:\n")
        for line in lines:
            show_line(line)


class LogView:
    """Shows lines next to a conversation; of a flood of them only the last ones, and how many are missing.

    Args:
        above: Shows something above the line that the user types.
        pause: Ends the line of the agent's answer that is being written.
    """

    def __init__(self, above: Above, pause: Callable[[], None]) -> None:
        self._above = above
        self._pause = pause
        self._lines: deque[tuple[str, str]] = deque(maxlen=MOST_AT_ONCE)
        self._left_out = 0
        self._tasks: TaskScope | None = None
        self._showing: asyncio.Task[None] | None = None

    def __call__(self, line: str, mark: str = STDERR) -> None:
        """Show a line soon, after the mark of where it is from."""
        self._left_out += len(self._lines) == MOST_AT_ONCE
        self._lines.append((line, mark))
        self._tasks = self._tasks or TaskScope()
        if self._showing is None or self._showing.done():
            self._showing = self._tasks.start(self._show_soon())

    async def _show_soon(self) -> None:
        while self._lines:
            seconds = FLOOD_SECONDS if len(self._lines) > FEW else 0.0
            self._above(self.show_now)
            await asyncio.sleep(seconds)

    def show_now(self) -> None:
        """Show the lines that wait to be shown."""
        if not self._lines:
            return
        self._pause()
        if self._left_out:
            show_line(f"({self._left_out:,} lines left out: the agent writes too fast)")
        # In one piece: each makes the editor draw its line again.
        say("".join(f"  {mark} {line}\n" for line, mark in self._lines), Style.DIM)
        self._lines.clear()
        self._left_out = 0


class WireView:
    """Observes the frames of a connection: shows them on request, and adds what is no frame to the agent's log.

    Args:
        log: Receives what the agent writes to stdout by mistake.
        show: Shows a frame after a mark of its direction.
        is_on: Show frames from the beginning.
    """

    def __init__(self, log: AgentLog, show: Callable[[str, str], None], *, is_on: bool = False) -> None:
        self.is_on = is_on
        self._log = log
        self._show = show

    def __call__(self, direction: Literal["in", "out"], frame: bytes) -> None:
        if direction == "in" and frame.lstrip(b" \t")[:1] not in (b"{", b"["):
            text = escape_line(frame.decode("utf-8", "replace").rstrip("\r\n"), LONGEST_FRAME)
            self._log.add(f"stdout, which belongs to the protocol: {text}")
        elif self.is_on:
            text = escape_line(frame.decode("utf-8", "replace").rstrip("\n"), LONGEST_FRAME)
            self._show(text, "<-" if direction == "in" else "->")


def toggle_view(name: str, log: AgentLog, view: LogView, wire: WireView) -> bool:
    """Show or hide the `stderr` of an agent or the messages of its connection (`wire`); return True if it is shown."""
    if name == "wire":
        wire.is_on = not wire.is_on
        return wire.is_on
    log.show = view if log.show is None else None
    return log.show is not None


def show_line(line: str, mark: str = STDERR) -> None:
    """Show one line of an agent's stderr, or another one that is no part of the conversation."""
    say(f"  {mark} {line}\n", Style.DIM)
