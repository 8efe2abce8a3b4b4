"""Pass `_meta` and custom methods between the two ends unchanged."""

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


def has_meta() -> bool:
    """Return whether a request is being handled, whose `_meta` can be passed on."""
    try:
        current_request()
    except LookupError:
        return False
    return True


@contextmanager
def forwarded_meta() -> Generator[None]:
    """Send the `_meta` of the current request with messages of the block, and that of their responses back."""
    if not has_meta():
        yield
        return
    request = current_request()
    with attach_meta(request.received or {}) as attached:
        yield
    if attached.received:
        request.answer.update(attached.received)


def pass_extensions(handlers: Handlers, other: Callable[[], Connection | None]) -> None:
    """Pass every custom request and notification (`_…`) to the other end."""

    async def ask(context: Context, params: Raw | UnsetType) -> Any:
        connection = other()
        if not context.method.startswith("_") or connection is None:
            raise MethodNotFound(f"no such method: {context.method}", data={"method": context.method})
        if context.position is not None:
            await context.position
        method: Method[Any, Raw] = Method(context.method, object, Raw)
        try:
            return await connection.request(method, params)
        except ConnectionLost as lost:
            raise InternalError(f"the other end is gone: {lost}") from lost

    async def notify(context: Context, params: Raw | UnsetType) -> None:
        connection = other()
        if context.method.startswith("_") and connection is not None and not connection.is_closed:
            notification: Notification[Any] = Notification(context.method, object)
            await connection.notify(notification, params)

    handlers.other_requests = ask
    handlers.other_notifications = notify
