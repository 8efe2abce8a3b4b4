"""Lists of sessions, a page at a time, newest first."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from duologue.conversation.session_setup import SessionInfo
from duologue.errors import InvalidParams

__all__ = ["MAX_PAGE", "PAGE", "Archived", "SessionPage", "decode_cursor", "encode_cursor", "timestamp"]

Archived = Literal["exclude", "include", "only"]

PAGE = 50
"""Sessions on a page unless told otherwise: more than a menu shows."""

MAX_PAGE = 1000
"""Sessions on a page at most, so that a page always fits in one message."""

_CURSOR = struct.Struct(">qqI")
_START = (2**63 - 1, 2**63 - 1)


class SessionPage(Struct, frozen=True):
    """Some sessions, and where the next page begins.

    `damaged` holds the ids of those whose entry is not what was written: nothing but the id can be relied on.
    """

    sessions: list[SessionInfo]
    next_cursor: str | None = None
    damaged: frozenset[str] = frozenset()


def encode_cursor(touched: int, key: int) -> str:
    """The place behind the session that was touched then and has this key."""
    return base64.urlsafe_b64encode(_CURSOR.pack(touched, key, _checksum(touched, key))).decode()


def decode_cursor(cursor: str | None) -> tuple[int, int]:
    """What `encode_cursor` was given; without a cursor, a place before all sessions.

    Raises:
        InvalidParams: No page ever ended with this cursor.
    """
    if cursor is None:
        return _START
    try:
        touched, key, checksum = _CURSOR.unpack(base64.b64decode(cursor.encode(), b"-_", validate=True))
    except (ValueError, binascii.Error, struct.error):
        raise InvalidParams("$.cursor: not a cursor of this list") from None
    if checksum != _checksum(touched, key):
        raise InvalidParams("$.cursor: not a cursor of this list")
    return touched, key


def timestamp(touched: int) -> str:
    """Nanoseconds since 1970 as lists show them."""
    return datetime.fromtimestamp(touched / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _checksum(touched: int, key: int) -> int:
    return zlib.crc32(b"%d %d" % (touched, key))
