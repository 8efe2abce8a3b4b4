"""The envelope of a frame, read without its content: for relays and servers that only route frames."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from duologue.jsonrpc.codec import repair_surrogates
from duologue.jsonrpc.messages import Id

T = TypeVar("T")


class _WithSession(Struct, gc=False):
    session_id: str | UnsetType = field(name="sessionId", default=UNSET)


class Envelope(Struct, gc=False):
    """The envelope of a message: a request has an id and a method, a notification no id, a response no method."""

    id: Id | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: _WithSession | None | UnsetType = UNSET
    result: _WithSession | None | UnsetType = UNSET

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
        """Whether a response has no result, and so is an error."""
        return self.result is UNSET

    @property
    def session(self) -> str | None:
        """The `sessionId` in the params of a request or notification."""
        return _session_of(self.params)

    @property
    def made_session(self) -> str | None:
        """The `sessionId` in the result of a response."""
        return _session_of(self.result)


def _session_of(part: _WithSession | None | UnsetType) -> str | None:
    return part.session_id if isinstance(part, _WithSession) and isinstance(part.session_id, str) else None


class _Bare(Struct, gc=False):
    id: Id | None | UnsetType = UNSET
    method: str | UnsetType = UNSET


_decode = msgspec.json.Decoder(Envelope).decode
_decode_bare = msgspec.json.Decoder(_Bare).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.encode


def read_envelope(frame: bytes) -> Envelope | None:
    """Read the envelope of a frame; return `None` if it is not JSON or has none."""
    try:
        return _decode(frame)
    except (msgspec.MsgspecError, RecursionError):
        pass
    repaired = repair_surrogates(frame)
    try:  # its parameters may be no object, or its session no string: the receiver reports that
        bare = _decode_bare(repaired)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if repaired is not frame:
        return read_envelope(repaired)
    return Envelope(bare.id, bare.method)


def with_id(frame: bytes, id: Id) -> bytes:
    """Return a request or response with another id; its other members stay as they are."""
    return with_member(frame, "id", _encode(id))


def with_member(frame: bytes, name: str, value: bytes) -> bytes:
    """Return a message with another value of one member of its envelope; its other members stay as they are."""
    members = _decode_members(frame)
    members[name] = Raw(value)
    return _encode(members)


MAX_MEMBERS = 10_000
"""Names in the envelope, or in its parameters: an object with more is an attack on code that looks for one of them."""

_ENVELOPE_NAMES = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))
_PARAMS_NAMES = frozenset(("sessionId",))
_QUOTED = tuple(f'"{name}"'.encode() for name in (*_ENVELOPE_NAMES, *_PARAMS_NAMES))
_ESCAPED = b"\\u00"
"""How an ASCII letter of these names begins if it is written as an escape."""


class Ambiguous(Exception):
    """Two readers could understand this frame differently, or it has too many names to check."""


class _Name(str):
    """A name in an object. The decoder calls its hook for each, also for duplicates."""

    __slots__ = ()


def check_names(frame: bytes) -> None:
    """Check that no name used for routing occurs twice: those of the envelope, and `sessionId`.

    Only the envelope and the top level of its parameters are checked, in time linear in the length of the frame. A
    frame that is not JSON passes: its reader reports better what is wrong.

    Raises:
        Ambiguous: A name occurs twice, or there are too many names.
    """
    if _ESCAPED not in frame and all(frame.count(name) < 2 for name in _QUOTED):
        return
    try:
        envelope = _members(repair_surrogates(frame), _ENVELOPE_NAMES)
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
                raise Ambiguous(f"{name!r} occurs twice")
            seen.add(name)
        return _Name(name)

    members = msgspec.json.decode(text, type=dict[_Name, Raw], dec_hook=look)
    return {name: memoryview(value) for name, value in members.items() if name in important}


class PendingRequests(Generic[T]):
    """The requests of one side that the other has not answered yet, each with a value stored for it."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: dict[Id, T] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, id: Id, value: T) -> None:
        """Store a value for a new request."""
        self._requests[id] = value

    def answered(self, id: Id) -> T | None:
        """Remove an answered request; return the value stored for it, or `None` if the id is unknown."""
        return self._requests.pop(id, None)

    def get(self, id: Id) -> T | None:
        """Return the value stored for a request, or `None` if it is answered or unknown."""
        return self._requests.get(id)

    def ids(self) -> list[Id]:
        """Return the ids of all requests, oldest first."""
        return list(self._requests)

    def items(self) -> list[tuple[Id, T]]:
        """Return the ids and values of all requests, oldest first."""
        return list(self._requests.items())

    def values(self) -> list[T]:
        """Return the values of all requests, oldest first."""
        return list(self._requests.values())

    def clear(self) -> None:
        """Forget all requests."""
        self._requests.clear()
