"""Show an agent's stderr: line by line on request, its last lines when the agent fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from duologue.cli.console.safe_output import Style, say
from duologue.cli.exit_codes import ExitCode

MOST_LINES = 40
"""Lines that are kept for the case that the agent fails."""

LONGEST = 4000
"""Characters after which a line is broken."""


class AgentLog:
    """Receives the stderr of an agent.

    Args:
        show: Shows a complete line as soon as it arrives; None keeps the last lines for `show_end`.
    """

    def __init__(self, show: Callable[[str], None] | None) -> None:
        self._show = show
        self._begun = ""
        self._lines: deque[str] = deque(maxlen=MOST_LINES)

    def __call__(self, piece: bytes) -> None:
        *lines, self._begun = (self._begun + piece.decode("utf-8", "replace")).split("\n")
        if len(self._begun) > LONGEST:
            lines.append(self._begun)
            self._begun = ""
        for line in lines:
            if self._show is None:
                self._lines.append(line[:LONGEST])
            else:
                self._show(line[:LONGEST])

    def show_end(self, error: str, code: ExitCode, next_step: str = "") -> None:
        """Show the kept lines after an error of the agent, unless the error contains them; once.

        Where there are none, show what the user can do next.
        """
        lines = [line for line in [*self._lines, self._begun] if line.strip()]
        self._lines.clear()
        self._begun = ""
        if not lines and next_step:
            say(f"  {next_step}\n")
        if not lines or lines[-1].strip() in error or code in (ExitCode.USAGE, ExitCode.LOGIN, ExitCode.INTERRUPTED):
            return
        say("the agent wrote to stderr:\n")
        for line in lines:
            show_line(line)


def show_line(line: str) -> None:
    """Show one line of an agent's stderr."""
    say(f"  | {line}\n", Style.DIM)
