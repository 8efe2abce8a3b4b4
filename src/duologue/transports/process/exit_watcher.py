"""Notice the end of a child without reaping it, so that its pid and its group are not reused."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from duologue.transports.process.process_tree import open_pidfd

UNKNOWN_STATUS = 255
"""As in asyncio, if another part of the program has reaped the child."""


class ExitWatcher:
    """Watch one child until `close`.

    Where the system has no pidfd, a thread waits and reaps the child as it ends.

    Attributes:
        status: `None` while it runs; then its exit code, or minus the number of the signal that ended it.
    """

    def __init__(self, process: subprocess.Popen[bytes], on_exit: Callable[[], None] | None = None) -> None:
        self.status: int | None = None
        self._process = process
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._pidfd: int | None = None
        try:
            self._pidfd = open_pidfd(process.pid)
        except ProcessLookupError:
            # It ended, and another part of the program has reaped it.
            self._loop.call_soon(self._ended, UNKNOWN_STATUS)
            return
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._pidfd_ready)
        else:
            threading.Thread(target=self._wait_and_reap, name=f"duologue-wait-{process.pid}", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def exit(self) -> int:
        """Wait for the end; return the status."""
        while self.status is None:
            await self._exited.wait()
        return self.status

    async def exit_within(self, seconds: float) -> bool:
        """Wait up to `seconds`; return whether it ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exit()
        return self.status is not None

    def wait_now(self, seconds: float) -> bool:
        """Wait up to `seconds` without the event loop; return whether it ended."""
        if self.status is None and self._pidfd is not None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(seconds * 1000):
                self.status = _peek(self._process.pid)
        elif self.status is None:
            with suppress(subprocess.TimeoutExpired):
                self.status = self._process.wait(seconds)
        return self.status is not None

    def close(self) -> None:
        """Stop watching; the child is not touched."""
        if self._pidfd is not None:
            # The loop may be closed already, if the child is ended as the program exits.
            with suppress(RuntimeError, ValueError):
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _pidfd_ready(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        self._ended(_peek(self._process.pid))

    def _wait_and_reap(self) -> None:
        status = self._process.wait()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended, status)

    def _ended(self, status: int) -> None:
        self.status = status
        self._exited.set()
        if self._on_exit is not None:
            self._on_exit()


def _peek(pid: int) -> int:
    """Return the status of a child that has ended, without reaping it."""
    try:
        result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return UNKNOWN_STATUS
    if result is None:
        return UNKNOWN_STATUS
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
