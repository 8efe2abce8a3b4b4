"""Notices a command that starts processes without end, before the machine does.

Counting the processes of one command means looking at every process of the machine. So it is done only when there are
that many more on the machine than at the lowest point since the command started, which one short read tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from duologue.transports.process import process_tree as tree

__all__ = ["ProcessLimit"]

TICK_SECONDS = 0.1
"""Between two looks: a shell that does nothing else starts a few hundred processes in that time."""


class ProcessLimit:
    """Watches the processes that carry `token` until it is closed; needs a running event loop.

    Args:
        token: The mark in their environment.
        most: How many there may be.
        on_crowd: Called once when there are more.
    """

    def __init__(self, token: str, most: int, on_crowd: Callable[[], None]) -> None:
        self._token = token
        self._most = most
        self._on_crowd = on_crowd
        self._loop = asyncio.get_running_loop()
        self._fewest = _threads_of_the_machine()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(TICK_SECONDS, self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now = _threads_of_the_machine()
        self._fewest = min(self._fewest, now)
        if now - self._fewest > self._most and len(tree.find_by_marker(self._token, self._most + 1)) > self._most:
            self._timer = None
            self._on_crowd()
        else:
            self._timer = self._loop.call_later(TICK_SECONDS, self._look)


def _threads_of_the_machine() -> int:
    """All there are, or 0 where nobody says."""
    try:
        return int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0
