"""Decoding of notifications in one pass, envelope and parameters together.

Most of what a client reads is `session/update`, and decoding it in two passes is the largest cost of reading. The fast
path accepts only valid notifications that have a handler. Everything else (a request, a method without a handler, a
value that needs lenient decoding) is left to the general path, which handles it the same way or reports the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Union, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.jsonrpc.peer import CANCEL_METHOD
from duologue.runtime.handlers import Handlers
from duologue.schema.base import Notification
from duologue.schema.codec import strict_decoder_for

LONG_BYTES = 64 * 1024
"""Frames longer than this take the general path, which checks the memory a frame takes before it decodes it."""


class NotificationFastPath:
    """Decoder of the notifications that have a handler.

    Attributes:
        decode: Decodes a frame to an object with `method`, `params`, and the `id`, which is unset in a notification.
            Raises for anything else. The caller must check what it does not: `jsonrpc.codec.is_well_formed`.
        version: The version of the table of handlers that `decode` was built for.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self.version = 0
        self.decode: Callable[[bytes], Any] = _decode_nothing

    def refresh(self) -> None:
        """Build the decoder for the table of handlers as it is now."""
        self.version = self._handlers.version
        table = [each for each, _ in self._handlers.notifications.values() if _is_suitable(each)]
        shapes = [_message_struct(each.name, cast("Any", each.params)) for each in table]
        try:
            self.decode = strict_decoder_for(Union[tuple(shapes)]) if shapes else _decode_nothing  # noqa: UP007  # a list
        except TypeError:  # a type that msgspec alone cannot read
            self.decode = _decode_nothing


def _decode_nothing(frame: bytes) -> Any:
    raise LookupError


def _is_suitable(notification: Notification[Any]) -> bool:
    """Return True if the params are an object, because null means an empty one elsewhere, and the session's queue is
    used: not for urgent notifications, nor for the one that `Peer` handles."""
    kind: Any = notification.params
    is_object = isinstance(kind, type) and issubclass(kind, Struct)
    return is_object and not notification.urgent and notification.name != CANCEL_METHOD


@cache
def _message_struct(name: str, params: Any) -> Any:
    """Define the struct of a whole message, once for all connections: msgspec keeps it, so it has no handler."""
    return msgspec.defstruct(
        "FastNotification",
        [("jsonrpc", Literal["2.0"]), ("params", params), ("id", Raw | UnsetType, UNSET)],
        namespace={"method": name},
        tag_field="method",
        tag=name,
        gc=False,
    )
