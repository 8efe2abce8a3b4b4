"""Arrival order per session.

A lane holds what arrived for one session; its items are handled one after the other, even when a handler waits.
Lanes run in parallel. Between the notifications stand answers that must not be released before them.

Workers: one task drains all lanes that are ready. When it is found waiting inside a handler while another lane is
ready, a spare takes over; so a thousand quiet sessions cost one task, and a slow session delays nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from duologue.runtime.handlers import Context
from duologue.runtime.tasks import TaskScope, is_current

__all__ = ["SessionQueues"]

Handler = Callable[[Context, Any], Awaitable[None]]
Item = tuple[Handler | None, Any, Any, int]
"""(handler, context, params, size), or (None, release, argument, 0) for an answer that waits its turn."""

_YIELD_EVERY = 256
"""Items handled without a break before the event loop gets a turn, should no handler ever wait."""


class _SessionQueue:
    __slots__ = ("items", "key", "running", "worker")

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.items: deque[Item] = deque()
        self.worker: asyncio.Task[Any] | None = None
        self.running: Context | None = None


class SessionQueues:
    """All the lanes of one connection.

    Args:
        tasks: Where the workers live.
        on_error: Told of the method and the exception that left its handler; it must not raise.
        on_progress: Called when an item was handled or a lane ran empty while somebody waits for room.
    """

    def __init__(
        self, tasks: TaskScope, on_error: Callable[[str, BaseException], object], on_progress: Callable[[], None]
    ) -> None:
        self._tasks = tasks
        self._on_error = on_error
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[str | None, _SessionQueue] = {}
        self._ready: deque[_SessionQueue] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._starting = False
        self._watching = False
        self._is_closed = False
        self.queued_bytes = 0
        self.reports_progress = False

    def put(self, key: str | None, handler: Handler, context: Context, params: Any, size: int) -> None:
        """Queue a notification behind everything that came before it in its lane."""
        self.queued_bytes += size
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._open(key)
        lane.items.append((handler, context, params, size))

    def put_barrier(self, key: str | None, release: Callable[[Any], None], argument: Any) -> None:
        """Call `release(argument)` once the backlog of this lane was handled; there must be one."""
        self._lanes[key].items.append((None, release, argument, 0))

    @property
    def is_busy(self) -> bool:
        """Whether anything is still to be handled, or being handled."""
        return bool(self._lanes)

    def close(self) -> None:
        """Forget what waits. A handler that runs may still end, and its worker with it."""
        self._is_closed = True
        self._ready.clear()
        for lane in self._lanes.values():
            lane.items.clear()

    def has_backlog(self, key: str | None) -> bool:
        """Whether something of this lane is still to be handled, or being handled."""
        return key in self._lanes

    def current_handler(self, key: str | None) -> str | None:
        """The method whose handler is the current task and occupies this very lane, if that is so."""
        lane = self._lanes.get(key)
        if lane is None or lane.running is None or lane.worker is not asyncio.current_task():
            return None
        return lane.running.method

    def _open(self, key: str | None) -> _SessionQueue:
        lane = self._lanes[key] = _SessionQueue(key)
        self._ready.append(lane)
        if self._idle is not None:
            if not self._idle.done():
                self._idle.set_result(None)
        elif not self._starting:
            self._start_worker()
        return lane

    # --- workers. Whenever a lane is ready, one of three things holds: a worker is about to run, the idle one has been
    # woken, or a watch is scheduled for the next turn of the loop.

    def _watch(self) -> None:
        self._watching = True
        self._loop.call_soon(self._start_spare)

    def _start_spare(self) -> None:
        self._watching = False
        if self._ready and not self._starting and self._idle is None:
            self._start_worker()

    def _start_worker(self) -> None:
        self._starting = True
        self._tasks.start(self._work())

    async def _work(self) -> None:
        self._starting = False
        while True:
            while self._ready:
                lane = self._ready.popleft()
                if self._ready and not self._watching:
                    self._watch()
                await self._drain(lane)
            if self._idle is not None or self._is_closed:
                return  # one parked worker is enough
            self._idle = self._loop.create_future()
            try:
                await self._idle
            finally:
                self._idle = None

    async def _drain(self, lane: _SessionQueue) -> None:
        lane.worker = asyncio.current_task()
        items = lane.items
        handled = 0
        try:
            while items:
                handler, context, params, size = items.popleft()
                if handler is None:
                    context(params)
                    continue
                lane.running = context
                try:
                    await handler(context, params)
                except BaseException as error:
                    if (
                        isinstance(error, asyncio.CancelledError)
                        and lane.worker is not None
                        and lane.worker.cancelling()
                    ):
                        raise
                    if isinstance(error, GeneratorExit) and not is_current(lane.worker):
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
            del self._lanes[lane.key]
            for handler, release, argument, _ in items:
                if handler is None:  # its notifications are lost with this worker, but nobody may wait for ever
                    release(argument)
            if self.reports_progress:
                self._on_progress()
