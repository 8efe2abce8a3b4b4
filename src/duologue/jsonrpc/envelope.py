"""What can be told of a frame without reading what it says: for those who pass it on."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from duologue.jsonrpc.codec import mend_surrogates
from duologue.jsonrpc.messages import Id

__all__ = ["Ambiguous", "Envelope", "PendingRequests", "check_names", "read_envelope"]

T = TypeVar("T")


class _Named(Struct, gc=False):
    session_id: str | UnsetType = field(name="sessionId", default=UNSET)


class Envelope(Struct, gc=False):
    """The envelope of a message: a request has an id and a method, a notification no id, a response no method."""

    id: Id | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: _Named | None | UnsetType = UNSET
    result: _Named | None | UnsetType = UNSET

    @property
    def request_id(self) -> Id | None:
        """The id if this is a request, else None."""
        return None if self.method is UNSET or self.id is UNSET else self.id

    @property
    def response_id(self) -> Id | None:
        """The id if this is a response to a request, else None."""
        return self.id if self.method is UNSET and self.id is not UNSET else None

    @property
    def is_request(self) -> bool:
        """Whether this is a request: it has a method and an id."""
        return self.request_id is not None

    @property
    def is_response(self) -> bool:
        """Whether this is a response to a request: it has an id and no method."""
        return self.response_id is not None

    @property
    def is_notification(self) -> bool:
        """Whether this is a notification: it has a method and no id."""
        return self.method is not UNSET and self.request_id is None

    @property
    def is_error(self) -> bool:
        """Whether a response says that something failed."""
        return self.result is UNSET

    @property
    def session(self) -> str | None:
        """The session a request or notification is about."""
        return _session_of(self.params)

    @property
    def made_session(self) -> str | None:
        """The session that a response introduces."""
        return _session_of(self.result)


def _session_of(named: _Named | None | UnsetType) -> str | None:
    return named.session_id if isinstance(named, _Named) and isinstance(named.session_id, str) else None


class _Bare(Struct, gc=False):
    id: Id | None | UnsetType = UNSET
    method: str | UnsetType = UNSET


_decode = msgspec.json.Decoder(Envelope).decode
_decode_bare = msgspec.json.Decoder(_Bare).decode


def read_envelope(frame: bytes) -> Envelope | None:
    """The outline of a frame; `None` if it has none."""
    found = _outline(frame)
    if found is None and (mended := mend_surrogates(frame)) is not frame:
        found = _outline(mended)
    return found


def _outline(frame: bytes) -> Envelope | None:
    try:
        return _decode(frame)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:  # its parameters may be no object, or its session no string: whoever it is for will say so
        bare = _decode_bare(frame)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return Envelope(bare.id, bare.method)


MAX_MEMBERS = 10_000
"""Names in the envelope, or in its parameters: a map of more is an attack on those who look for one of them."""

_ENVELOPE_NAMES = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))
_PARAMS_NAMES = frozenset(("sessionId",))
_QUOTED = tuple(f'"{name}"'.encode() for name in (*_ENVELOPE_NAMES, *_PARAMS_NAMES))
_ESCAPED = b"\\u00"
"""How a letter of these names looks that is written as an escape."""


class Ambiguous(Exception):
    """Two readers of this frame would read different things, or would have to look at too many names."""


class _Name(str):
    """A name in an object. The decoder asks about each, also about one that was there before."""

    __slots__ = ()


def check_names(frame: bytes) -> None:
    """Check that each name which routes this frame is there once: those of the envelope, and `sessionId`.

    Only the envelope and the top level of its parameters are looked at. The time grows with the length of the frame
    alone. What is no JSON passes: its reader says better what is wrong.

    Raises:
        Ambiguous: A name is there twice, or there are too many names.
    """
    if _ESCAPED not in frame and all(frame.count(name) < 2 for name in _QUOTED):
        return
    try:
        envelope = _members(mend_surrogates(frame), _ENVELOPE_NAMES)
        params = envelope.get("params", b"")
        if params[:1] == b"{":
            _members(params, _PARAMS_NAMES)
    except (msgspec.MsgspecError, RecursionError):
        pass


def _members(text: bytes | memoryview, important: frozenset[str]) -> dict[str, memoryview]:
    seen: set[str] = set()
    count = 0

    def look(_: type, name: str) -> _Name:
        nonlocal count
        count += 1
        if count > MAX_MEMBERS:
            raise Ambiguous(f"more than {MAX_MEMBERS} names in one object")
        if name in important:
            if name in seen:
                raise Ambiguous(f"{name!r} is there twice")
            seen.add(name)
        return _Name(name)

    members = msgspec.json.decode(text, type=dict[_Name, Raw], dec_hook=look)
    return {name: memoryview(value) for name, value in members.items() if name in important}


class PendingRequests(Generic[T]):
    """The requests of one side that the other has not answered yet, each with what is remembered of it."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: dict[Id, T] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, id: Id, about: T) -> None:
        """A request was made."""
        self._requests[id] = about

    def answered(self, id: Id) -> T | None:
        """It has its answer; what was remembered of it, if it was made."""
        return self._requests.pop(id, None)

    def get(self, id: Id) -> T | None:
        """What is remembered of a request, if it is still unanswered."""
        return self._requests.get(id)

    def items(self) -> list[tuple[Id, T]]:
        """All of them, oldest first."""
        return list(self._requests.items())

    def values(self) -> list[T]:
        """What is remembered of each."""
        return list(self._requests.values())

    def clear(self) -> None:
        """No answer matters any more."""
        self._requests.clear()
