"""The caller of the API: the current task, or for the blocking API the calling thread."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any, TypeAlias

CallingTask: TypeAlias = "asyncio.Task[Any] | threading.Thread | None"

calling_thread: ContextVar[threading.Thread | None] = ContextVar("calling_thread", default=None)
"""The thread that waits for a coroutine, if that is not the thread of its event loop."""


def current_calling_task() -> CallingTask:
    """Return the thread that waits for this code, or else the task that runs it."""
    return calling_thread.get() or asyncio.current_task()


def has_ended(caller: CallingTask) -> bool:
    """Return True if the task or thread has ended."""
    if isinstance(caller, threading.Thread):
        return not caller.is_alive()
    return caller is None or caller.done()
