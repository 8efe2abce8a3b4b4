"""`_meta`: extra data that the two sides attach to any message.

Inside the handler of a request, `current_request()` has the `_meta` of the request and of the answer:

    current_request().answer["example.com/region"] = "eu"

Around calls of the peer, `attach_meta` adds to what is sent and has the `_meta` of the last answer:

    with attach_meta({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) as attached:
        text = await turn.files.read("notes.md")
    print(attached.received)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from duologue.conversation.content import JsonObject
from duologue.schema.base import Model

M = TypeVar("M", bound=Model)


class RequestMeta(Struct, eq=False):
    """The `_meta` of a request of the peer (`received`) and of its answer (`answer`).

    `id` is the request id; a notification has none.
    """

    method: str
    received: JsonObject | None
    id: int | str | None = None
    answer: JsonObject = {}


class OutgoingMeta:
    """The `_meta` added to every message that is sent (`sent`), and that of the last answer (`received`)."""

    def __init__(self, sent: JsonObject) -> None:
        self.sent = sent
        self.received: JsonObject | None = None


handled_request: ContextVar[RequestMeta] = ContextVar("request")
"""The request that is being handled, for the versions of the protocol: they set it around their handlers."""

_attached: ContextVar[OutgoingMeta | None] = ContextVar("attached", default=None)


def current_request() -> RequestMeta:
    """Return the `_meta` of the request that is being handled.

    Raises:
        LookupError: The caller does not run in the handler of a request.
    """
    return handled_request.get()


@contextmanager
def attach_meta(meta: JsonObject) -> Generator[OutgoingMeta]:
    """Add `meta` to every message sent inside the block, on top of what enclosing blocks add."""
    outer = _attached.get()
    attached = OutgoingMeta(meta if outer is None else {**outer.sent, **meta})
    token = _attached.set(attached)
    try:
        yield attached
    finally:
        _attached.reset(token)


# --- for the versions of the protocol


@contextmanager
def request_context(method: str, received: JsonObject | None, id: int | str | None = None) -> Generator[RequestMeta]:
    """Make the `_meta` of a request available inside the block that handles it."""
    request = RequestMeta(method, received, id)
    token = handled_request.set(request)
    try:
        yield request
    finally:
        handled_request.reset(token)


current_attachment = _attached.get
"""Return the `_meta` to add to a message that is about to be sent; None if there is none."""


def with_meta(model: M, meta: JsonObject) -> M:
    """Return a copy of the message with `meta` added to its own."""
    own: JsonObject = getattr(model, "meta", None) or {}
    return msgspec.structs.replace(model, meta={**own, **meta}) if meta else model


def with_attachment(params: Any, attached: OutgoingMeta) -> Any:
    """Return parameters with `_meta` added; those of a custom method may have no field for it."""
    if isinstance(params, Model) and "meta" in params.__struct_fields__:
        return with_meta(params, attached.sent)
    if isinstance(params, dict):
        fields = cast("JsonObject", params)
        return {**fields, "_meta": {**fields.get("_meta", {}), **attached.sent}} if attached.sent else fields
    return params
