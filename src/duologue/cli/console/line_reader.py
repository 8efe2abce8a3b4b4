"""Read lines from the user on the event loop, without a thread that would outlive the question."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Generator

from duologue.cli.console.safe_output import say

READ_SIZE = 4096


class LineReader:
    """Reads lines from a descriptor: a terminal, a pipe or a file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._has_ended = False

    async def read(self) -> str | None:
        """Return the next line without its line end; None at the end of the input."""
        while b"\n" not in self._buffer and not self._has_ended:
            await self._readable()
            data = os.read(self._descriptor, READ_SIZE)
            self._buffer += data
            self._has_ended = not data
        if not self._buffer:
            self._has_ended = not os.isatty(self._descriptor)  # on a terminal Ctrl-D ends one answer only
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    def discard_input(self) -> None:
        """Discard what was typed before the question was shown: it cannot be an answer to it."""
        if os.isatty(self._descriptor):
            self._buffer = b""
            with contextlib.suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except PermissionError:
            return  # a regular file is always readable and cannot be registered
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)


async def choose(reader: LineReader, count: int, otherwise: str) -> int | None:
    """Ask for the number of one of `count` answers; return its index, None for any other input."""
    reader.discard_input()
    say(f"Your choice (a number; Enter {otherwise}): ")
    typed = await reader.read()
    if typed is None:
        say("\n")
    choice = (typed or "").strip()
    return int(choice) - 1 if choice.isdecimal() and 0 < int(choice) <= count else None


def is_interactive() -> bool:
    """Return True if a user types the input and sees the messages."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextlib.contextmanager
def terminal_to_ask() -> Generator[int | None]:
    """Yield a descriptor to ask the user on: stdin if it is a terminal, else the controlling terminal, else None."""
    if sys.stdin is not None and sys.stdin.isatty():
        yield sys.stdin.fileno()
        return
    descriptor = _own_terminal()
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _own_terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
