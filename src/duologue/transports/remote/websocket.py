"""An agent behind a WebSocket, from the client's side; it comes back by itself where the server lets it.

A connection that breaks is taken up again as `returning` describes. To the layers above it never broke: frames wait for
a moment, and each arrives once and in order. Where that cannot be, `receive` says so with an error.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Self

from duologue.errors import ConnectError, ConnectionLost, DuologueError, OutputLimitExceeded, ResumeFailed
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.transports.base import Transport
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.remote.websocket_connect import OPEN_SECONDS, WebSocketConnector
from duologue.transports.remote.websocket_connection import CloseReason, WebSocketConnection, ending_of, told_to_load
from duologue.transports.resume import (
    ACKNOWLEDGE_SECONDS,
    AckCounter,
    ControlMessage,
    ResumeNegotiation,
    RetryPolicy,
    SentFrames,
    control,
    read_control,
)
from duologue.transports.stdio.line_stream import HARD_MARK_FACTOR, MAX_QUEUED_BYTES, READ_AHEAD, WRITE_AHEAD
from duologue.transports.stdio.socket import OUTPUT_STALL_SECONDS

__all__ = ["WebSocketTransport"]

_log = logging.getLogger("duologue.transports")

PING_SECONDS = 20.0
"""Between two signs of life, and for the answer to one: a dead network is found within twice as long."""

REFUSALS = {400, 401, 403, 404, 405, 410, 426}
"""What does not get better by asking again."""


class WebSocketTransport(Transport):
    """Frames over a WebSocket, one text message each.

    Args:
        address: Where, and how we show who we are.
        max_message_bytes: Longest message that is received.
        max_queued_bytes: Output that may wait; four times as much ends the connection with `OutputLimitExceeded`.
        output_stall: Seconds without any progress of waiting output after which the connection ends.
        ping_seconds: Between two signs of life.
        patience: How to come back after a break.

    Raises:
        ConnectError: On entering: nobody answers there, or refuses us.
    """

    def __init__(
        self,
        address: RemoteEndpoint,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        output_stall: float | None = OUTPUT_STALL_SECONDS,
        ping_seconds: float = PING_SECONDS,
        patience: RetryPolicy | None = None,
    ) -> None:
        self.address = address
        self.reconnects = 0
        """How often a broken connection was taken up again."""
        self._max_queued = max_queued_bytes
        self._patience = patience or RetryPolicy()
        self._dialer = WebSocketConnector(
            address,
            max_message_bytes=max_message_bytes,
            write_ahead=min(WRITE_AHEAD, max_queued_bytes),
            output_stall=output_stall,
            ping_seconds=ping_seconds,
        )
        self._socket: WebSocketConnection | None = None
        self._answer: asyncio.Future[None] | None = None
        self._life: asyncio.Task[None] | None = None
        self._greeting = ResumeNegotiation()
        self._window = SentFrames()
        self._receipts = AckCounter()
        self._receipt_timer: asyncio.TimerHandle | None = None
        self._frames: list[bytes] = []
        self._untaken = 0
        self._arrival = asyncio.Event()
        self._room = asyncio.Event()
        self._is_ended = False
        self._failure: DuologueError | None = None
        self._broken: ConnectionLost | None = ConnectionLost("this transport was not entered yet")
        """Why nothing can be sent."""

    async def __aenter__(self) -> Self:
        socket = await self._dialer.dial()
        self._broken = None
        self._begin(socket)
        self._life = asyncio.get_running_loop().create_task(self._live(socket))
        return self

    # Reading

    async def receive(self) -> list[bytes]:
        while not self._frames:
            if self._is_ended:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                return []
            self._arrival.clear()
            await self._arrival.wait()
        frames, self._frames = self._frames, []
        if self._untaken > READ_AHEAD and self._socket is not None:
            self._socket.transport.resume_reading()
        self._untaken = 0
        return frames

    def on_messages(self, inbox: WebSocketConnection, frames: list[bytes]) -> None:
        """These messages came: pass on what is meant for the layers above."""
        if self._is_ended:
            return
        if self._answer is not None and inbox is not self._socket:
            frames = self._on_resumed(inbox, frames)
        if self._greeting.is_over and self._greeting.terms is None:
            self._deliver(frames)
        elif frames:
            self._deliver([each for frame in frames if (each := self._counted(frame)) is not None])

    def _counted(self, frame: bytes) -> bytes | None:
        if not self._greeting.is_over:
            frame = self._greeting.incoming(frame)
            self._greeted()
            return frame
        if self._greeting.terms is None:
            return frame
        said = read_control(frame)
        if said is not None:
            self._heard(*said)
            return None
        self._receipts.take(frame)
        if self._receipts.is_due:
            self._acknowledge()
        elif self._receipt_timer is None:
            self._receipt_timer = asyncio.get_running_loop().call_later(ACKNOWLEDGE_SECONDS, self._acknowledge)
        return frame

    def _greeted(self) -> None:
        if self._greeting.is_over and self._greeting.terms is None:
            self._window = SentFrames()  # nobody will ever ask for what is in it
            self.update_congestion()

    def _heard(self, word: str, said: ControlMessage) -> None:
        if word == "received" and self._window.forget(said.count):
            self.update_congestion()

    def _acknowledge(self) -> None:
        if self._receipt_timer is not None:
            self._receipt_timer.cancel()
            self._receipt_timer = None
        if self._socket is not None and self._receipts.is_owed:
            self._socket.put(control("received", count=self._receipts.settle()))

    def _deliver(self, frames: list[bytes]) -> None:
        if not frames or (self.on_frames is not None and not self._frames and self.on_frames(frames)):
            return
        self._frames += frames
        before = self._untaken
        self._untaken += sum(map(len, frames))
        self._arrival.set()
        if before <= READ_AHEAD < self._untaken and self._socket is not None:
            self._socket.transport.pause_reading()

    # Writing

    @property
    def pending_bytes(self) -> int:
        return self._window.size if self._socket is None else self._socket.unwritten

    def send(self, frame: bytes) -> None:
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        if self._greeting.is_asked and (self._greeting.terms is not None or not self._greeting.is_over):
            self._window.put(frame)
        elif not self._greeting.is_over:
            frame = self._greeting.outgoing(frame)
        if self._socket is not None:
            self._socket.put(frame)
        if self._window.is_full or self._socket is None:
            self.update_congestion()
        if (
            self.is_congested
            and (waiting := max(self.pending_bytes, self._window.size)) > self._max_queued * HARD_MARK_FACTOR
        ):
            failure = OutputLimitExceeded(f"{waiting} bytes wait to be read; the bound is {self._max_queued}")
            self._end(failure)
            raise failure

    async def drain(self) -> None:
        while self.is_congested and self._broken is None:
            self._room.clear()
            await self._room.wait()
        if self._broken is not None:
            raise self._broken.with_traceback(None)

    def update_congestion(self) -> None:
        """Tell whoever sends whether to wait."""
        is_stuck = self._socket is not None and self._socket.paused
        self.is_congested = self._broken is None and (is_stuck or self._window.is_full)
        if not self.is_congested:
            self._room.set()

    # Life: one WebSocket after the other

    async def _live(self, socket: WebSocketConnection) -> None:
        failure: DuologueError | None = None
        try:
            while True:
                await socket.wait_closed()
                self._socket = None
                ending = ending_of(socket)
                if self._greeting.terms is None or not ending.is_broken:
                    failure = ending.failure
                    break
                socket = await self._come_back(ending)
        except DuologueError as error:
            failure = error
        except Exception as error:
            _log.exception("the connection cannot go on")
            failure = ConnectionLost(f"the connection cannot go on: {error}")
        self._end(failure)

    async def _come_back(self, ending: CloseReason) -> WebSocketConnection:
        """A new WebSocket that goes on where the old one ended.

        Raises:
            ResumeFailed: The server no longer has what we missed.
            ConnectionLost: There is no way back, or it took too long.
        """
        assert self._greeting.terms is not None
        reason: Exception | None = ending.failure
        for pause in self._patience.pauses_within(self._greeting.terms.grace_seconds):
            await asyncio.sleep(pause)
            try:
                return await self._take_up(await self._dialer.dial())
            except ConnectError as error:
                if error.status in REFUSALS:
                    raise ConnectionLost(f"the server would not take us back: {error}") from error
                reason = error
            except (OSError, TimeoutError) as error:
                reason = error
        raise ConnectionLost(f"the connection broke and could not be taken up again in time: {reason}")

    async def _take_up(self, socket: WebSocketConnection) -> WebSocketConnection:
        """Say who we are and what we have; `_taken_up` hears the answer, before anything that follows it."""
        assert self._greeting.terms is not None
        self._answer = asyncio.get_running_loop().create_future()
        closing = socket.connection_lost_waiter
        try:
            received = self._receipts.count
            socket.put(control("resume", connectionId=self._greeting.terms.connection_id, received=received))
            socket.owner = self
            socket.deliver()
            async with asyncio.timeout(OPEN_SECONDS):
                await asyncio.wait([self._answer, closing], return_when=asyncio.FIRST_COMPLETED)
            if self._answer.done():
                self._answer.result()
                return socket
            ending = ending_of(socket)
            if not ending.is_broken:
                raise ending.failure or ConnectionLost("the server ended the connection instead of taking it up again")
            raise OSError(str(ending.failure))
        except BaseException:
            socket.transport.abort()
            raise
        finally:
            self._answer.cancel()
            self._answer = None

    def _on_resumed(self, socket: WebSocketConnection, frames: list[bytes]) -> list[bytes]:
        """The first words on a new WebSocket; returns what came behind them."""
        assert self._answer is not None
        if self._answer.done():
            return []
        word, said = read_control(frames[0]) or ("", ControlMessage())
        if word == "resumed" and self._window.forget(said.received):
            self._begin(socket)
            self.reconnects += 1
            self._receipts.settle()
            for frame in self._window.after(said.received):
                socket.put(frame)
            self._answer.set_result(None)
            return frames[1:]
        reason = said.reason if word == "lost" else "the server answered in a way that makes no sense"
        self._answer.set_exception(ResumeFailed(told_to_load(reason)))
        return []

    def _begin(self, socket: WebSocketConnection) -> None:
        self._socket = socket
        if self._untaken > READ_AHEAD:
            socket.transport.pause_reading()
        if socket.owner is None:
            socket.owner = self
            socket.deliver()
        self.update_congestion()

    # The end

    def _end(self, failure: DuologueError | None) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._failure = failure
        self._broken = failure if isinstance(failure, ConnectionLost) else ConnectionLost("the connection is closed")
        if self._receipt_timer is not None:
            self._receipt_timer.cancel()
        if self._socket is not None and failure is not None:
            self._socket.transport.abort()
        self._arrival.set()
        self.update_congestion()

    async def aclose(self) -> None:
        socket = self._socket
        self._end(None)
        self._broken = ConnectionLost("this transport is closed")
        if self._life is None:
            return
        life, self._life = self._life, None
        try:
            if socket is not None:
                socket.transport.resume_reading()  # or the goodbye of the other end is never seen
                await socket.close()
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
            self._dialer.cookies.clear()
