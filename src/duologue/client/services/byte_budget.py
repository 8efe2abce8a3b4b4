"""A limit for the bytes that are on their way to an agent, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Text of files whose responses have not been sent yet: the largest file that may be read, or many small ones."""


class ByteBudget:
    """Limit of the bytes that the responses of one connection hold together.

    Args:
        limit: Bytes. A larger response waits until there is no other one.
    """

    def __init__(self, limit: int = MAX_ANSWER_BYTES) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, size: int) -> None:
        """Wait until there is capacity for these bytes; they count until the current task ends.

        The task of a request ends when its response was passed to the transport.
        """
        if self._waiting or not self._has_capacity(size):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release(size)
                raise
        else:
            self._used += size
        task = asyncio.current_task()
        assert task is not None, "a coroutine that awaits runs in a task"
        task.add_done_callback(lambda _: self._release(size))

    def _has_capacity(self, size: int) -> bool:
        return not self._used or self._used + size <= self._limit

    def _release(self, size: int) -> None:
        self._used -= size
        while self._waiting and (self._waiting[0][1].done() or self._has_capacity(self._waiting[0][0])):
            waiting_size, turn = self._waiting.popleft()
            if not turn.done():
                self._used += waiting_size
                turn.set_result(None)


async def in_own_thread(work: Callable[[], T]) -> T:
    """Run a function that needs much memory in a thread that ends with it: a pool thread keeps freed memory."""
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="duologue-large")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    finally:
        executor.shutdown(wait=False)
