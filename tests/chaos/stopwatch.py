"""Time that the event loop had: time that the machine gave to other processes does not count."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

TICK = 0.01


class Stopwatch:
    """Measures a block; `seconds` leaves out the stretches in which our process did not get to run."""

    seconds: float

    async def __aenter__(self) -> Self:
        self._stolen = 0.0
        self._ticking = asyncio.get_running_loop().create_task(self._tick())
        self._began = time.monotonic()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticking.cancel()
        await asyncio.wait([self._ticking])
        self.seconds = time.monotonic() - self._began - self._stolen

    async def _tick(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(TICK)
            self._stolen += max(0.0, time.monotonic() - began - 2 * TICK)
