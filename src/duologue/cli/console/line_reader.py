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

from duologue.cli.console.safe_output import end_line, say

READ_SIZE = 4096
IDLE_SECONDS = 0.4
"""Time without a key after which the user has stopped typing."""
MOST_IDLE_SECONDS = 10.0
"""Time after which a question is asked even if keys are still pressed."""

_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_modes: dict[int, list[Any]] = {}
"""Modes of the terminals that are changed now, to be restored at the end."""


class LineReader:
    """Reads lines from a descriptor: a terminal, a pipe or a file.

    Attributes:
        lock: Held while a question is open, so that the user is asked one at a time.
    """

    def __init__(self, descriptor: int) -> None:
        self.lock = asyncio.Lock()
        self._descriptor = descriptor
        self._buffer = b""
        self._early = b""
        """Input before a question could be answered: it was not meant for it."""
        self._has_ended = False

    async def read(self) -> str | None:
        """Return the next line without its line end; None at the end of the input."""
        while b"\n" not in self._buffer and not self._has_ended:
            self._buffer += await self._read_available()
        if not self._buffer:
            self._has_ended = not os.isatty(self._descriptor)  # on a terminal Ctrl-D ends one answer only
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    def interrupt(self) -> None:
        """End the line of a question that is open, because other output follows."""
        if self.lock.locked():
            end_line()

    def set_input_aside(self) -> None:
        """Set aside what was typed before a question was shown: it cannot be an answer to it."""
        if self.is_terminal:
            self._set_aside(self._buffer + self._unread())
            self._buffer = b""

    def take_early_input(self) -> str:
        """Remove and return what was typed before a question could be answered."""
        early, self._early = self._early, b""
        return early.decode("utf-8", "replace")

    def take_back_input(self) -> str:
        """Read what was set aside as lines after all; return the beginning of its last line."""
        self._buffer, self._early = self._early + self._buffer, b""
        return self._buffer.rpartition(b"\n")[2].decode("utf-8", "replace")

    def _set_aside(self, data: bytes) -> None:
        self._early = (self._early + data)[-READ_SIZE:]

    def _unread(self) -> bytes:
        """Return what the terminal holds, also the beginning of a line."""
        with restored_at_exit(self._descriptor) as before:
            modes = [*before[:3], before[3] & ~termios.ICANON, *before[4:6], [*before[6]]]
            modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0
            termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)
            return os.read(self._descriptor, READ_SIZE)

    @property
    def is_terminal(self) -> bool:
        """True if a user can press keys here."""
        return os.isatty(self._descriptor)

    @contextlib.contextmanager
    def single_keys(self) -> Generator[None]:
        """Receive each key as it is pressed, without showing it, inside the block."""
        with restored_at_exit(self._descriptor) as before:
            keys = before.copy()
            keys[3] = before[3] & ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(self._descriptor, termios.TCSANOW, keys)
            yield

    async def wait_until_idle(self) -> None:
        """Set keys aside until none is pressed for a moment: they were not meant for a question that was just shown."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + MOST_IDLE_SECONDS
        self._set_aside(self._buffer)
        self._buffer = b""
        with contextlib.suppress(TimeoutError):
            while loop.time() < latest and not self._has_ended:
                async with asyncio.timeout(IDLE_SECONDS):
                    self._set_aside(await self._read_available())

    async def read_keys(self) -> list[str]:
        """Return the keys that were pressed at once, inside `single_keys`; nothing at the end of the input."""
        data = b"" if self._has_ended else await self._read_available()
        return _KEY.findall(data.decode("utf-8", "replace"))

    async def _read_available(self) -> bytes:
        await self._readable()
        data = os.read(self._descriptor, READ_SIZE)
        self._has_ended = not data
        return data

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
    reader.set_input_aside()
    say(f"Your choice (a number; Enter {otherwise}): ")
    typed = await reader.read()
    if typed is None:
        say("\n")
    choice = (typed or "").strip()
    return int(choice) - 1 if choice.isdecimal() and 0 < int(choice) <= count else None


@contextlib.contextmanager
def restored_at_exit(descriptor: int) -> Generator[list[Any]]:
    """Yield the modes of a terminal and restore them after the block, also if the program exits at once."""
    before = termios.tcgetattr(descriptor)
    is_outermost = descriptor not in _modes
    _modes.setdefault(descriptor, before)
    try:
        yield before
    finally:
        if is_outermost:
            del _modes[descriptor]
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def restore_terminals() -> None:
    """Restore the modes of the terminals that were changed, before the program exits at once."""
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
