"""How a client and this server agree that a lost connection can be taken up again, and the words for doing so.

The agreement travels in `_meta` of `initialize` and is taken out again before the agent sees it. All values that are
not ours keep their bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from duologue.transports.json_splice import add_meta, take_meta

__all__ = [
    "Received",
    "Resume",
    "attach_resume_grant",
    "extract_resume_request",
    "lost_message",
    "parse_control",
    "received",
    "resumed",
]

KEY = "duologue/resume"
SHORT = 2048
"""Bytes of the longest word for it: a connection id and numbers."""

LONGEST_WISH = 64 * 1024
"""Bytes of an `initialize` in which a wish is looked for, token by token; real ones have one or two thousand."""

_encode = msgspec.json.encode


class _Wish(Struct, frozen=True):
    version: int = 0


_decode_wish = msgspec.json.Decoder(_Wish).decode


class Resume(Struct, frozen=True, tag_field="method", tag="_duologue/resume"):
    """The first words of a client that comes back."""

    class Params(Struct, frozen=True):
        """Which connection, and how many frames of it had arrived."""

        connection_id: str = field(name="connectionId")
        received: Any = None

    params: Params


class Received(Struct, frozen=True, tag_field="method", tag="_duologue/received"):
    """How many frames have arrived."""

    class Params(Struct, frozen=True):
        """Counted from 1."""

        count: int

    params: Params


_decode_said = msgspec.json.Decoder(Resume | Received).decode


def parse_control(frame: bytes) -> Resume | Received | None:
    """What a client says about the connection itself; `None` for everything that is for the agent."""
    if len(frame) > SHORT or b"_duologue/re" not in frame:
        return None
    try:
        words: Resume | Received = _decode_said(frame)
    except msgspec.MsgspecError:
        return None
    return words


def resumed(count: int) -> bytes:
    """Taken up again; so many frames of the client had arrived."""
    return b'{"jsonrpc":"2.0","method":"_duologue/resumed","params":{"received":%d}}' % count


def received(count: int) -> bytes:
    """So many frames of the client have arrived."""
    return b'{"jsonrpc":"2.0","method":"_duologue/received","params":{"count":%d}}' % count


def lost_message(reason: str) -> bytes:
    """It cannot be taken up again."""
    return b'{"jsonrpc":"2.0","method":"_duologue/lost","params":{"reason":%b}}' % _encode(reason)


def extract_resume_request(frame: bytes) -> tuple[bytes, bool]:
    """An `initialize` request without the wish to be able to come back, and whether it had one."""
    if len(frame) > LONGEST_WISH or KEY.encode() not in frame:
        return frame, False
    rest, wish = take_meta(frame, "params", KEY)
    try:
        return rest, wish is not None and _decode_wish(wish).version == 1
    except msgspec.MsgspecError:
        return rest, False


def attach_resume_grant(frame: bytes, offer: dict[str, Any]) -> bytes:
    """A response to `initialize` that says how the client can come back; an error answer stays what it is."""
    return add_meta(frame, "result", KEY, _encode({"version": 1, **offer})) or frame
