"""Wait for the first of several events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from duologue.conformance.wait_limit import WaitLimit
from duologue.runtime.tasks import TaskScope

END_SECONDS = 5.0

T = TypeVar("T")


async def first_event(
    wanted: Coroutine[Any, Any, T], other: Coroutine[Any, Any, object], limit: WaitLimit, seconds: float | None = None
) -> T | None:
    """Return the result of one wait; None if the other one ends before, or the time is over."""
    scope = TaskScope()
    task = scope.start(wanted)
    try:
        with contextlib.suppress(TimeoutError):
            async with limit.bound(seconds):
                await asyncio.wait((task, scope.start(other)), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await scope.cancel(END_SECONDS)
