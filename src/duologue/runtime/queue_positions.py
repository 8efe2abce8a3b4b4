"""Places of requests among the notifications of their session.

Requests run in tasks of their own, and so overtake notifications that are still to be handled. A request whose method
is in `Handlers.places` takes a place on arrival: `await context.place` waits for the notifications before that place,
and for none behind it. The handler itself is called at once: the place delays only the code that awaits it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duologue.errors import RequestCancelled
from duologue.runtime.handlers import Context

__all__ = ["QueuePosition", "release_position"]


def release_position(context: Context, reason: str) -> None:
    """End the wait for a place that is not reached yet with `RequestCancelled`."""
    if context.place is not None and not context.place.done():
        _fail(context.place, RequestCancelled(reason))


class QueuePosition:
    """What stands in the lane for a request: it calls `at_place` and ends the wait with what that returned."""

    __slots__ = ("_at_place",)

    def __init__(self, at_place: Callable[[Context, Any], Any] | None) -> None:
        self._at_place = at_place

    async def __call__(self, context: Context, params: Any) -> None:
        place = context.place
        assert place is not None, "it was made when the place was taken"
        try:
            found = None if self._at_place is None else self._at_place(context, params)
        except Exception as error:
            _fail(place, error)
        else:
            if not place.done():
                place.set_result(found)
        await asyncio.sleep(0)  # what the handler does next comes before what is behind the place, too


def _fail(place: asyncio.Future[Any], error: Exception) -> None:
    if not place.done():
        place.set_exception(error)
        place.exception()  # a handler need not await its place, and then nothing is to be logged
