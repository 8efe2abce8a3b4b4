"""Notifications read in one pass over their bytes, envelope and parameters together.

Most of what a client ever reads is `session/update`, and two passes over it are what reading costs most. This way takes
only what is plainly right. Whatever else comes (a request, a method nobody handles, a value that needs forgiveness) is
left to the long way, which gives it the same meaning or the error it deserves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Union

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.jsonrpc.codec import SHALLOW_BYTES, is_sound
from duologue.jsonrpc.peer import CANCEL_METHOD
from duologue.runtime.handlers import Handlers
from duologue.schema.codec import strict_decoder_for

__all__ = ["LONG_BYTES", "PLAIN_NOTIFICATION", "Shortcut"]

PLAIN_NOTIFICATION = b'{"jsonrpc":"2.0","method":"'
"""How every library in use begins a notification; another order of members goes the long way."""

LONG_BYTES = 64 * 1024
"""From here on memory counts for more than time: the long way checks a frame before it reads it."""


class Shortcut:
    """Reads the notifications that have a handler."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._size = -1
        self._decode: Callable[[bytes], Any] = _know_nothing

    def read(self, frame: bytes) -> Any:
        """An object with the `method`, the `kind` of its parameters and the `params`; `None`: take the long way."""
        try:
            known = self._decode(frame)
        except Exception:
            # The long way says what is wrong, if anything is. Perhaps a handler was added since.
            if self._size != len(self._handlers.notifications):
                self._build()
            return None
        is_plain = len(frame) <= SHALLOW_BYTES and frame.isascii()
        return known if known.id is UNSET and (is_plain or is_sound(frame)) else None

    def _build(self) -> None:
        table = self._handlers.notifications
        self._size = len(table)
        kinds = [
            _whole(name, notification.params) for name, (notification, _) in table.items() if name != CANCEL_METHOD
        ]
        shapes = [shape for shape in kinds if shape is not None]
        try:
            self._decode = strict_decoder_for(Union[tuple(shapes)]) if shapes else _know_nothing  # noqa: UP007  # from a list
        except TypeError:  # a type that msgspec alone cannot read
            self._decode = _know_nothing


def _know_nothing(frame: bytes) -> Any:
    raise LookupError


def _whole(name: str, kind: Any) -> Any:
    """The shape of a whole message; only objects, because null must read as an empty one the long way."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return None
    return msgspec.defstruct(
        "Whole",
        [("jsonrpc", Literal["2.0"]), ("params", kind), ("id", Raw | UnsetType, UNSET)],
        namespace={"method": name, "kind": kind},
        tag_field="method",
        tag=name,
        gc=False,
    )
