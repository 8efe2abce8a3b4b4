"""Waking up who waits. An `asyncio.Event` holds a queue for those who might, which thousands of connections feel."""

from __future__ import annotations

import asyncio

__all__ = ["Wakeup"]


class Wakeup:
    """Wakes whoever waits at this moment; it is not remembered, so look before you wait."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] | None = None

    def set(self) -> None:
        """Wake who waits, if somebody does."""
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Until the next signal."""
        waiter = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = [waiter]
        else:
            self._waiters.append(waiter)
        await waiter
