"""The table of handlers by method, and the context that a handler gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload
from weakref import WeakSet

from msgspec import Raw, Struct, UnsetType

from duologue.jsonrpc.messages import Id
from duologue.schema.base import Method, Notification
from duologue.schema.codec import check_readable

if TYPE_CHECKING:
    from duologue.runtime.connection import Connection

P = TypeVar("P")
R = TypeVar("R")


class Context(Struct):
    """The context of one request or notification, given to its handler.

    Attributes:
        connection: The connection it arrived on; call the peer through it.
        method: The method name on the wire.
        raw: The frame as received, including unknown fields.
        id: The peer's id of this request, `None` for a notification.
        position: For a method in `Handlers.positions`: await it to wait for the notifications of the session that
            arrived before this request. `None` if there are none.
        following: The actions to run after the response; `after_response` adds to them.
    """

    connection: Connection
    method: str
    raw: bytes
    id: Id | None = None
    position: asyncio.Future[Any] | None = None
    following: list[Callable[[], Awaitable[None]]] | None = None

    def after_response(self, action: Callable[[], Awaitable[None]]) -> None:
        """Run `action` after the response to this request has been written, and only if it is a result."""
        if self.following is None:
            self.following = []
        self.following.append(action)


RequestHandler: TypeAlias = Callable[[Context, P], Awaitable[R]]
NotificationHandler: TypeAlias = Callable[[Context, P], Awaitable[None] | None]
"""A coroutine function, or a plain function that returns what to await, or None."""
RawHandler: TypeAlias = Callable[[Context, Raw | UnsetType], Awaitable[Any]]
"""Gets the parameters undecoded; its result is written as it is."""
NotificationEntry: TypeAlias = tuple[Notification[Any], NotificationHandler[Any]]


class Handlers:
    """The table of handlers: coroutine functions by method name; a notification may have a plain function.

    Attributes:
        requests: The registered requests by name; change them with `on` and `off`.
        notifications: The registered notifications by name; change them with `on` and `off`.
        positions: Methods of requests that get a position among the notifications of their session, with an optional
            plain function that is called at that position; `await context.position` returns its value.
        prepare: Called with the parameters of the first request before its handler is looked up, to register the
            handlers that follow from it. Returns the parameters to continue with, or raises a `RequestError`.
        version: Number of changes made by `on` and `off`.
    """

    def __init__(self) -> None:
        self.requests: dict[str, tuple[Method[Any, Any], RequestHandler[Any, Any]]] = {}
        self.notifications: dict[str, NotificationEntry] = {}
        self.positions: dict[str, Callable[[Context, Any], Any] | None] = {}
        self.version = 0
        self.prepare: Callable[[Raw | UnsetType], Raw | UnsetType] | None = None
        self._other_requests: RawHandler | None = None
        self._other_notifications: RawHandler | None = None
        self._copies: WeakSet[Handlers] = WeakSet()

    @property
    def other_requests(self) -> RawHandler | None:
        """Handler of every request without a handler of its own (for relays and custom methods)."""
        return self._other_requests

    @other_requests.setter
    def other_requests(self, handler: RawHandler | None) -> None:
        for table in self._with_copies():
            table._other_requests = handler

    @property
    def other_notifications(self) -> RawHandler | None:
        """Handler of every notification without a handler of its own."""
        return self._other_notifications

    @other_notifications.setter
    def other_notifications(self, handler: RawHandler | None) -> None:
        for table in self._with_copies():
            table._other_notifications = handler

    @overload
    def on(self, method: Method[P, R]) -> Callable[[RequestHandler[P, R]], RequestHandler[P, R]]: ...
    @overload
    def on(self, method: Notification[P]) -> Callable[[NotificationHandler[P]], NotificationHandler[P]]: ...
    def on(self, method: Method[P, R] | Notification[P]) -> Callable[[Any], Any]:
        """Register the decorated function; a second one for the same method replaces the first.

        Raises:
            TypeError: JSON cannot be read as the type of the parameters.
        """
        check_readable(method.params)

        def register(handler: Any) -> Any:
            for table in self._with_copies():
                if isinstance(method, Method):
                    table.requests[method.name] = (method, handler)
                else:
                    table.notifications[method.name] = (method, handler)
                table.version += 1
            return handler

        return register

    def off(self, method: Method[Any, Any] | Notification[Any]) -> None:
        """Remove a method from the table; from now on it is unknown to the peer."""
        for table in self._with_copies():
            entries = table.requests if isinstance(method, Method) else table.notifications
            entries.pop(method.name, None)
            table.positions.pop(method.name, None)
            table.version += 1

    def copy(self) -> Handlers:
        """Make another table with the same entries.

        What is registered in this table later is added to the copy too; what is registered in the copy stays there.
        """
        copy = Handlers()
        copy.requests |= self.requests
        copy.notifications |= self.notifications
        copy.positions |= self.positions
        copy.prepare = self.prepare
        copy._other_requests, copy._other_notifications = self._other_requests, self._other_notifications
        self._copies.add(copy)
        return copy

    def _with_copies(self) -> Iterator[Handlers]:
        yield self
        for copy in self._copies:
            yield from copy._with_copies()
