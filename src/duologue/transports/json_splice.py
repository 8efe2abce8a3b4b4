"""Add an entry to the `_meta` of a message, or remove it, without changing any other byte.

Decoding and encoding would lose duplicate keys, long numbers and whitespace; a relay promises that the peer gets the
very bytes that were written. Only `initialize` and its response pass through here, so clarity beats speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)


class Member(NamedTuple):
    """A member of an object: its name, and the positions of its name, its value and its end."""

    name: str
    begin: int
    value: int
    end: int


def add_meta(frame: bytes, part: str, key: str, value: bytes) -> bytes | None:
    """Add `value` under `key` to the `_meta` of `params` or `result`; return `None` if the frame has no such part."""
    holder = _object(frame, 0, part)
    if holder is None:
        return None
    entry = msgspec.json.encode(key) + b":" + value
    meta = _last(frame, holder.value, "_meta")
    if meta is None:
        return _insert(frame, holder, b'"_meta":{' + entry + b"}")
    if frame[meta.value : meta.value + 1] == b"{":
        return _insert(frame, meta, entry)
    return frame[: meta.value] + b"{" + entry + b"}" + frame[meta.end :]


def take_meta(frame: bytes, part: str, key: str) -> tuple[bytes, bytes | None]:
    """Remove `key` from that `_meta`, and an empty `_meta`; return the frame and the value that was there."""
    holder = _object(frame, 0, part)
    meta = None if holder is None else _object(frame, holder.value, "_meta")
    found = None if meta is None else _last(frame, meta.value, key)
    if holder is None or meta is None or found is None:
        return frame, None
    alone = len(list(_members(frame, meta.value))) == 1
    value = frame[found.value : found.end]
    return (_remove(frame, holder, meta) if alone else _remove(frame, meta, found)), value


def _insert(frame: bytes, holder: Member, entry: bytes) -> bytes:
    """Add an entry at the end of an object, so that no other member moves."""
    closing = holder.end - 1
    comma = b"," if next(_members(frame, holder.value), None) is not None else b""
    return frame[:closing] + comma + entry + frame[closing:]


def _remove(frame: bytes, holder: Member, member: Member) -> bytes:
    """Remove a member with the comma before it, or the one after it if it is the first."""
    before = frame[holder.value + 1 : member.begin].rstrip()
    if before.endswith(b","):
        return frame[: holder.value + len(before)] + frame[member.end :]
    rest = frame[member.end :]
    return frame[: member.begin] + (rest.lstrip()[1:] if rest.lstrip().startswith(b",") else rest)


def _object(frame: bytes, at: int, name: str) -> Member | None:
    member = _last(frame, at, name)
    return member if member is not None and frame[member.value : member.value + 1] == b"{" else None


def _last(frame: bytes, at: int, name: str) -> Member | None:
    """Return the last member of this name: that is the one that JSON readers use."""
    found = None
    for member in _members(frame, at):
        if member.name == name:
            found = member
    return found


def _members(frame: bytes, at: int) -> Iterator[Member]:
    """Yield the members of the object that begins at or after `at`; the frame is known to be JSON."""
    depth = 0
    name, begin, value, end = "", -1, -1, -1
    for token in _TOKEN.finditer(frame, at):
        token_text = token[0]
        if depth == 1 and begin < 0 and token_text[:1] == b'"':
            name, begin = _text(token_text), token.start()
            continue
        if depth == 1 and value < 0 and begin >= 0 and token_text != b":":
            value = token.start()
        if depth == 1 and token_text in (b",", b"}"):
            if begin >= 0:
                yield Member(name, begin, value, end)
            begin = value = -1
        depth += (token_text in (b"{", b"[")) - (token_text in (b"}", b"]"))
        if depth == 0:
            return
        end = token.end()


def _text(token_text: bytes) -> str:
    try:
        return msgspec.json.decode(token_text, type=str)
    except msgspec.DecodeError:  # a lone surrogate: not a name that is searched for
        return ""
