"""A clock for tests: timers of the event loop fire without waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Self

from duologue.errors import DuologueError

LIMIT_SECONDS = 24 * 3600.0
"""Virtual time that a test may take: the end of a test that only repeats a timer."""

CHECK_SECONDS = 0.05
"""Real time after which it is checked whether there is still something outside to wait for."""


class ClockStopped(DuologueError):
    """No time can pass on a virtual clock: every task waits for another, or the test takes too long."""


class VirtualClock:
    """Lets the time of an event loop pass without waiting: a timeout of 30 seconds takes none.

    Use it in a coroutine, `with VirtualClock() as clock:`, or take the fixture `virtual_time`. Timers fire in their
    order, each at its own time, so that runs are equal. While a thread of the loop's executor works, or a process or a
    socket is open that was not open before, time passes as usual: only what happens in memory can be waited for without
    waiting.

    If every task waits for another, so that nothing could ever happen, the block ends with `ClockStopped`.

    Args:
        limit: Virtual seconds after which the block ends with `ClockStopped`.
    """

    def __init__(self, limit: float = LIMIT_SECONDS) -> None:
        self._limit = limit
        self._started = self._now = 0.0
        self._threads = 0
        self._failure = ""

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the beginning of the block."""
        return self._now - self._started

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._loop: Any = loop
        self._task = asyncio.current_task()
        self._selector: Any = getattr(self._loop, "_selector", None)
        if self._selector is None:
            raise RuntimeError(f"a virtual clock needs an event loop of asyncio, not {type(self._loop).__name__}")
        self._descriptors = len(self._selector.get_map())
        self._started = self._now = self._loop.time()
        self._real_select: Callable[[float | None], list[Any]] = self._selector.select
        self._real_run_in_executor: Callable[..., asyncio.Future[Any]] = self._loop.run_in_executor
        replaced = {"time": lambda: self._now, "run_in_executor": self._run_in_executor}
        for name, function in replaced.items():
            setattr(loop, name, function)
        self._selector.select = self._select
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._selector.select
        del self._loop.run_in_executor
        offset = self._now - monotonic()
        self._loop.time = lambda: monotonic() + offset  # time never goes back
        if self._failure and isinstance(error, asyncio.CancelledError):
            if self._task is not None:
                self._task.uncancel()
            raise ClockStopped(self._failure) from None

    def _run_in_executor(self, executor: Any, function: Any, *arguments: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._real_run_in_executor(executor, function, *arguments)
        self._threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, future: asyncio.Future[Any]) -> None:
        self._threads -= 1

    def _select(self, timeout: float | None = None) -> list[Any]:
        """Wait as `select` does, but let time pass without waiting where only a timer can end the wait."""
        is_waiting_outside = self._is_waiting_outside()  # before `select`, which sees what it has done
        events = self._real_select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if is_waiting_outside:
            limit = CHECK_SECONDS if timeout is None else min(timeout, CHECK_SECONDS)
            began = monotonic()
            events = self._real_select(limit)
            self._now += min(monotonic() - began, limit) if events else limit
        elif timeout is None:
            self._stop("nothing is left that could happen: every task waits for another")
        else:
            self._now += timeout
            if self.elapsed > self._limit:
                self._stop(f"the test takes more than {self._limit:g} virtual seconds")
        return events

    def _is_waiting_outside(self) -> bool:
        """Return True if a thread, a process or a socket may end the wait."""
        if self._threads or len(self._selector.get_map()) > self._descriptors:
            return True
        return any("waitpid-" in thread.name for thread in threading.enumerate())  # asyncio's, one for each process

    def _stop(self, reason: str) -> None:
        """End the block; the second time, the loop: a task that was cancelled waits again."""
        if self._failure or self._task is None or self._task.done():
            raise ClockStopped(reason)
        self._failure = f"{reason} ({self.elapsed:g} virtual seconds after the start)"
        self._task.cancel()
