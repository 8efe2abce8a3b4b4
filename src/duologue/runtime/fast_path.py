"""Notifications read in one pass over their bytes, envelope and parameters together.

Most of what a client ever reads is `session/update`, and two passes over it are what reading costs most. This way is
for what is plainly right. Whatever else comes (a request, a method nobody handles, a value that needs forgiveness) is
left to the long way, which gives it the same meaning or the error it deserves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Union

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.jsonrpc.peer import CANCEL_METHOD
from duologue.runtime.handlers import Handlers, NotificationEntry
from duologue.schema.codec import strict_decoder_for

__all__ = ["LONG_BYTES", "PLAIN_NOTIFICATION", "NotificationFastPath"]

PLAIN_NOTIFICATION = b'{"jsonrpc":"2.0","method":"'
"""How every library in use begins a notification; another order of members goes the long way."""

LONG_BYTES = 64 * 1024
"""Beyond this memory counts for more than time: the long way checks a frame before it reads it."""


class NotificationFastPath:
    """Reads the notifications that have a handler.

    Attributes:
        decode: From a frame to an object with `method`, `params`, the `entry` in the table of handlers and the `id`,
            which a notification has not. It raises for whatever is not plainly right. What it cannot see, whoever uses
            it has to ask: `jsonrpc.codec.is_sound`.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._seen: dict[str, NotificationEntry] = {}
        self.decode: Callable[[bytes], Any] = _know_nothing

    def refresh(self) -> None:
        """A notification with a handler came the long way: perhaps the table has changed."""
        table = self._handlers.notifications
        if table == self._seen:
            return
        self._seen = dict(table)
        shapes = [_whole(name, entry) for name, entry in table.items() if _is_suitable(name, entry[0].params)]
        try:
            self.decode = strict_decoder_for(Union[tuple(shapes)]) if shapes else _know_nothing  # noqa: UP007  # a list
        except TypeError:  # a type that msgspec alone cannot read
            self.decode = _know_nothing


def _know_nothing(frame: bytes) -> Any:
    raise LookupError


def _is_suitable(name: str, kind: Any) -> bool:
    """Objects only, because null reads as an empty one the long way; and not what the peer keeps for itself."""
    return isinstance(kind, type) and issubclass(kind, Struct) and name != CANCEL_METHOD


def _whole(name: str, entry: NotificationEntry) -> Any:
    """The shape of a whole message."""
    return msgspec.defstruct(
        "Whole",
        [("jsonrpc", Literal["2.0"]), ("params", entry[0].params), ("id", Raw | UnsetType, UNSET)],
        namespace={"method": name, "entry": entry},
        tag_field="method",
        tag=name,
        gc=False,
    )
