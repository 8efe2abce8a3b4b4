"""The connection of a proxy to a conductor, which reaches the client and the next component over one transport.

What the client sends arrives as it is, but `initialize` as `proxy/initialize`. What the next component sends arrives
inside of `proxy/successor`, and what is meant for it is sent so. Requests keep their ids: the conductor chooses all of
them on this connection. A response, and `$/cancel_request`, go by the id.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.errors import InvalidRequest
from duologue.jsonrpc.codec import serialize_error, serialize_notification, serialize_request
from duologue.jsonrpc.envelope import Envelope, PendingRequests, read_envelope, with_member
from duologue.jsonrpc.messages import Id
from duologue.transports.base import Transport
from duologue.transports.methods import INITIALIZE

PROXY_INITIALIZE = "proxy/initialize"
SUCCESSOR = "proxy/successor"
CANCEL_REQUEST = "$/cancel_request"

MAX_WAITING_BYTES = 8 * 1024 * 1024
"""Frames for one side that wait until it is read; then nothing more is read for the other side, either."""


class _Inner(Struct, omit_defaults=True):
    method: str
    params: Raw | UnsetType = UNSET


class _Wrapped(Struct):
    params: _Inner


class _Cancelled(Struct, rename="camel"):
    request_id: Id


class _CancelNotification(Struct):
    params: _Cancelled


class ConductorLink:
    """Splits the transport to a conductor.

    Args:
        transport: The transport to the conductor; it is entered and closed with `client`.

    Attributes:
        client: The transport to the client.
        agent: The transport to the next component.
    """

    def __init__(self, transport: Transport) -> None:
        self.client = ConductorSide(self, transport, is_agent=False)
        self.agent = ConductorSide(self, transport, is_agent=True)
        self._transport = transport
        self._reading = asyncio.Lock()
        self._is_ended = False
        self._sent: PendingRequests[ConductorSide] = PendingRequests()
        """Requests to the conductor, with the side that they were sent to."""
        self._received: PendingRequests[ConductorSide] = PendingRequests()
        """Requests of the conductor, with the side that they come from."""

    async def receive(self, side: ConductorSide) -> list[bytes]:
        """Return the frames of one side; whichever side waits reads for both."""
        while not side.frames and not self._is_ended:
            async with self._reading:
                if not side.frames and not self._is_ended:
                    await self._read_more(self.client if side is self.agent else self.agent)
        if not side.frames and side is self.agent:
            await asyncio.Event().wait()  # the client's side ends the connection, which cancels this
        return side.take()

    async def _read_more(self, other: ConductorSide) -> None:
        while other.waiting_bytes > MAX_WAITING_BYTES:
            other.was_read.clear()
            await other.was_read.wait()
        frames = await self._transport.receive()
        self._is_ended = not frames
        for frame in frames:
            self._deliver(frame)

    def _deliver(self, frame: bytes) -> None:
        envelope = read_envelope(frame) or Envelope()
        if (id := envelope.response_id) is not None:
            side = self._sent.answered(id)
            if side is not None:
                side.add(frame)
            return
        side, inner = self.client, frame
        method = envelope.method
        if method == SUCCESSOR:
            side, inner = self.agent, _unwrap(frame, envelope.request_id)
        elif method == PROXY_INITIALIZE:
            inner = with_member(frame, "method", msgspec.json.encode(INITIALIZE))
        elif method == CANCEL_REQUEST:
            side = self._received.get(_cancelled(frame)) or side
        elif method == INITIALIZE and (id := envelope.request_id) is not None:
            self._transport.send(serialize_error(id, InvalidRequest(NO_CONDUCTOR)))
            return
        if (id := envelope.request_id) is not None:
            self._received.add(id, side)
        side.add(inner)

    def send(self, side: ConductorSide, frame: bytes) -> None:
        """Send a frame to the client, or wrapped to the next component; responses and cancellations go as they are."""
        envelope = read_envelope(frame) or Envelope()
        if (id := envelope.response_id) is not None:
            self._received.answered(id)
        elif (id := envelope.request_id) is not None:
            self._sent.add(id, side)
        if side is self.agent and isinstance(envelope.method, str) and envelope.method != CANCEL_REQUEST:
            frame = _wrap(frame, envelope)
        self._transport.send(frame)


NO_CONDUCTOR = (
    "this proxy has no agent: it expects `proxy/initialize` of a conductor; to start an agent behind it, give its "
    "command after `--`"
)


class ConductorSide(Transport):
    """One side of a `ConductorLink`.

    Attributes:
        frames: Frames that have arrived.
        waiting_bytes: Their length.
        was_read: Set when they are received.
    """

    def __init__(self, link: ConductorLink, transport: Transport, *, is_agent: bool) -> None:
        self.frames: deque[bytes] = deque()
        self.waiting_bytes = 0
        self.was_read = asyncio.Event()
        self._link = link
        self._transport = transport
        self._is_agent = is_agent

    def add(self, frame: bytes) -> None:
        """Add a frame that has arrived."""
        self.frames.append(frame)
        self.waiting_bytes += len(frame)

    def take(self) -> list[bytes]:
        """Return the frames that have arrived, and remove them."""
        taken = list(self.frames)
        self.frames.clear()
        self.waiting_bytes = 0
        self.was_read.set()
        return taken

    @property
    def is_congested(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride] # a property here: it is derived
        return self._transport.is_congested

    @property
    def pending_bytes(self) -> int:
        return self._transport.pending_bytes

    async def receive(self) -> list[bytes]:
        return await self._link.receive(self)

    def send(self, frame: bytes) -> None:
        self._link.send(self, frame)

    async def drain(self) -> None:
        await self._transport.drain()

    async def __aenter__(self) -> Any:
        if not self._is_agent:
            await self._transport.__aenter__()
        return self

    async def aclose(self) -> None:
        if not self._is_agent:
            await self._transport.aclose()


def _unwrap(frame: bytes, id: Id | None) -> bytes:
    """Return the message inside of `proxy/successor`; the frame itself if there is none."""
    try:
        inner = msgspec.json.decode(frame, type=_Wrapped).params
    except msgspec.MsgspecError:
        return frame
    if id is None:
        return serialize_notification(inner.method, inner.params)
    return serialize_request(id, inner.method, inner.params)


def _wrap(frame: bytes, envelope: Envelope) -> bytes:
    inner = msgspec.json.decode(frame, type=_Inner)
    if (id := envelope.request_id) is not None:
        return serialize_request(id, SUCCESSOR, inner)
    return serialize_notification(SUCCESSOR, inner)


def _cancelled(frame: bytes) -> Id:
    """Return the id of the request that a notification cancels; an empty one if it names none."""
    try:
        return msgspec.json.decode(frame, type=_CancelNotification).params.request_id
    except msgspec.MsgspecError:
        return ""
