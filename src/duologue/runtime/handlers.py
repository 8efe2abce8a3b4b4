"""Which coroutine handles which method, and what it is told about the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from msgspec import Raw, Struct, UnsetType

from duologue.jsonrpc.messages import Id
from duologue.schema.base import Method, Notification

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
    """

    connection: Connection
    method: str
    raw: bytes
    id: Id | None = None
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
    """A table from method to coroutine function. Dispatch looks here and nowhere else."""

    def __init__(self) -> None:
        self.requests: dict[str, tuple[Method[Any, Any], RequestHandler[Any, Any]]] = {}
        self.notifications: dict[str, NotificationEntry] = {}
        self.prepare: Callable[[Raw | UnsetType], Raw | UnsetType] | None = None
        """Sees the parameters of the request that must come first, before its handler is looked for: the moment to
        register the handlers that follow from it. Gives the parameters to go on with, or raises a `RequestError`."""
        self.other_requests: RawHandler | None = None
        """Takes every request that has no handler of its own (relays; custom methods not known in advance)."""
        self.other_notifications: RawHandler | None = None
        """Takes every notification that has no handler of its own."""

    @overload
    def on(self, method: Method[P, R]) -> Callable[[RequestHandler[P, R]], RequestHandler[P, R]]: ...
    @overload
    def on(self, method: Notification[P]) -> Callable[[NotificationHandler[P]], NotificationHandler[P]]: ...
    def on(self, method: Method[P, R] | Notification[P]) -> Callable[[Any], Any]:
        """Register the decorated coroutine function; a second one for the same method replaces the first."""

        def register(handler: Any) -> Any:
            if isinstance(method, Method):
                self.requests[method.name] = (method, handler)
            else:
                self.notifications[method.name] = (method, handler)
            return handler

        return register

    def off(self, method: Method[Any, Any] | Notification[Any]) -> None:
        """Take a method out of the table; from now on nobody here handles it."""
        table = self.requests if isinstance(method, Method) else self.notifications
        table.pop(method.name, None)
