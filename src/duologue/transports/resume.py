"""Coming back after a broken connection without losing a frame: what both ends count, keep and say.

The right to return is agreed in the first exchange, in `_meta`, where peers that do not know of it never look. From
then on the client counts what it sends after its `initialize`, the server what it sends after its answer to that, each
from one; each keeps what the other has not acknowledged. They speak of it in notifications of the connection itself:

    _duologue/received {"count": n}                       I have n of yours: forget them
    _duologue/resume   {"connectionId": c, "received": n} first on a new connection: I am back, and have n of yours
    _duologue/resumed  {"received": m}                    welcome; I have m of yours, and the rest of mine follows
    _duologue/lost     {"reason": r}                      that cannot be done any more

They are not counted, and no layer above ever sees one.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.transports.json_splice import add_meta, take_meta

__all__ = [
    "RESUME",
    "WINDOW_BYTES",
    "WINDOW_FRAMES",
    "AckCounter",
    "ControlMessage",
    "ResumeGrant",
    "ResumeNegotiation",
    "RetryPolicy",
    "SentFrames",
    "control",
    "read_control",
]

RESUME = "duologue/resume"
"""The key in `_meta`."""

VERSION = 1

WINDOW_BYTES = 4 * 1024 * 1024
WINDOW_FRAMES = 10_000
"""What is kept for a peer that has not acknowledged it: minutes of a busy agent, little beside an interpreter."""

ACKNOWLEDGE_FRAMES = 64
ACKNOWLEDGE_BYTES = 256 * 1024
ACKNOWLEDGE_SECONDS = 5.0
"""How much may go unacknowledged: small beside the window, rare beside the traffic."""

LONGEST_CONTROL = 2048
"""Bytes; a longer frame is none of ours and need not be looked at."""

_MARK = b'"_duologue/'
_PREFIX = "_duologue/"


class ResumeGrant(Struct, rename="camel", frozen=True, kw_only=True):
    """What the server grants: who we are to it, and how long and how much it keeps for us."""

    version: int
    connection_id: str
    window_bytes: int = WINDOW_BYTES
    grace_seconds: float = 120.0


class ControlMessage(Struct, rename="camel"):
    """The parameters of any of the four notifications; each uses some."""

    count: int = -1
    connection_id: str = ""
    received: int = -1
    reason: str = ""


class _Envelope(Struct):
    id: int | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_control = msgspec.json.Decoder(ControlMessage).decode


def control(word: str, **params: int | str) -> bytes:
    """One of the four as a frame."""
    return msgspec.json.encode({"jsonrpc": "2.0", "method": _PREFIX + word, "params": params})


def read_control(frame: bytes) -> tuple[str, ControlMessage] | None:
    """Which of the four this frame is, and what it says; None for every other frame."""
    if _MARK not in frame or len(frame) > LONGEST_CONTROL:
        return None
    try:
        envelope = _decode_envelope(frame)
        method = envelope.method
        if method is UNSET or not method.startswith(_PREFIX) or envelope.id is not UNSET or envelope.params is UNSET:
            return None
        return method.removeprefix(_PREFIX), _decode_control(envelope.params)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class ResumeNegotiation:
    """The client's side of the first exchange: asks for the right to return, hears the answer, leaves no trace of it.

    Attributes:
        is_over: The agent has answered `initialize`; what comes from now on need not be shown to this object.
        is_asked: Our `initialize` has left with the question in it: from now on what we send counts.
        terms: What the server grants, if it does.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.is_asked = False
        self.terms: ResumeGrant | None = None
        self._id: int | str | None = None

    def outgoing(self, frame: bytes) -> bytes:
        """A frame of ours, with the question if it is the right one for it."""
        envelope = _envelope(frame)
        if envelope is None or envelope.method != "initialize" or envelope.id is UNSET or envelope.id is None:
            return frame
        asking = add_meta(frame, "params", RESUME, msgspec.json.encode({"version": VERSION}))
        self._id = envelope.id
        self.is_asked = asking is not None
        return frame if asking is None else asking

    def incoming(self, frame: bytes) -> bytes:
        """A frame of theirs, without the terms if they are in it."""
        envelope = _envelope(frame)
        if envelope is None or self._id is None or envelope.method is not UNSET or envelope.id != self._id:
            return frame
        self._id = None
        if envelope.result is UNSET:
            return frame  # refused; another attempt may follow
        self.is_over = True
        frame, word = take_meta(frame, "result", RESUME)
        if word is not None:
            try:
                terms = msgspec.json.decode(word, type=ResumeGrant)
            except msgspec.MsgspecError:
                return frame
            self.terms = terms if terms.version == VERSION else None
        return frame


def _envelope(frame: bytes) -> _Envelope | None:
    try:
        return _decode_envelope(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class SentFrames:
    """What we sent and the other end has not acknowledged, by number.

    Attributes:
        count: How many were sent in all.
        size: Bytes that are kept.
    """

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._kept: deque[bytes] = deque()

    @property
    def is_full(self) -> bool:
        """More is kept than a window is meant to hold."""
        return self.size > WINDOW_BYTES or len(self._kept) > WINDOW_FRAMES

    @property
    def acknowledged(self) -> int:
        """How many the other end is known to have, or to have missed for good."""
        return self.count - len(self._kept)

    def put(self, frame: bytes) -> None:
        """One more was sent."""
        self.count += 1
        self.size += len(frame)
        self._kept.append(frame)

    def forget(self, count: int) -> bool:
        """The other end has this many. False if that cannot be: more than were sent, or fewer than it had before."""
        if not self.acknowledged <= count <= self.count:
            return False
        while self.acknowledged < count:
            self.size -= len(self._kept.popleft())
        return True

    def after(self, count: int) -> Sequence[bytes]:
        """What follows that number; only for one that is still kept."""
        return list(islice(self._kept, count - self.acknowledged, None))


class AckCounter:
    """What has arrived, and how much of it was acknowledged."""

    def __init__(self) -> None:
        self.count = 0
        self._frames = 0
        self._bytes = 0

    def take(self, frame: bytes) -> None:
        """One more arrived."""
        self.count += 1
        self._frames += 1
        self._bytes += len(frame)

    @property
    def is_due(self) -> bool:
        """It is time to acknowledge."""
        return self._frames >= ACKNOWLEDGE_FRAMES or self._bytes >= ACKNOWLEDGE_BYTES

    @property
    def is_owed(self) -> bool:
        """Something arrived that was not acknowledged."""
        return self._frames > 0

    def settle(self) -> int:
        """How many to acknowledge; nothing is owed after that."""
        self._frames = self._bytes = 0
        return self.count


@dataclass(frozen=True)
class RetryPolicy:
    """How one tries to come back.

    Attributes:
        first: Seconds before the first attempt, at most; the second waits twice as long, and so on.
        longest: Seconds between two attempts, at most.
        limit: Seconds until it is given up, if the server does not forget us before.
    """

    first: float = 0.1
    longest: float = 10.0
    limit: float = 120.0

    def pauses_within(self, grace: float) -> Iterator[float]:
        """How long to wait before each attempt: random, so that a thousand clients do not come at once.

        The time begins with the first; there is none after `limit`, or after the server has forgotten us.
        """
        deadline = time.monotonic() + min(grace, self.limit)
        longest = self.first
        while (left := deadline - time.monotonic()) > 0:
            yield min(random.uniform(0, longest), left)
            longest = min(2 * longest, self.longest)
