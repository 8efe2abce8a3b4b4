"""Wait for the first of several events."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from duologue.runtime.tasks import TaskScope

END_SECONDS = 5.0

T = TypeVar("T")


async def first_event(wanted: Coroutine[Any, Any, T], other: Coroutine[Any, Any, object], seconds: float) -> T | None:
    """Return the result of one wait; None if the other one ends before, or the time is over."""
    scope = TaskScope()
    task = scope.start(wanted)
    try:
        await asyncio.wait((task, scope.start(other)), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await scope.cancel(END_SECONDS)
