"""Puts a word into the `_meta` of a message and takes it out again, touching no other byte.

Decoding and encoding would lose duplicate keys, long numbers and blanks; a relay promises that the other end sees the
very bytes that were written. Only the first exchange of a connection passes through here, so clarity beats speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

__all__ = ["add_meta", "take_meta"]

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)


class Member(NamedTuple):
    """Where one member of an object stands: its name, its value, and its end."""

    name: str
    begin: int
    value: int
    end: int


def add_meta(frame: bytes, part: str, key: str, word: bytes) -> bytes | None:
    """The frame with `word` under `key` in the `_meta` of its `params` or `result`; None if it has no such part."""
    holder = _object(frame, 0, part)
    if holder is None:
        return None
    entry = msgspec.json.encode(key) + b":" + word
    meta = _last(frame, holder.value, "_meta")
    if meta is None:
        return _insert(frame, holder, b'"_meta":{' + entry + b"}")
    if frame[meta.value : meta.value + 1] == b"{":
        return _insert(frame, meta, entry)
    return frame[: meta.value] + b"{" + entry + b"}" + frame[meta.end :]


def take_meta(frame: bytes, part: str, key: str) -> tuple[bytes, bytes | None]:
    """The frame without `key` in that `_meta`, and without the `_meta` if nothing else is in it; and what was there."""
    holder = _object(frame, 0, part)
    meta = None if holder is None else _object(frame, holder.value, "_meta")
    found = None if meta is None else _last(frame, meta.value, key)
    if holder is None or meta is None or found is None:
        return frame, None
    alone = len(list(_members(frame, meta.value))) == 1
    word = frame[found.value : found.end]
    return (_remove(frame, holder, meta) if alone else _remove(frame, meta, found)), word


def _insert(frame: bytes, holder: Member, entry: bytes) -> bytes:
    """At the end of the object, so that nothing that was there moves."""
    closing = holder.end - 1
    comma = b"," if next(_members(frame, holder.value), None) is not None else b""
    return frame[:closing] + comma + entry + frame[closing:]


def _remove(frame: bytes, holder: Member, member: Member) -> bytes:
    """With the comma before it, or the one behind it if it is the first."""
    before = frame[holder.value + 1 : member.begin].rstrip()
    if before.endswith(b","):
        return frame[: holder.value + len(before)] + frame[member.end :]
    rest = frame[member.end :]
    return frame[: member.begin] + (rest.lstrip()[1:] if rest.lstrip().startswith(b",") else rest)


def _object(frame: bytes, at: int, name: str) -> Member | None:
    member = _last(frame, at, name)
    return member if member is not None and frame[member.value : member.value + 1] == b"{" else None


def _last(frame: bytes, at: int, name: str) -> Member | None:
    """Of duplicate names readers take the last."""
    found = None
    for member in _members(frame, at):
        if member.name == name:
            found = member
    return found


def _members(frame: bytes, at: int) -> Iterator[Member]:
    """The members of the object that begins at or after `at`; the frame is known to be JSON."""
    depth = 0
    name, begin, value, end = "", -1, -1, -1
    for token in _TOKEN.finditer(frame, at):
        sign = token[0]
        if depth == 1 and begin < 0 and sign[:1] == b'"':
            name, begin = _text(sign), token.start()
            continue
        if depth == 1 and value < 0 and begin >= 0 and sign != b":":
            value = token.start()
        if depth == 1 and sign in (b",", b"}"):
            if begin >= 0:
                yield Member(name, begin, value, end)
            begin = value = -1
        depth += (sign in (b"{", b"[")) - (sign in (b"}", b"]"))
        if depth == 0:
            return
        end = token.end()


def _text(sign: bytes) -> str:
    try:
        return msgspec.json.decode(sign, type=str)
    except msgspec.DecodeError:  # half a surrogate pair: no name that anybody looks for
        return ""
