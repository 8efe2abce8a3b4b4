"""Bound how many cases run at the same time; a case that waits for long lets another one start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

MOST_WAITING = 4
"""Cases that may wait without a slot, for each slot after the first: with one slot, cases run one after the other."""


class CaseSlots:
    """The slots of a check.

    Args:
        count: Cases that may work at the same time.
        most_waiting: Cases that may wait without a slot; by default `MOST_WAITING` for each slot after the first.
    """

    def __init__(self, count: int, most_waiting: int | None = None) -> None:
        self._free = asyncio.Semaphore(count)
        self._may_wait = MOST_WAITING * (count - 1) if most_waiting is None else most_waiting

    @contextlib.asynccontextmanager
    async def take(self) -> AsyncGenerator[CaseSlot]:
        """Wait for a slot and hold it for a block."""
        await self._free.acquire()
        slot = CaseSlot(self)
        try:
            yield slot
        finally:
            if slot.is_held:
                self._free.release()
            else:
                self._may_wait += 1

    def let_another_start(self) -> bool:
        """Let another case start; return False if too many wait already."""
        if not self._may_wait:
            return False
        self._may_wait -= 1
        self._free.release()
        return True


class CaseSlot:
    """The slot of one case.

    Args:
        slots: The slots of the check.

    Attributes:
        is_held: False once the case has released it.
    """

    def __init__(self, slots: CaseSlots) -> None:
        self.is_held = True
        self._slots = slots

    def release(self) -> None:
        """Let another case start, because this one only waits."""
        if self.is_held:
            self.is_held = not self._slots.let_another_start()
