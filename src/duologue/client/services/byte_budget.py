"""Bytes that may be on their way to an agent at once, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["MAX_ANSWER_BYTES", "ByteBudget", "in_own_thread"]

T = TypeVar("T")

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Text of files whose answers have not been sent yet: the largest file that may be read, or many small ones."""


class ByteBudget:
    """What the answers of one connection may hold together.

    Args:
        limit: Bytes. One that is larger by itself waits until there is no other.
    """

    def __init__(self, limit: int = MAX_ANSWER_BYTES) -> None:
        self._limit = limit
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, size: int) -> None:
        """Wait until there is room for so many bytes; they count until the current task ends.

        The task of a request ends when its answer has been taken by the peer.
        """
        if self._waiting or not self._has_room(size):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release(size)
                raise
        else:
            self._held += size
        task = asyncio.current_task()
        assert task is not None, "a coroutine that awaits runs in a task"
        task.add_done_callback(lambda _: self._release(size))

    def _has_room(self, size: int) -> bool:
        return not self._held or self._held + size <= self._limit

    def _release(self, size: int) -> None:
        self._held -= size
        while self._waiting and (self._waiting[0][1].done() or self._has_room(self._waiting[0][0])):
            waits_for, turn = self._waiting.popleft()
            if not turn.done():
                self._held += waits_for
                turn.set_result(None)


async def in_own_thread(work: Callable[[], T]) -> T:
    """Do what takes much memory in a thread that ends with it: one that lives on keeps some of what it freed."""
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="duologue-large")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    finally:
        executor.shutdown(wait=False)
