"""The tasks of one connection, and their end.

Not an `asyncio.TaskGroup`: that waits for ever for a child that ignores its cancellation, and one stuck handler must
never wedge a connection. Here every wait has an end, and what did not stop is named in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["TaskScope", "is_current"]

_log = logging.getLogger("duologue.runtime")

T = TypeVar("T")

SWEEP_AT = 64
"""Tasks, ended ones among them, that are kept before anybody looks."""


class TaskScope:
    """Owns tasks: it keeps them from being collected, and ends them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweep_at = SWEEP_AT
        self._loop = asyncio.get_running_loop()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` beside everything else. It must deal with its own exceptions."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        if len(self._tasks) > self._sweep_at:
            self._sweep()
        return task

    def _sweep(self) -> None:
        """Forget those that have ended; a callback of each would cost a turn of the event loop."""
        self._tasks = {task for task in self._tasks if not task.done()}
        self._sweep_at = max(SWEEP_AT, 2 * len(self._tasks))

    async def settle(self) -> None:
        """Wait until the tasks have ended by themselves."""
        while tasks := self._others():
            await asyncio.wait(tasks)

    async def cancel(self, seconds: float) -> None:
        """Cancel what still runs and wait for it; whatever ignores that is abandoned and reported."""
        tasks = self._others()
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=seconds)
            for task in stuck:
                _log.error("abandoned after %.0f s: it ignores cancellation: %s", seconds, task.get_coro())

    def _others(self) -> set[asyncio.Task[Any]]:
        self._sweep()
        return self._tasks - {asyncio.current_task()}  # one of ours may close us


def is_current(task: asyncio.Task[Any] | None) -> bool:
    """Whether the code that asks runs in this task.

    A coroutine that is closed from outside (its event loop is gone) gets the same `GeneratorExit` that a handler could
    raise by itself; in the first case its task is not the one that runs.
    """
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:  # no event loop runs
        return False
