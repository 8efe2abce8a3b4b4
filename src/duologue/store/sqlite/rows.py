"""Rows of the SQLite store, and the checksums that detect damage."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import msgspec

from duologue.conversation.session_setup import SessionInfo
from duologue.errors import StoreError, StoreFull
from duologue.store.pagination import timestamp

MAX_NUMBER = 2**32 - 1
_MAX_KEY = 2**31 - 1

_decode_info = msgspec.json.Decoder(SessionInfo).decode


class SessionRow(NamedTuple):
    """A row of the table of sessions. The values of a damaged row may have other types."""

    key: int
    id: str
    cwd: str
    archived: int
    touched: int
    last: int
    turn: int
    info: bytes
    checksum: int

    @property
    def expected_checksum(self) -> int:
        """The checksum of an intact row."""
        return zlib.crc32(msgspec.json.encode(self[:-1]))

    @property
    def is_valid(self) -> bool:
        return self.checksum == self.expected_checksum


def info_of(row: SessionRow) -> SessionInfo:
    """Return the session's list entry; for a damaged one only id and directory."""
    if row.is_valid:
        return msgspec.structs.replace(_decode_info(row.info), updated_at=timestamp(row.touched))
    return SessionInfo(session_id=str(row.id), cwd=str(row.cwd))


def event_key(session_key: int, number: int) -> int:
    """Return the primary key of an event: the events of a session are adjacent, in order.

    Raises:
        StoreFull: The session has four billion events.
        StoreError: The session's row is damaged beyond use.
    """
    if number > MAX_NUMBER:
        raise StoreFull("the session is full")
    if not 0 < session_key <= _MAX_KEY:
        raise StoreError("the session's entry is damaged")
    return (session_key << 32) + number


def seed_of(session_id: str) -> int:
    """Return the seed of a session's checksums, which detects events of another session."""
    return zlib.crc32(session_id.encode())


def checksum(seed: int, key: int, kind: object, name: object, body: object) -> int | None:
    """Return the checksum of an event or of state; None if the values have impossible types."""
    if not (isinstance(kind, str) and isinstance(name, str | None) and isinstance(body, bytes)):
        return None
    return zlib.crc32(body, zlib.crc32(f"{key}\0{kind}\0{'' if name is None else ' ' + name}\0".encode(), seed))
