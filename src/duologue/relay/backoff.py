"""How often an agent may fail right after its start before the next start has to wait."""

from __future__ import annotations

import time
from collections.abc import Callable

from duologue.errors import StartError

__all__ = ["RestartBackoff"]

SHORT_LIFE = 10.0
"""An agent that fails sooner than this never really ran."""

FREE_TRIES = 3
"""Failures before there is a pause: a client that tries again at once may be lucky."""

LONGEST_PAUSE = 60.0
"""A machine is not busy with one start a minute, and whoever repaired the agent need not wait longer."""


class RestartBackoff:
    """Remembers how one command fared lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._crashes = 0
        self._not_before = 0.0

    def check(self) -> None:
        """Whether it may be started now.

        Raises:
            StartError: Not yet.
        """
        left = self._not_before - self._clock()
        if left > 0:
            raise StartError(f"the agent failed {self._crashes} times right after its start; try again in {left:.0f} s")

    def ended(self, lived: float, *, has_failed: bool) -> None:
        """It ran this long, and ended by itself or because it was told to."""
        if not has_failed or lived >= SHORT_LIFE:
            self._crashes = 0
            return
        self._crashes += 1
        over = self._crashes - FREE_TRIES
        if over >= 0:
            self._not_before = self._clock() + min(2.0**over, LONGEST_PAUSE)
