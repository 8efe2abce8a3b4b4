"""Handle Ctrl-C: the first one cancels, the second one exits immediately."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn, Self

from duologue.cli.console.line_reader import restore_terminals
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode

USUAL_MODES = "\x1b[?25h\x1b[?2004l"
"""Sent before exiting: a visible cursor, and pasted text without brackets."""


def exit_now(code: ExitCode) -> NoReturn:
    """Exit without waiting for anything; guard processes stop the agents (`transports.process.guard`)."""
    restore_terminals()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream.isatty():
                safe(stream).trusted.write(USUAL_MODES)
            stream.flush()
        except OSError:
            pass
    os._exit(int(code))


class Interrupts:
    """Handle Ctrl-C inside a `with` block.

    Args:
        on_first: Called at the first Ctrl-C.
        on_exit: Called before the program exits at the second one.

    Attributes:
        count: How often Ctrl-C was pressed.
    """

    def __init__(self, on_first: Callable[[], None], on_exit: Callable[[], None] = lambda: None) -> None:
        self.count = 0
        self._on_exit = on_exit
        self._on_first = on_first

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.press)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def press(self) -> None:
        """Handle one Ctrl-C."""
        self.count += 1
        if self.count > 1:
            self._on_exit()
            exit_now(ExitCode.INTERRUPTED)
        self._on_first()
