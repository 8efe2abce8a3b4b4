"""What can be told of a frame without reading what it says: for those who pass it on."""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from duologue.jsonrpc.messages import Id

__all__ = ["Outline", "Unanswered", "outline", "repeated_name"]

T = TypeVar("T")


class _Named(Struct, gc=False):
    session_id: str | UnsetType = field(name="sessionId", default=UNSET)


class Outline(Struct, gc=False):
    """The envelope of a message: a request has an id and a method, a notification no id, a response no method."""

    id: Id | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: _Named | None | UnsetType = UNSET
    result: _Named | None | UnsetType = UNSET

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


_decode = msgspec.json.Decoder(Outline).decode
_decode_bare = msgspec.json.Decoder(_Bare).decode


def outline(frame: bytes) -> Outline | None:
    """The outline of a frame; `None` if it has none."""
    try:
        return _decode(frame)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:  # its parameters may be no object, or its session no string: whoever it is for will say so
        bare = _decode_bare(frame)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return Outline(bare.id, bare.method)


_NAMES = ("id", "method", "sessionId")
_QUOTED = tuple(f'"{name}"'.encode() for name in _NAMES)
_ESCAPED = b"\\u00"
"""How a letter of these names looks that is written as an escape."""


def repeated_name(frame: bytes) -> str | None:
    """The first of `id`, `method` and `sessionId` that one object of this frame has twice: readers would disagree."""
    if _ESCAPED not in frame and all(frame.count(name) < 2 for name in _QUOTED):
        return None
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        found.extend(name for name in _NAMES if names.count(name) > 1)

    try:
        json.loads(frame, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return None  # no JSON, which its reader says better
    return found[0] if found else None


class Unanswered(Generic[T]):
    """The requests of one side that the other has not answered yet, each with what is remembered of it."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: dict[Id, T] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def asked(self, id: Id, about: T) -> None:
        """A request was made."""
        self._requests[id] = about

    def answered(self, id: Id) -> T | None:
        """It has its answer; what was remembered of it, if it was made."""
        return self._requests.pop(id, None)

    def about(self, id: Id) -> T | None:
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
