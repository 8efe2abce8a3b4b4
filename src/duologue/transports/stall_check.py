"""Detect a peer that reads nothing while output waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class StallCheck:
    """Check for progress while output waits.

    Args:
        progress: Returns how many bytes have left this process.
        on_stall: Called when that did not change for `seconds`.

    Attributes:
        seconds: How long the peer may read nothing; `None` disables the check.
    """

    def __init__(self, progress: Callable[[], int], on_stall: Callable[[], None], seconds: float | None = None) -> None:
        self.seconds = seconds
        self._progress = progress
        self._on_stall = on_stall
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to check: output waits."""
        if self.seconds is not None:
            self._schedule(self.seconds, self._progress())

    def stop(self) -> None:
        """Stop checking: no output waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, seconds: float, before: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check, seconds, before)

    def _check(self, seconds: float, before: int) -> None:
        if (now := self._progress()) > before:
            self._schedule(seconds, now)
        else:
            self._on_stall()
