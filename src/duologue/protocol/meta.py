"""What the two ends attach to their messages (`_meta`), around any call, whatever the call is about.

Inside the handler of a request, `current_request()` has what came with it and takes what its answer shall carry:

    current_request().answer["example.com/region"] = "eu"

Around calls of the peer, `attach` adds to what is sent and has what came with the last answer:

    with attach({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) as attached:
        text = await turn.files.read("notes.md")
    print(attached.received)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import msgspec

from duologue.conversation.content import JsonObject
from duologue.schema.base import Model

__all__ = [
    "OutgoingMeta",
    "RequestMeta",
    "attach_meta",
    "current_attachment",
    "current_request",
    "request_context",
    "with_attachment",
    "with_meta",
]

M = TypeVar("M", bound=Model)


class RequestMeta:
    """What is attached to a request of the peer (`received`), and what its answer shall carry (`answer`).

    `id` is the peer's number for it; a notification has none.
    """

    def __init__(self, method: str, received: JsonObject | None, id: int | str | None = None) -> None:
        self.method = method
        self.received = received
        self.id = id
        self.answer: JsonObject = {}


class OutgoingMeta:
    """What is attached to all that is sent (`sent`), and what came with the last answer (`received`)."""

    def __init__(self, sent: JsonObject) -> None:
        self.sent = sent
        self.received: JsonObject | None = None


_request: ContextVar[RequestMeta] = ContextVar("request")
_attached: ContextVar[OutgoingMeta | None] = ContextVar("attached", default=None)


def current_request() -> RequestMeta:
    """What is attached to the request that is being answered here.

    Raises:
        LookupError: No request of the peer led here.
    """
    return _request.get()


@contextmanager
def attach_meta(meta: JsonObject) -> Generator[OutgoingMeta]:
    """Attach this to every message sent from inside the block, on top of what blocks around it attach."""
    around = _attached.get()
    attached = OutgoingMeta(meta if around is None else {**around.sent, **meta})
    token = _attached.set(attached)
    try:
        yield attached
    finally:
        _attached.reset(token)


# --- for dialects


@contextmanager
def request_context(method: str, received: JsonObject | None, id: int | str | None = None) -> Generator[RequestMeta]:
    """The block answers a request that came with this attached."""
    request = RequestMeta(method, received, id)
    token = _request.set(request)
    try:
        yield request
    finally:
        _request.reset(token)


def current_attachment() -> OutgoingMeta | None:
    """What is to be attached to a message that is about to be sent."""
    return _attached.get()


def with_meta(model: M, meta: JsonObject) -> M:
    """The same message with this attached as well."""
    own: JsonObject = getattr(model, "meta", None) or {}
    return msgspec.structs.replace(model, meta={**own, **meta}) if meta else model


def with_attachment(params: Any, attached: OutgoingMeta) -> Any:
    """Parameters with what is attached; those of custom methods may be anything, and may have no place for it."""
    if isinstance(params, Model) and "meta" in params.__struct_fields__:
        return with_meta(params, attached.sent)
    if isinstance(params, dict):
        fields = cast("JsonObject", params)
        return {**fields, "_meta": {**fields.get("_meta", {}), **attached.sent}} if attached.sent else fields
    return params
