"""Read lines from the user on the event loop, without a thread that would outlive the question."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import termios
from collections.abc import Generator
from typing import Any

from duologue.cli.console.safe_output import say

READ_SIZE = 4096
IDLE_SECONDS = 0.4
"""Time without a key after which the user has stopped typing."""
MOST_IDLE_SECONDS = 10.0
"""Time after which a question is asked even if keys are still pressed."""

_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_modes: dict[int, list[Any]] = {}
"""Modes of the terminals that are read key by key now, to be restored at the end."""


class LineReader:
    """Reads lines from a descriptor: a terminal, a pipe or a file.

    Attributes:
        lock: Held while a question is open, so that the user is asked one at a time.
    """

    def __init__(self, descriptor: int) -> None:
        self.lock = asyncio.Lock()
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

    @property
    def is_terminal(self) -> bool:
        """True if a user can press keys here."""
        return os.isatty(self._descriptor)

    @contextlib.contextmanager
    def single_keys(self) -> Generator[None]:
        """Receive each key as it is pressed, without showing it, inside the block."""
        before = termios.tcgetattr(self._descriptor)
        keys = before.copy()
        keys[3] = before[3] & ~(termios.ICANON | termios.ECHO)
        _modes[self._descriptor] = before
        termios.tcsetattr(self._descriptor, termios.TCSANOW, keys)
        try:
            yield
        finally:
            del _modes[self._descriptor]
            termios.tcsetattr(self._descriptor, termios.TCSANOW, before)

    async def wait_until_idle(self) -> None:
        """Discard keys until none is pressed for a moment: they were not meant for a question that was just shown."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + MOST_IDLE_SECONDS
        self._buffer = b""
        with contextlib.suppress(TimeoutError):
            while loop.time() < latest and not self._has_ended:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self.read_keys()

    async def read_keys(self) -> list[str]:
        """Return the keys that were pressed at once, inside `single_keys`; nothing at the end of the input."""
        if self._has_ended:
            return []
        await self._readable()
        data = os.read(self._descriptor, READ_SIZE)
        self._has_ended = not data
        return _KEY.findall(data.decode("utf-8", "replace"))

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


def restore_terminals() -> None:
    """Restore the modes of the terminals that are read key by key, before the program exits at once."""
    for descriptor, mode in _modes.items():
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, mode)


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
