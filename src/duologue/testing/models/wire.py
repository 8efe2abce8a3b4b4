"""The common part of the formats of all APIs: events of a stream, and JSON whose structure is not known."""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject


class WireEvent(Struct, frozen=True):
    """One server-sent event.

    Attributes:
        data: Its data.
        name: Its name, if the API names events.
        is_piece: It carries a piece of the content.
        raw: A text that is sent instead of the data.
    """

    data: JsonObject
    name: str | None = None
    is_piece: bool = False
    raw: str | None = None

    def encode(self) -> bytes:
        """Return the event as it is sent."""
        data = msgspec.json.encode(self.data) if self.raw is None else self.raw.encode()
        name = b"" if self.name is None else b"event: %b\n" % self.name.encode()
        return b"%bdata: %b\n\n" % (name, data)


def typed_event(data: JsonObject, *, is_piece: bool = False) -> WireEvent:
    """Return an event whose name is the `type` in its data."""
    return WireEvent(data, data["type"], is_piece)


def objects(value: Any) -> list[JsonObject]:
    """Return the objects of a list; nothing if it is something else."""
    return [item for item in value if is_object(item)] if _is_list(value) else []


def text_in(value: Any) -> str:
    """Return the text of a content, which is a text or a list of parts with a `text`, `content` or `refusal`."""
    if isinstance(value, str):
        return value
    parts = [part.get("text", part.get("refusal", part.get("content"))) for part in objects(value)]
    return "\n".join(filter(None, map(text_in, parts)))


def text_of(value: JsonObject, name: str) -> str:
    """Return a member that is a text; nothing if it is something else."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def is_object(value: Any) -> TypeGuard[JsonObject]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
