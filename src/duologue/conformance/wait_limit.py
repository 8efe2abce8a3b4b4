"""How long a case waits for a peer: a limit that remembers whether a wait was cut off by it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

LONG_SECONDS = 3.0
"""A single wait that takes longer is no work of the checker: another case may start. No verdict depends on it."""
REPEATED_FACTOR = 3.0
"""Times the limit that a wait may take when a case is repeated: a busy machine may have caused the first end."""
REPEATED_LONG_SECONDS = 10.0
"""As `LONG_SECONDS`, for a case that is repeated: it has the machine for itself until it has waited that long."""


class WaitLimit:
    """The limit of each wait of one case.

    Args:
        seconds: The limit of a single wait.
        is_repeated: The case is repeated, and has more time for everything.

    Attributes:
        seconds: Seconds that a single wait may take.
        long_seconds: Seconds after which a wait lets another case start.
        is_exceeded: True if a wait took longer than its limit, so that what the case found may be due to that.
    """

    def __init__(self, seconds: float, *, is_repeated: bool = False) -> None:
        self._factor = REPEATED_FACTOR if is_repeated else 1.0
        self.seconds = seconds * self._factor
        self.long_seconds = min(REPEATED_LONG_SECONDS, seconds) if is_repeated else LONG_SECONDS
        self.is_exceeded = False

    def at_most(self, seconds: float) -> float:
        """Return the limit of a wait for something that usually takes less than the others."""
        return min(seconds * self._factor, self.seconds)

    @contextlib.asynccontextmanager
    async def bound(self, seconds: float | None = None) -> AsyncGenerator[None]:
        """Bound the wait of a block.

        Args:
            seconds: The limit of this wait, if it differs.

        Raises:
            TimeoutError: It took longer.
        """
        try:
            async with asyncio.timeout(self.seconds if seconds is None else seconds):
                yield
        except TimeoutError:
            self.is_exceeded = True
            raise
