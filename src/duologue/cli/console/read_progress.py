"""A line on the terminal that shows how much of a long recording is read, erased at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from duologue.cli.console.safe_output import safe
from duologue.recording.format import Entry
from duologue.recording.reader import RecordingReader

FIRST_SECONDS = 0.5
"""Time without a line: most recordings are read in less."""
DRAW_SECONDS = 0.2
"""Time between two drawings."""
ENTRIES = 256
"""Entries that are read before the clock is looked at again."""
WIDTH = 30
"""Characters of the bar."""


class ReadProgress:
    """Yields the entries of a recording, and shows on stderr how far it is, if that is a terminal.

    Args:
        reader: The recording.
    """

    def __init__(self, reader: RecordingReader) -> None:
        self._reader = reader
        self._error_output = safe(sys.stderr)
        self._size = reader.path.stat().st_size
        self._is_drawn = False
        self._began = time.monotonic()
        self._next = self._began + FIRST_SECONDS

    def __iter__(self) -> Iterator[Entry]:
        """Yield the entries."""
        if not self._error_output.isatty():
            yield from self._reader
            return
        try:
            for number, entry in enumerate(self._reader):
                if number % ENTRIES == 0 and time.monotonic() >= self._next:
                    self._draw()
                yield entry
        finally:
            self.clear()

    def clear(self) -> None:
        """Erase the line, before something else is printed."""
        if self._is_drawn:
            self._is_drawn = False
            self._error_output.draw_line()

    def _draw(self) -> None:
        now = time.monotonic()
        read = self._reader.position
        part = min(1.0, read / max(1, self._size))
        done = "#" * int(part * WIDTH)
        rate = read / 1_000_000 / (now - self._began)
        line = f"[{done:<{WIDTH}}] {part:>4.0%} of {self._size / 1_000_000:,.0f} MB, {rate:,.0f} MB/s"
        self._error_output.draw_line(line)
        self._is_drawn, self._next = True, now + DRAW_SECONDS
