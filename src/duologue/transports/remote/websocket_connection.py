"""One WebSocket as a transport needs it: whole text messages the moment they arrive, and writing that never waits.

The library's own `recv()` and `send()` wait, message by message; a transport must do neither.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.frames import BINARY, CONT, TEXT, CloseCode, Frame
from websockets.protocol import OPEN, Event

from duologue.errors import ConnectionLost, DuologueError, MessageTooLarge, OutputLimitExceeded, ResumeFailed

__all__ = ["CloseReason", "ConnectionListener", "WebSocketConnection", "ending_of", "told_to_load"]

TAKEN_OVER = 4409
GONE = 4410
"""How a server closes a connection that somebody else has taken up, and one it does not know (any more)."""

COMES_BACK = {CloseCode.GOING_AWAY, CloseCode.SERVICE_RESTART, CloseCode.TRY_AGAIN_LATER}
THEIR_FAULT = {CloseCode.PROTOCOL_ERROR, CloseCode.INVALID_DATA, CloseCode.MESSAGE_TOO_BIG}
"""Our words for what they did wrong; they would do it again."""


class ConnectionListener(Protocol):
    """Who is told what happens on a WebSocket."""

    def on_messages(self, inbox: WebSocketConnection, frames: list[bytes]) -> None:
        """These messages came."""

    def update_congestion(self) -> None:
        """There is more or less room for writing than before."""


class WebSocketConnection(ClientConnection):
    """A WebSocket with somebody to tell.

    Attributes:
        owner: Who is told; what arrives before there is one waits.
        has_stalled: It was given up because the other end read nothing for too long.
    """

    def __init__(self, protocol: ClientProtocol, **options: object) -> None:
        super().__init__(protocol, **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] # the library's own, handed through
        self.owner: ConnectionListener | None = None
        self.has_stalled = False
        self.stall_seconds: float | None = None
        self._messages: list[bytes] = []
        self._fragments: bytearray | None = None
        self._written = 0
        self._stall_check: asyncio.TimerHandle | None = None

    # Reading

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.deliver()

    def deliver(self) -> None:
        """Hand over what has arrived."""
        if self._messages and self.owner is not None:
            messages, self._messages = self._messages, []
            self.owner.on_messages(self, messages)

    def process_event(self, event: Event) -> None:
        if not isinstance(event, Frame) or event.opcode not in (TEXT, BINARY, CONT):
            super().process_event(event)
        elif event.opcode is TEXT and event.fin:
            self._message(bytes(event.data))
        elif event.opcode is TEXT:
            self._fragments = bytearray(event.data)
        elif event.opcode is CONT and self._fragments is not None:  # else a fragment of a binary message
            self._fragments += event.data
            if event.fin:
                message, self._fragments = bytes(self._fragments), None
                self._message(message)

    def _message(self, message: bytes) -> None:
        if not message.isascii():
            try:
                message.decode()
            except UnicodeDecodeError as error:
                if self.protocol.state is OPEN:
                    self.protocol.fail(CloseCode.INVALID_DATA, f"{error.reason} at position {error.start}")
                    self.send_data()
                return
        self._messages.append(message)

    # Writing

    @property
    def unwritten(self) -> int:
        """Bytes that wait to be taken by the network."""
        return self.transport.get_write_buffer_size()

    def put(self, frame: bytes) -> None:
        """Write one text message; a closed connection takes it in silence, as the network would."""
        if self.protocol.state is OPEN:
            self.protocol.send_text(frame)
            self._written += len(frame)
            self.send_data()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.stall_seconds is not None:
            self._stall_check = self.loop.call_later(self.stall_seconds, self._check_stall, self._progress())
        if self.owner is not None:
            self.owner.update_congestion()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unpause()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unpause()

    def _unpause(self) -> None:
        if self._stall_check is not None:
            self._stall_check.cancel()
        if self.owner is not None:
            self.owner.update_congestion()

    def _progress(self) -> int:
        return self._written - self.unwritten

    def _check_stall(self, before: int) -> None:
        assert self.stall_seconds is not None
        now = self._progress()
        if now > before:
            self._stall_check = self.loop.call_later(self.stall_seconds, self._check_stall, now)
        else:
            self.has_stalled = True
            self.transport.abort()


class CloseReason(NamedTuple):
    """How a WebSocket ended.

    Attributes:
        failure: What went wrong; None after a proper end.
        is_broken: Nobody meant it to end, so it makes sense to come back.
    """

    failure: DuologueError | None
    is_broken: bool = False


def ending_of(inbox: WebSocketConnection) -> CloseReason:
    """What the end of this WebSocket means."""
    if inbox.has_stalled:
        return CloseReason(OutputLimitExceeded(f"nothing was read for {inbox.stall_seconds:g} s"))
    theirs, ours = inbox.protocol.close_rcvd, inbox.protocol.close_sent
    if theirs is None:
        if ours is not None and ours.code in THEIR_FAULT:
            kind = MessageTooLarge if ours.code == CloseCode.MESSAGE_TOO_BIG else ConnectionLost
            return CloseReason(kind(f"the other end broke the rules of WebSocket: {ours.reason}"))
        return CloseReason(ConnectionLost("the connection broke"), is_broken=True)
    if theirs.code in COMES_BACK:
        return CloseReason(ConnectionLost(f"the server is leaving: {theirs}"), is_broken=True)
    if theirs.code == GONE:
        return CloseReason(ResumeFailed(told_to_load(theirs.reason)))
    if theirs.code == TAKEN_OVER:
        return CloseReason(ConnectionLost("the connection was taken up from somewhere else"))
    if theirs.code in (CloseCode.NORMAL_CLOSURE, CloseCode.NO_STATUS_RCVD):
        return CloseReason(None)
    return CloseReason(ConnectionLost(f"the server closed the connection: {theirs}"))


def told_to_load(reason: str) -> str:
    """What to say when there is no way back."""
    told = f"what was missed while the connection was broken is lost: {reason or 'no reason given'}"
    return told if "load the session" in reason else f"{told}; load the session"
