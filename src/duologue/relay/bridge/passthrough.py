"""What the two ends attach for each other, and what they say in methods of their own, passes as it is."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from msgspec import Raw, UnsetType

from duologue.errors import ConnectionLost, InternalError, MethodNotFound
from duologue.protocol.meta import attach_meta, current_request
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Notification

__all__ = ["is_carrying", "pass_extensions", "passing_on"]


def is_carrying() -> bool:
    """Whether anything came with the message that led here, or may go with its answer."""
    try:
        current_request()
    except LookupError:
        return False
    return True


@contextmanager
def passing_on() -> Generator[None]:
    """What came with the message that led here goes with those sent in the block; what comes back, with the answer."""
    if not is_carrying():
        yield
        return
    request = current_request()
    with attach_meta(request.received or {}) as attached:
        yield
    if attached.received:
        request.answer.update(attached.received)


def pass_extensions(handlers: Handlers, other: Callable[[], Connection | None]) -> None:
    """Let the other end answer every custom method (`_…`), and hear every custom notification."""

    async def ask(context: Context, params: Raw | UnsetType) -> Any:
        there = other()
        if not context.method.startswith("_") or there is None:
            raise MethodNotFound(f"no such method: {context.method}", data={"method": context.method})
        if context.position is not None:
            await context.position
        method: Method[Any, Raw] = Method(context.method, object, Raw)
        try:
            return await there.request(method, params)
        except ConnectionLost as lost:
            raise InternalError(f"the other end is gone: {lost}") from lost

    async def tell(context: Context, params: Raw | UnsetType) -> None:
        there = other()
        if context.method.startswith("_") and there is not None and not there.is_closed:
            notification: Notification[Any] = Notification(context.method, object)
            await there.notify(notification, params)

    handlers.other_requests = ask
    handlers.other_notifications = tell
