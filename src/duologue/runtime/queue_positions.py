"""Positions of requests among the notifications of their session.

Requests run in tasks of their own, so they overtake notifications that are not handled yet. A request whose method is
in `Handlers.positions` gets a position in the queue of its session when it arrives: `await context.position` waits for
the notifications before that position, and for none behind it. The handler is called at once: only the code that awaits
the position is delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duologue.errors import RequestCancelled
from duologue.runtime.handlers import Context


def release_position(context: Context, reason: str) -> None:
    """End the wait for a position that is not reached yet with `RequestCancelled`."""
    if context.position is not None and not context.position.done():
        _fail(context.position, RequestCancelled(reason))


class QueuePosition:
    """Queue item of a request: calls `at_position` and ends the wait with the value it returned."""

    __slots__ = ("_at_position",)

    def __init__(self, at_position: Callable[[Context, Any], Any] | None) -> None:
        self._at_position = at_position

    async def __call__(self, context: Context, params: Any) -> None:
        position = context.position
        assert position is not None, "set when the request was queued"
        try:
            found = None if self._at_position is None else self._at_position(context, params)
        except Exception as error:
            _fail(position, error)
        else:
            if not position.done():
                position.set_result(found)
        await asyncio.sleep(0)  # let the handler continue before the notifications behind the position are handled


def _fail(position: asyncio.Future[Any], error: Exception) -> None:
    if not position.done():
        position.set_exception(error)
        position.exception()  # a handler need not await its position: asyncio must not log the error as unretrieved
