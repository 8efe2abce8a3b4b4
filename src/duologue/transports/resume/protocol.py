"""The messages, numbers and negotiation with which a broken connection is resumed; for both ends."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from duologue.jsonrpc.envelope import read_envelope
from duologue.jsonrpc.messages import Id
from duologue.transports.json_splice import add_meta, take_meta
from duologue.transports.methods import INITIALIZE

RESUME = "duologue/resume"
"""The key in `_meta`."""

VERSION = 1

REPLACED = 4409
HISTORY_LOST = 4410

WINDOW_BYTES = 4 * 1024 * 1024
WINDOW_FRAMES = 10_000
"""Frames buffered for a peer that has not acknowledged them: minutes of a busy agent, and little memory."""

FRAME_BYTES = -(-WINDOW_BYTES // WINDOW_FRAMES)
"""Bytes of a frame in a window that is full of frames and of bytes at once, rounded up."""

GRACE_SECONDS = 120.0
"""How long a server lets an agent continue without its client."""

ACKNOWLEDGE_FRAMES = 1024
ACKNOWLEDGE_BYTES = 512 * 1024
ACKNOWLEDGE_SECONDS = 5.0
"""Limits of what may stay unacknowledged: small against the window, and rare against the traffic."""

MAX_CONTROL_BYTES = 2048
"""A longer frame is no control message."""

MAX_REQUEST_BYTES = 64 * 1024
"""A longer `initialize` is not searched for a request to resume; usual ones have one or two thousand bytes."""

_PREFIX = "_duologue/"
_QUOTED_PREFIX = b'"_duologue/'


# Control messages


class ControlMessage(Struct, rename="camel"):
    """The parameters of all four notifications; each uses some of them."""

    count: int = -1
    connection_id: str = ""
    received: Any = None
    reason: str = ""


class _ControlFrame(Struct):
    method: str
    params: ControlMessage
    id: Id | None | UnsetType = UNSET


_decode_control = msgspec.json.Decoder(_ControlFrame).decode
_CONTROL_NAMES = frozenset({"received", "resume", "resumed", "lost"})


def control(name: str, **params: int | str) -> bytes:
    """Return one of the four notifications as a frame."""
    return msgspec.json.encode({"jsonrpc": "2.0", "method": _PREFIX + name, "params": params})


def may_have_control(frames: list[bytes]) -> bool:
    """Return whether one of these frames may be a control message."""
    return _QUOTED_PREFIX in b"".join(frames)


def read_control(frame: bytes) -> tuple[str, ControlMessage] | None:
    """Return the name and parameters of a control message; `None` for every other frame."""
    if _QUOTED_PREFIX not in frame or len(frame) > MAX_CONTROL_BYTES:
        return None
    try:
        message = _decode_control(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    name = message.method.removeprefix(_PREFIX)
    is_control = message.method.startswith(_PREFIX) and name in _CONTROL_NAMES and message.id is UNSET
    return (name, message.params) if is_control else None


# Negotiation in `initialize`


class ResumeGrant(Struct, rename="camel", frozen=True, kw_only=True):
    """The grant of the server: the id of the connection, and how long and how much it buffers for the client."""

    version: int
    connection_id: str
    window_bytes: int = WINDOW_BYTES
    grace_seconds: float = GRACE_SECONDS


class _ResumeRequest(Struct, frozen=True):
    version: int = 0


_decode_request = msgspec.json.Decoder(_ResumeRequest).decode
_decode_grant = msgspec.json.Decoder(ResumeGrant).decode


class ResumeNegotiation:
    """The client's part: request resuming in `initialize`, and read the grant from its response.

    Attributes:
        is_over: The agent has answered `initialize`; later frames need not pass through this object.
        is_asked: `initialize` was sent with the request in it: from now on the client counts what it sends.
        grant: What the server grants, if it does.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.is_asked = False
        self.grant: ResumeGrant | None = None
        self._id: Id | None = None

    def outgoing(self, frame: bytes) -> bytes:
        """Add the request to resume, if this frame is `initialize`."""
        envelope = read_envelope(frame)
        if envelope is None or envelope.method != INITIALIZE or envelope.request_id is None:
            return frame
        asking = add_meta(frame, "params", RESUME, msgspec.json.encode({"version": VERSION}))
        self._id = envelope.request_id
        self.is_asked = asking is not None
        return asking or frame

    def incoming(self, frame: bytes) -> bytes:
        """Remove the grant, if this frame is the response to `initialize`."""
        envelope = read_envelope(frame)
        if envelope is None or self._id is None or envelope.response_id != self._id:
            return frame
        self._id = None
        if envelope.is_error:
            return frame  # another attempt may follow
        self.is_over = True
        frame, grant = take_meta(frame, "result", RESUME)
        if grant is not None:
            try:
                decoded = _decode_grant(grant)
            except msgspec.MsgspecError:
                return frame
            self.grant = decoded if decoded.version == VERSION else None
        return frame


def extract_resume_request(frame: bytes) -> tuple[bytes, bool]:
    """Remove the request to resume from an `initialize` request; return the rest, and whether there was one."""
    if len(frame) > MAX_REQUEST_BYTES or RESUME.encode() not in frame:
        return frame, False
    rest, request = take_meta(frame, "params", RESUME)
    try:
        return rest, request is not None and _decode_request(request).version == VERSION
    except msgspec.MsgspecError:
        return rest, False


def attach_resume_grant(frame: bytes, grant: ResumeGrant) -> bytes:
    """Add the grant to a response to `initialize`; an error response stays unchanged."""
    return add_meta(frame, "result", RESUME, msgspec.json.encode(grant)) or frame


# Reconnecting


@dataclass(frozen=True)
class RetryPolicy:
    """How a client reconnects.

    Attributes:
        first: Longest pause before the first attempt, in seconds; it doubles with each attempt.
        longest: Longest pause between two attempts, in seconds.
        limit: Seconds after which the client stops trying, if the server does not end the connection before.
    """

    first: float = 0.1
    longest: float = 10.0
    limit: float = 120.0

    def pauses_within(self, grace: float) -> Iterator[float]:
        """Yield the pause before each attempt: random, so that a thousand clients do not reconnect at once.

        The time starts with the first pause; there is none after `limit` seconds or after `grace` seconds.
        """
        deadline = time.monotonic() + min(grace, self.limit)
        longest = self.first
        while (left := deadline - time.monotonic()) > 0:
            yield min(random.uniform(0, longest), left)
            longest = min(2 * longest, self.longest)
