"""An event loop on a thread of its own, for those who have none or whose own is busy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from duologue.client.calling_task import calling_thread
from duologue.errors import ConnectionLost

__all__ = ["LoopThread", "wait_for"]

T = TypeVar("T")

INTERRUPT_CHECK_SECONDS = 0.5
"""How long a wait may miss a Ctrl-C: Python runs its handler between two instructions, and a wait is one of them."""


def wait_for(future: Future[T]) -> T:
    """Return the result of what runs in another thread.

    A wait without a limit would last for ever if a Ctrl-C came just before it: the system interrupts only waits that
    have begun.
    """
    while not future.done():
        with suppress(TimeoutError, CancelledError):
            future.exception(INTERRUPT_CHECK_SECONDS)
    return future.result()


class LoopThread:
    """The loop, and a way to wait for what runs there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="duologue", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin this there.

        Raises:
            ConnectionLost: It has ended.
        """
        if self._loop.is_closed():
            work.close()
            raise ConnectionLost("the connection is closed")
        token = calling_thread.set(threading.current_thread())
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        finally:
            calling_thread.reset(token)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; interrupting the wait cancels it."""
        future = self.start(work)
        try:
            return wait_for(future)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Have it called there, soon."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """End the loop and the thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self.call(self._loop.stop)
        self._thread.join()
        self._loop.close()
