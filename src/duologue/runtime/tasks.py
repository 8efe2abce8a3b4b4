"""The tasks of one connection, and their end.

Not an `asyncio.TaskGroup`: that waits forever for a child that ignores its cancellation, and one stuck handler must not
block a connection. Here every wait has a timeout, and a task that did not stop is named in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

_log = logging.getLogger("duologue.runtime")

T = TypeVar("T")

SWEEP_AT = 64
"""Tasks, including finished ones, that are kept before finished ones are removed."""


class TaskScope:
    """Owner of tasks: keeps them from being garbage-collected, and ends them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweep_at = SWEEP_AT
        loop = asyncio.get_running_loop()
        # Without a factory, `create_task` only calls `Task`: one call less for each request.
        self._create: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]] = (
            loop.create_task if loop.get_task_factory() else partial(asyncio.Task, loop=loop)
        )

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` in a task of its own. It must handle its own exceptions."""
        task = self._create(work)
        self._tasks.add(task)
        if len(self._tasks) > self._sweep_at:
            self._sweep()
        return task

    def _sweep(self) -> None:
        """Forget finished tasks; a done callback on each would cost an iteration of the event loop."""
        self._tasks = {task for task in self._tasks if not task.done()}
        self._sweep_at = max(SWEEP_AT, 2 * len(self._tasks))

    async def settle(self) -> None:
        """Wait until all tasks have ended without being cancelled."""
        while tasks := self._others():
            await asyncio.wait(tasks)

    async def cancel(self, seconds: float) -> None:
        """Cancel the running tasks and wait for them; abandon and log a task that ignores its cancellation."""
        tasks = self._others()
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=seconds)
            for task in stuck:
                _log.error("abandoned after %.0f s a task that ignores cancellation: %s", seconds, task.get_coro())

    def _others(self) -> set[asyncio.Task[Any]]:
        self._sweep()
        return self._tasks - {asyncio.current_task()}  # a task of this scope may close it


def is_current(task: asyncio.Task[Any] | None) -> bool:
    """Return True if the calling code runs in this task.

    A coroutine that is closed from outside (its event loop is gone) gets the same `GeneratorExit` that a handler could
    raise by itself; in the first case its task is not the current one.
    """
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:  # no event loop runs
        return False
