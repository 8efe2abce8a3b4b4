"""Detect a command that starts too many processes.

Counting the processes of one command means examining every process of the machine. So it is done only when the
machine's total, which one short read gives, has grown by more than the limit since the command started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from duologue.transports.process import process_tree as tree

TICK_SECONDS = 0.1
"""Seconds between two checks: a shell can start a few hundred processes in that time."""


class ProcessLimit:
    """Watch the processes marked with `token` until it is closed; needs a running event loop.

    Args:
        token: Marker in the environment of the processes.
        most: How many processes are allowed.
        on_exceeded: Called once when there are more.
    """

    def __init__(self, token: str, most: int, on_exceeded: Callable[[], None]) -> None:
        self._token = token
        self._most = most
        self._on_exceeded = on_exceeded
        self._loop = asyncio.get_running_loop()
        self._fewest = _thread_count()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(TICK_SECONDS, self._check)

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = _thread_count()
        self._fewest = min(self._fewest, now)
        if now - self._fewest > self._most and len(tree.find_by_marker(self._token, self._most + 1)) > self._most:
            self._timer = None
            self._on_exceeded()
        else:
            self._timer = self._loop.call_later(TICK_SECONDS, self._check)


def _thread_count() -> int:
    """Return the number of threads on this machine; 0 if it is unknown."""
    try:
        return int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0
