"""Detects user code that blocks the event loop: meanwhile nothing is read, answered or cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar
from weakref import WeakKeyDictionary, WeakSet

_log = logging.getLogger("duologue.runtime")

INTERVAL = 1.0
"""Seconds between two checks: often enough to date the block, too seldom to cost anything."""

BLOCKED = 0.5
"""Seconds a check may be late; far above what a busy machine causes, far below what a user calls a hang."""


class LoopMonitor:
    """Periodic check of one event loop, shared by all its connections; stops when there are none."""

    _by_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, LoopMonitor]] = WeakKeyDictionary()

    @classmethod
    def of_this_loop(cls) -> LoopMonitor:
        """Return the monitor of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in cls._by_loop:
            cls._by_loop[loop] = cls()
        return cls._by_loop[loop]

    def __init__(self) -> None:
        # Nothing here may keep a loop alive, or its entry would never leave the table.
        self._users: WeakSet[object] = WeakSet()
        self._due: float | None = None

    def acquire(self, user: object) -> None:
        """Monitor the loop on behalf of `user`, until it calls `release` or is garbage-collected."""
        self._users.add(user)
        if self._due is None:
            self._schedule(asyncio.get_running_loop())

    def release(self, user: object) -> None:
        """Stop monitoring on behalf of `user`; without users the next check is the last."""
        self._users.discard(user)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + INTERVAL
        loop.call_at(self._due, self._check, self._due)

    def _check(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        late = loop.time() - due
        if late > BLOCKED:
            _log.warning("the event loop was blocked for %.1f s: a handler blocks, or the machine is overloaded", late)
        if self._users:
            self._schedule(loop)
        else:
            self._due = None
