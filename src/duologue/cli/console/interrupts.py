"""Ctrl-C: once asks politely, twice leaves at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn, Self

from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode

__all__ = ["Interrupts", "leave_now"]


SHOW_CURSOR = "\x1b[?25h"
"""A paragraph that was being drawn has hidden it."""


def leave_now(code: ExitCode) -> NoReturn:
    """End this process without waiting for anybody; guards end what was started (`transports.child`)."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream.isatty():
                safe(stream).trusted.write(SHOW_CURSOR)
            stream.flush()
        except OSError:
            pass
    os._exit(int(code))


class Interrupts:
    """Listens for Ctrl-C inside its block.

    Args:
        politely: What the first one does.

    Attributes:
        count: How often it was pressed.
    """

    def __init__(self, politely: Callable[[], None]) -> None:
        self.count = 0
        self._politely = politely

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def _pressed(self) -> None:
        self.count += 1
        if self.count > 1:
            leave_now(ExitCode.INTERRUPTED)
        self._politely()
