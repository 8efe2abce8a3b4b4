"""Which coroutine handles which method, and what it is told about the call."""

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

__all__ = ["Context", "Handlers", "NotificationEntry", "NotificationHandler", "RawHandler"]

P = TypeVar("P")
R = TypeVar("R")


class Context(Struct, gc=False):
    """One call as its handler sees it.

    Attributes:
        connection: Where it came from; call the peer through it.
        method: The name on the wire.
        raw: The frame as received, unknown fields and all.
        id: The peer's id of this request, `None` for a notification.
        place: Of a request that takes a place among the notifications of its session (`Handlers.places`): awaiting it
            waits for those that arrived before it. `None` if there is nothing to wait for.
    """

    connection: Connection
    method: str
    raw: bytes
    id: Id | None = None
    place: asyncio.Future[Any] | None = None
    _after: list[Callable[[], Awaitable[None]]] | None = None

    def after_response(self, action: Callable[[], Awaitable[None]]) -> None:
        """Run `action` once the answer to this request has been written, and only if it is a result."""
        if self._after is None:
            self._after = []
        self._after.append(action)

    def take_after_response(self) -> list[Callable[[], Awaitable[None]]]:
        """What is to follow the answer, for the one who writes it."""
        actions, self._after = self._after or [], None
        return actions


RequestHandler: TypeAlias = Callable[[Context, P], Awaitable[R]]
NotificationHandler: TypeAlias = Callable[[Context, P], Awaitable[None]]
RawHandler: TypeAlias = Callable[[Context, Raw | UnsetType], Awaitable[Any]]
"""Takes the parameters as they came; what it returns is written as it is."""
NotificationEntry: TypeAlias = tuple[Notification[Any], NotificationHandler[Any]]


class Handlers:
    """A table from method to coroutine function. Dispatch looks here and nowhere else.

    Attributes:
        requests, notifications: What was registered, by name; use `on` and `off` to change them.
        prepare: Sees the parameters of the request that must come first, before its handler is looked for: the moment
            to register the handlers that follow from it. Gives the parameters to go on with, or raises a
            `RequestError`.
    """

    def __init__(self) -> None:
        self.requests: dict[str, tuple[Method[Any, Any], RequestHandler[Any, Any]]] = {}
        self.notifications: dict[str, NotificationEntry] = {}
        self.places: dict[str, Callable[[Context, Any], Any] | None] = {}
        """Requests that take a place among the notifications of their session, by method. What is given is a plain
        function: it is called in that place, and `await context.place` returns what it returned."""
        self.prepare: Callable[[Raw | UnsetType], Raw | UnsetType] | None = None
        self._other_requests: RawHandler | None = None
        self._other_notifications: RawHandler | None = None
        self._copies: WeakSet[Handlers] = WeakSet()

    @property
    def other_requests(self) -> RawHandler | None:
        """Handles every request that has no handler of its own (relays; custom methods not known in advance)."""
        return self._other_requests

    @other_requests.setter
    def other_requests(self, handler: RawHandler | None) -> None:
        for table in self._with_copies():
            table._other_requests = handler

    @property
    def other_notifications(self) -> RawHandler | None:
        """Handles every notification that has no handler of its own."""
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
        """Register the decorated coroutine function; a second one for the same method replaces the first.

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
            return handler

        return register

    def off(self, method: Method[Any, Any] | Notification[Any]) -> None:
        """Remove a method from the table: it is unknown here from now on."""
        for table in self._with_copies():
            entries = table.requests if isinstance(method, Method) else table.notifications
            entries.pop(method.name, None)
            table.places.pop(method.name, None)

    def copy(self) -> Handlers:
        """Make another table with the same entries.

        What is registered in this table later counts in the copy too; what is registered in the copy counts only there.
        """
        copy = Handlers()
        copy.requests |= self.requests
        copy.notifications |= self.notifications
        copy.places |= self.places
        copy.prepare = self.prepare
        copy._other_requests, copy._other_notifications = self._other_requests, self._other_notifications
        self._copies.add(copy)
        return copy

    def _with_copies(self) -> Iterator[Handlers]:
        yield self
        for copy in self._copies:
            yield from copy._with_copies()
