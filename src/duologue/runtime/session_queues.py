"""Arrival order per session.

A queue holds the notifications of one session; they are handled one after the other, even when a handler waits. Queues
run in parallel. Between the notifications stand barriers: responses that must not be released before them.

Workers: one task drains all queues that are ready. When it waits inside a handler while another queue is ready, a spare
worker takes over; so a thousand quiet sessions cost one task, and a slow session delays no other session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from duologue.runtime.handlers import Context
from duologue.runtime.tasks import TaskScope, is_current

Handler = Callable[[Context, Any], Awaitable[None] | None]
Item = tuple[Handler | None, Any, Any, int]
"""(handler, context, params, size), or (None, release, argument, 0) for a barrier."""

_YIELD_EVERY = 256
"""Items handled in a row before the event loop runs other tasks, if no handler ever waits."""


class _SessionQueue:
    __slots__ = ("items", "key", "running", "worker")

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.items: deque[Item] = deque()
        self.worker: asyncio.Task[Any] | None = None
        self.running: Context | None = None


class SessionQueues:
    """The queues of all sessions of one connection.

    Args:
        tasks: Owns the worker tasks.
        on_error: Called with the method and the exception that left its handler; must not raise.
        on_progress: Called when an item was handled or a queue ran empty, while `reports_progress` is set.
    """

    def __init__(
        self, tasks: TaskScope, on_error: Callable[[str, BaseException], object], on_progress: Callable[[], None]
    ) -> None:
        self._tasks = tasks
        self._on_error = on_error
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._queues: dict[str | None, _SessionQueue] = {}
        self._ready: deque[_SessionQueue] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._starting = False
        self._is_check_scheduled = False
        self._is_closed = False
        self.queued_bytes = 0
        self.reports_progress = False

    def put(self, key: str | None, handler: Handler, context: Context, params: Any, size: int) -> None:
        """Append a notification to the queue of its session."""
        self.queued_bytes += size
        self.items_of(key).append((handler, context, params, size))

    def items_of(self, key: str | None) -> deque[Item]:
        """Return the items of a queue to append to at once, in the order of their arrival; count their bytes, too."""
        queue = self._queues.get(key)
        if queue is None:
            queue = self._open(key)
        return queue.items

    def put_barrier(self, key: str | None, release: Callable[[Any], None], argument: Any) -> None:
        """Call `release(argument)` once the backlog of this queue has been handled; there must be a backlog."""
        self._queues[key].items.append((None, release, argument, 0))

    @property
    def is_busy(self) -> bool:
        """Whether any item waits or is being handled."""
        return bool(self._queues)

    def close(self) -> None:
        """Drop all waiting items. A running handler may finish, and its worker ends after it."""
        self._is_closed = True
        self._ready.clear()
        for queue in self._queues.values():
            queue.items.clear()

    def has_backlog(self, key: str | None) -> bool:
        """Return True if an item of this queue waits or is being handled."""
        return key in self._queues

    def current_handler(self, key: str | None) -> str | None:
        """Return the method whose handler occupies this queue in the current task, if there is one."""
        queue = self._queues.get(key)
        if queue is None or queue.running is None or queue.worker is not asyncio.current_task():
            return None
        return queue.running.method

    def _open(self, key: str | None) -> _SessionQueue:
        queue = self._queues[key] = _SessionQueue(key)
        self._ready.append(queue)
        if self._idle is not None:
            if not self._idle.done():
                self._idle.set_result(None)
        elif not self._starting:
            self._start_worker()
        return queue

    # --- workers. Whenever a queue is ready, one of three things holds: a worker is about to run, the idle one has been
    # woken, or a check is scheduled for the next iteration of the loop.

    def _schedule_check(self) -> None:
        self._is_check_scheduled = True
        self._loop.call_soon(self._start_spare)

    def _start_spare(self) -> None:
        self._is_check_scheduled = False
        if self._ready and not self._starting and self._idle is None:
            self._start_worker()

    def _start_worker(self) -> None:
        self._starting = True
        self._tasks.start(self._work())

    async def _work(self) -> None:
        self._starting = False
        while True:
            while self._ready:
                queue = self._ready.popleft()
                if self._ready and not self._is_check_scheduled:
                    self._schedule_check()
                await self._drain(queue)
            if self._idle is not None or self._is_closed:
                return  # one parked worker is enough
            self._idle = self._loop.create_future()
            try:
                await self._idle
            finally:
                self._idle = None

    async def _drain(self, queue: _SessionQueue) -> None:
        queue.worker = asyncio.current_task()
        items = queue.items
        handled = 0
        try:
            while items:
                handler, context, params, size = items.popleft()
                if handler is None:
                    context(params)
                    continue
                queue.running = context
                try:
                    if (waiting := handler(context, params)) is not None:
                        await waiting
                except BaseException as error:
                    if (
                        isinstance(error, asyncio.CancelledError)
                        and queue.worker is not None
                        and queue.worker.cancelling()
                    ):
                        raise
                    if isinstance(error, GeneratorExit) and not is_current(queue.worker):
                        raise
                    self._on_error(context.method, error)
                self.queued_bytes -= size
                if self.reports_progress:
                    self._on_progress()
                handled += 1
                if handled == _YIELD_EVERY:
                    handled = 0
                    await asyncio.sleep(0)
        finally:
            del self._queues[queue.key]
            for handler, release, argument, _ in items:
                if handler is None:  # the notifications are lost with this worker, but no caller may wait forever
                    release(argument)
            if self.reports_progress:
                self._on_progress()
