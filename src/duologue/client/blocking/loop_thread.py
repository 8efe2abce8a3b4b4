"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from duologue.client.calling_task import calling_thread
from duologue.errors import ConnectionLost

T = TypeVar("T")

INTERRUPT_CHECK_SECONDS = 0.5
"""Longest time until a wait notices a Ctrl-C: Python runs its handler between two instructions, and a wait is one."""


def wait_for(future: Future[T]) -> T:
    """Wait for the result of another thread.

    The wait is split into short ones because a Ctrl-C that arrives just before a wait does not interrupt it.
    """
    while not future.done():
        with suppress(TimeoutError, CancelledError):
            future.exception(INTERRUPT_CHECK_SECONDS)
    return future.result()


class LoopThread:
    """An event loop that runs in a thread until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="duologue", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the event loop.

        Raises:
            ConnectionLost: The event loop is closed.
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
        """Run a coroutine in the event loop and return its result; an interrupted wait cancels it."""
        future = self.start(work)
        try:
            return wait_for(future)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the thread of the event loop, without waiting."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Stop the event loop and its thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self.call(self._loop.stop)
        self._thread.join()
        self._loop.close()
