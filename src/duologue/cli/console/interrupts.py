"""Handle Ctrl-C, and SIGTERM where nothing may be left: the first one cancels, the second one exits immediately."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, NoReturn, Self, TypeVar

from duologue.cli.console.line_reader import restore_terminals
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode

T = TypeVar("T")

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
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


def run_until_interrupted(work: Coroutine[Any, Any, T], on_first: Callable[[], None] = lambda: None) -> T:
    """Run a coroutine to its end; the first Ctrl-C or SIGTERM cancels it, the second one exits immediately.

    Args:
        work: The coroutine; if it is cancelled, it removes what it made.
        on_first: Called at the first one.

    Raises:
        KeyboardInterrupt: It was cancelled in this way.
    """
    try:
        return asyncio.run(_until_interrupted(work, on_first))
    except _Interrupted:
        raise KeyboardInterrupt from None


class _Interrupted(Exception):
    """The work was cancelled by a signal."""


async def _until_interrupted(work: Coroutine[Any, Any, T], on_first: Callable[[], None]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"

    def cancel() -> None:
        on_first()
        task.cancel()

    interrupts = Interrupts(cancel)
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    for number in ENDING_SIGNALS:
        loop.add_signal_handler(number, interrupts.press)
    try:
        return await work
    except asyncio.CancelledError:
        if not interrupts.count:
            raise
        raise _Interrupted from None
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


@contextmanager
def terminated_like_interrupted() -> Generator[None]:
    """Let SIGTERM raise KeyboardInterrupt in a block, as Ctrl-C does, so that the block removes what it made."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
