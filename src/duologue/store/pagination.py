"""Pages of the list of sessions, newest first."""

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

Archived = Literal["exclude", "include", "only"]

PAGE = 50
"""Default number of sessions on a page: more than a menu shows."""

MAX_PAGE = 1000
"""Maximum number of sessions on a page, so that a page always fits into one message."""

_CURSOR = struct.Struct(">qqI")
_START = (2**63 - 1, 2**63 - 1)


class SessionPage(Struct, frozen=True):
    """One page of sessions, and the cursor of the next.

    `damaged` contains the ids of sessions whose entry is damaged: only their id is reliable.
    """

    sessions: list[SessionInfo]
    next_cursor: str | None = None
    damaged: frozenset[str] = frozenset()


def encode_cursor(touched: int, key: int) -> str:
    """Return the cursor for the page after the session with this time of change and key."""
    return base64.urlsafe_b64encode(_CURSOR.pack(touched, key, _checksum(touched, key))).decode()


def decode_cursor(cursor: str | None) -> tuple[int, int]:
    """Return the time of change and key in a cursor; without a cursor, values before all sessions.

    Raises:
        InvalidParams: The cursor is not one of this list.
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
    """Format nanoseconds since 1970 as in the list of sessions."""
    return datetime.fromtimestamp(touched / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _checksum(touched: int, key: int) -> int:
    return zlib.crc32(b"%d %d" % (touched, key))
