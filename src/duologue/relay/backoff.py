"""Delay the next start of an agent that repeatedly fails right after its start."""

from __future__ import annotations

import time
from collections.abc import Callable

from duologue.errors import StartError

MIN_RUN_SECONDS = 10.0
"""An agent that fails sooner counts as one that failed to start."""

IMMEDIATE_RESTARTS = 3
"""Failures before there is a pause: an immediate second attempt may succeed."""

LONGEST_PAUSE = 60.0
"""Seconds; one start a minute is no load, and a user who repaired the agent does not wait longer."""


class RestartBackoff:
    """Count the recent failures of one command."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._crashes = 0
        self._not_before = 0.0

    def check(self) -> None:
        """Check that the agent may be started now.

        Raises:
            StartError: It may not be started yet.
        """
        left = self._not_before - self._clock()
        if left > 0:
            raise StartError(f"the agent failed {self._crashes} times right after its start; try again in {left:.0f} s")

    def ended(self, run_seconds: float, *, has_failed: bool) -> None:
        """Record that the agent ran for `run_seconds`; `has_failed` if it ended by itself."""
        if not has_failed or run_seconds >= MIN_RUN_SECONDS:
            self._crashes = 0
            return
        self._crashes += 1
        over = self._crashes - IMMEDIATE_RESTARTS
        if over >= 0:
            self._not_before = self._clock() + min(2.0**over, LONGEST_PAUSE)
