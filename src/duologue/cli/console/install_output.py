"""Show on a terminal what an installation does; to a file or a pipe only what the user must know is written."""

from __future__ import annotations

import sys
import time

from duologue.cli.console.safe_output import Style, rewrite_line, safe, say, terminal_width
from duologue.registry.install_recipe import InstallProgress

REDRAW_SECONDS = 0.1


class ConsoleInstallProgress(InstallProgress):
    """Writes steps, bytes and notices to stderr."""

    def __init__(self) -> None:
        self._is_terminal = safe(sys.stderr).isatty()
        self._drawn_at = 0.0

    def step(self, text: str) -> None:
        """Show a step on a terminal."""
        if self._is_terminal:
            self._clear()
            say(f"  {text}\n", Style.DIM)

    def received(self, size: int, announced: int | None) -> None:
        """Show the bytes of a download on a terminal, several times a second."""
        now = time.monotonic()
        if size == announced:
            self._clear()
        elif self._is_terminal and now - self._drawn_at >= REDRAW_SECONDS:
            of = "" if announced is None else f" of {announced / 1e6:.1f}"
            rewrite_line(f"  {size / 1e6:.1f}{of} MB", terminal_width())
            self._drawn_at = now

    def notice(self, text: str) -> None:
        """Show what the user must know."""
        self._clear()
        say(f"duologue: {text}\n", Style.YELLOW)

    def _clear(self) -> None:
        if self._drawn_at:
            rewrite_line("", terminal_width())
            self._drawn_at = 0.0
