"""Say what the agent is doing, and what the user can do meanwhile."""

from __future__ import annotations

import asyncio
import time

from duologue.cli.chat.line_editor import LineEditor
from duologue.cli.chat.queue_commands import queue_lines
from duologue.cli.chat.queued_prompts import QueuedPrompts
from duologue.cli.chat.steering import Steering
from duologue.cli.console.line_reader import LineReader, is_interactive
from duologue.cli.console.renderer import ConsoleOutput
from duologue.cli.console.safe_output import Style, first_columns, say
from duologue.sanitize import escape_line

SILENT_SECONDS = 5.0
"""Time without any output after which a line says what the agent is doing."""


class WorkStatus:
    """The lines above the one that is being typed; where there are none, lines that are printed now and then.

    Args:
        queue: Prompts that wait.
        steering: Knows which texts were sent into the turn and not taken yet.
        screen: Knows which tool call runs, and when something was shown last.
        reader: Its lock is held while the user is asked something.
        editor: Shows the lines.

    Attributes:
        can_steer: The agent takes text into a running turn.
    """

    def __init__(
        self,
        queue: QueuedPrompts,
        steering: Steering,
        screen: ConsoleOutput,
        reader: LineReader,
        editor: LineEditor,
    ) -> None:
        self._queue = queue
        self._steering = steering
        self._screen = screen
        self._reader = reader
        self._editor = editor
        self._silent = 0.0
        self.can_steer = False

    def lines(self, width: int) -> list[str]:
        """Return the queue, what the agent does, and what keys do."""
        lines = [f"sent into the turn, not taken yet: {escape_line(text)}" for text in self._steering.pending]
        lines += queue_lines(self._queue, width)
        if self._queue.edited is not None:
            lines.append(f"editing {self._queue.edited}: Enter saves it, an empty line drops it")
        elif not self._queue.is_idle:
            steer = "Ctrl-S steers, " if self.can_steer else ""
            if self._silent:
                lines.append(f"{self._screen.doing} ({self._silent:.0f} s)")
            lines.append(f"working; Enter queues, {steer}Ctrl-C cancels")
        return [first_columns(line, width - 1) for line in lines]

    async def report_silence(self) -> None:
        """Say what the agent is doing while nothing is shown; not during a question.

        Where no status line is in view, a line is printed after longer and longer times.
        """
        since, written_at, reported = time.monotonic(), self._screen.written_at, 0.0
        try:
            while is_interactive():
                await asyncio.sleep(1.0)
                if self._screen.written_at != written_at or self._reader.lock.locked():
                    since = written_at = self._screen.written_at
                    self._silent = reported = 0.0
                elif (silent := time.monotonic() - since) >= SILENT_SECONDS and self._editor.has_status:
                    self._silent = silent
                    self._editor.refresh()
                elif silent >= max(SILENT_SECONDS, 2 * reported):
                    self._screen.pause()
                    say(f"{self._screen.doing} ({silent:.0f} s)\n", Style.DIM)
                    written_at, reported = self._screen.written_at, silent
        finally:
            self._silent = 0.0
