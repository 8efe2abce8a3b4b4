"""Notices user code that blocks the event loop: while it does, nothing is read, answered or cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar
from weakref import WeakKeyDictionary

__all__ = ["BEAT", "BLOCKED", "LoopWatch"]

_log = logging.getLogger("duologue.runtime")

BEAT = 1.0
"""Seconds between two looks at the clock: often enough to name the moment, too seldom to cost anything."""

BLOCKED = 0.5
"""Seconds a look may be late; far above what a busy machine causes, far below what a person calls a hang."""


class LoopWatch:
    """A heartbeat of one event loop, shared by all its connections and silent without any."""

    _by_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWatch]] = WeakKeyDictionary()

    @classmethod
    def of_this_loop(cls) -> LoopWatch:
        """The watch of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in cls._by_loop:
            cls._by_loop[loop] = cls()
        return cls._by_loop[loop]

    def __init__(self) -> None:
        self._users: set[object] = set()
        self._timer: asyncio.TimerHandle | None = None

    def acquire(self, user: object) -> None:
        """Watch on behalf of `user`, until it releases."""
        self._users.add(user)
        if self._timer is None:
            self._schedule()

    def release(self, user: object) -> None:
        """No more on behalf of `user`; the last one stops the heartbeat."""
        self._users.discard(user)
        if not self._users and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(BEAT, self._beat)

    def _beat(self) -> None:
        late = asyncio.get_running_loop().time() - self._timer.when()  # type: ignore[union-attr]  # it called us
        if late > BLOCKED:
            _log.warning("the event loop stood still for %.1f s: a handler blocks, or the machine is overloaded", late)
        self._schedule()
