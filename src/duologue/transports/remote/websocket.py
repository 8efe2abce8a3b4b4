"""The client side of WebSocket; it reconnects and resumes by itself if the server supports it.

`transports.resume` describes how. The layers above do not notice: frames wait for a moment, and each arrives once and
in order. Where that is impossible, `receive` raises an error.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Self

from duologue.errors import ConnectError, ConnectionLost, DuologueError
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.transports.buffered import (
    HARD_LIMIT_FACTOR,
    MAX_QUEUED_BYTES,
    READ_AHEAD,
    WRITE_AHEAD,
    BufferedTransport,
)
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.remote.websocket_connect import OPEN_SECONDS, WebSocketConnector
from duologue.transports.remote.websocket_connection import (
    CloseReason,
    WebSocketConnection,
    close_reason,
    history_lost,
)
from duologue.transports.resume.buffers import AckCounter, SentFrames
from duologue.transports.resume.protocol import (
    ACKNOWLEDGE_BYTES,
    ACKNOWLEDGE_SECONDS,
    ControlMessage,
    ResumeNegotiation,
    RetryPolicy,
    control,
    may_have_control,
    read_control,
)
from duologue.transports.stdio.socket import OUTPUT_STALL_SECONDS

_log = logging.getLogger("duologue.transports")

PING_SECONDS = 20.0
"""Between two pings, and for the answer to one: a dead network is noticed within twice as long."""

PERMANENT_ERRORS = {400, 401, 403, 404, 405, 410, 426}
"""HTTP statuses after which another attempt is useless."""


class WebSocketTransport(BufferedTransport):
    """Frames over a WebSocket, one text message each.

    Args:
        address: URL, headers and certificates of the server.
        max_message_bytes: Longest message that is received.
        max_queued_bytes: Output that may wait; four times as much ends the connection with `OutputLimitExceeded`.
        output_stall: Seconds after which a connection ends whose waiting output makes no progress.
        ping_seconds: Between two pings.
        retry: How to reconnect after a break.

    Attributes:
        reconnects: How often a broken connection was resumed.

    Raises:
        ConnectError: On entering: no server answers at this URL, or it rejects the client.
    """

    def __init__(
        self,
        address: RemoteEndpoint,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        output_stall: float | None = OUTPUT_STALL_SECONDS,
        ping_seconds: float = PING_SECONDS,
        retry: RetryPolicy | None = None,
    ) -> None:
        super().__init__(max_queued_bytes)
        self.address = address
        self.reconnects = 0
        self._retry = retry or RetryPolicy()
        self._connector = WebSocketConnector(
            address,
            max_message_bytes=max_message_bytes,
            write_ahead=min(WRITE_AHEAD, max_queued_bytes),
            output_stall=output_stall,
            ping_seconds=ping_seconds,
        )
        self._socket: WebSocketConnection | None = None
        self._answer: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._negotiation = ResumeNegotiation()
        self._window = SentFrames()
        self._received = AckCounter()
        self._ack_timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        socket = await self._connector.connect()
        self._send_error = None
        self._begin(socket)
        self._task = asyncio.get_running_loop().create_task(self._run(socket))
        return self

    # Reading

    def _on_read(self, unread: int) -> None:
        if unread > READ_AHEAD and self._socket is not None:
            self._socket.transport.resume_reading()

    def on_messages(self, socket: WebSocketConnection, frames: list[bytes]) -> None:
        """Deliver messages that are meant for the layers above, and process the others."""
        if self._is_ended:
            return
        if self._answer is not None and socket is not self._socket:
            frames = self._on_resumed(socket, frames)
        is_over = self._negotiation.is_over
        if is_over and self._negotiation.grant is None:
            self._deliver(frames)
        elif frames and is_over and not may_have_control(frames):
            self._count(frames)
            self._deliver(frames)
        elif frames:
            self._deliver([each for frame in frames if (each := self._counted(frame)) is not None])

    def _counted(self, frame: bytes) -> bytes | None:
        if not self._negotiation.is_over:
            frame = self._negotiation.incoming(frame)
            self._on_negotiated()
            return frame
        if self._negotiation.grant is None:
            return frame
        message = read_control(frame)
        if message is not None:
            self._on_control(*message)
            return None
        self._count([frame])
        return frame

    def _count(self, frames: list[bytes]) -> None:
        """Count frames that arrived, and acknowledge them now or later."""
        self._received.add(*frames)
        if self._received.is_due:
            self._acknowledge()
        elif self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(ACKNOWLEDGE_SECONDS, self._acknowledge)

    def _on_negotiated(self) -> None:
        if not self._negotiation.is_over:
            return
        if (grant := self._negotiation.grant) is not None:
            # A server with a smaller window would wait for acknowledgements that come too late.
            self._received = AckCounter(size=min(ACKNOWLEDGE_BYTES, grant.window_bytes // 8))
            return
        self._window = SentFrames()  # nothing will be requested again
        self.update_congestion()

    def _on_control(self, name: str, message: ControlMessage) -> None:
        if name == "received" and self._window.acknowledge(message.count):
            self.update_congestion()

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self._socket is not None and self._received.has_unacknowledged:
            self._socket.put(control("received", count=self._received.acknowledge()))

    def _deliver(self, frames: list[bytes]) -> None:
        if frames:
            before = self._unread_bytes
            super()._deliver(frames)
            if before <= READ_AHEAD < self._unread_bytes and self._socket is not None:
                self._socket.transport.pause_reading()

    # Writing

    @property
    def pending_bytes(self) -> int:
        return self._window.size if self._socket is None else self._socket.unwritten

    def send(self, frame: bytes) -> None:
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)
        if self._negotiation.is_asked and (self._negotiation.grant is not None or not self._negotiation.is_over):
            self._window.append(frame)
        elif not self._negotiation.is_over:
            frame = self._negotiation.outgoing(frame)
        if self._socket is not None:
            self._socket.put(frame)
        if self._window.is_full or self._socket is None:
            self.update_congestion()
        if (
            self.is_congested
            and (waiting := max(self.pending_bytes, self._window.size)) > self._max_queued * HARD_LIMIT_FACTOR
        ):
            self._exceed_output(waiting)

    def update_congestion(self) -> None:
        """Let producers wait, or continue."""
        is_stuck = self._socket is not None and self._socket.paused
        self.is_congested = self._send_error is None and (is_stuck or self._window.is_full)
        if not self.is_congested:
            self._capacity_freed.set()

    # One WebSocket after the other

    async def _run(self, socket: WebSocketConnection) -> None:
        failure: DuologueError | None = None
        try:
            while True:
                await socket.wait_closed()
                self._socket = None
                ending = close_reason(socket)
                if self._negotiation.grant is None or not ending.is_broken:
                    failure = ending.failure
                    break
                socket = await self._reconnect(ending)
        except DuologueError as error:
            failure = error
        except Exception as error:
            _log.exception("the WebSocket failed unexpectedly")
            failure = ConnectionLost(f"the WebSocket failed unexpectedly: {error}")
        self._end(failure)

    async def _reconnect(self, ending: CloseReason) -> WebSocketConnection:
        """Open a new WebSocket and resume the connection on it.

        Raises:
            ResumeFailed: The server no longer has what the client missed.
            ConnectionLost: The server cannot be reached or rejects the client.
        """
        assert self._negotiation.grant is not None
        reason: Exception | None = ending.failure
        for pause in self._retry.pauses_within(self._negotiation.grant.grace_seconds):
            await asyncio.sleep(pause)
            try:
                return await self._resume(await self._connector.connect())
            except ConnectError as error:
                if error.status in PERMANENT_ERRORS:
                    raise ConnectionLost(f"the server rejected the reconnecting client: {error}") from error
                reason = error
            except (OSError, TimeoutError) as error:
                reason = error
        raise ConnectionLost(f"the connection broke and could not be resumed in time: {reason}")

    async def _resume(self, socket: WebSocketConnection) -> WebSocketConnection:
        """Request to resume; `_on_resumed` processes the answer before anything that follows it."""
        assert self._negotiation.grant is not None
        self._answer = asyncio.get_running_loop().create_future()
        closing = socket.connection_lost_waiter
        try:
            received = self._received.count
            socket.put(control("resume", connectionId=self._negotiation.grant.connection_id, received=received))
            socket.listener = self
            socket.deliver()
            async with asyncio.timeout(OPEN_SECONDS):
                await asyncio.wait([self._answer, closing], return_when=asyncio.FIRST_COMPLETED)
            if self._answer.done():
                self._answer.result()
                return socket
            ending = close_reason(socket)
            if not ending.is_broken:
                raise ending.failure or ConnectionLost("the server closed the connection instead of resuming it")
            raise OSError(str(ending.failure))
        except BaseException:
            socket.transport.abort()
            raise
        finally:
            self._answer.cancel()
            self._answer = None

    def _on_resumed(self, socket: WebSocketConnection, frames: list[bytes]) -> list[bytes]:
        """Process the answer to the request to resume; return the frames after it."""
        assert self._answer is not None
        if self._answer.done():
            return []
        name, message = read_control(frames[0]) or ("", ControlMessage())
        if name == "resumed" and self._window.acknowledge(message.received):
            self._begin(socket)
            self.reconnects += 1
            self._received.acknowledge()
            for frame in self._window.after(message.received):
                socket.put(frame)
            self._answer.set_result(None)
            return frames[1:]
        reason = message.reason if name == "lost" else "the server sent no valid answer"
        self._answer.set_exception(history_lost(reason))
        return []

    def _begin(self, socket: WebSocketConnection) -> None:
        self._socket = socket
        if self._unread_bytes > READ_AHEAD:
            socket.transport.pause_reading()
        if socket.listener is None:
            socket.listener = self
            socket.deliver()
        self.update_congestion()

    # The end

    def _end(self, failure: DuologueError | None) -> None:
        if self._is_ended:
            return
        super()._end(failure)
        self._send_error = (
            failure if isinstance(failure, ConnectionLost) else ConnectionLost("the connection is closed")
        )
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        if self._socket is not None and failure is not None:
            self._socket.transport.abort()
        self.update_congestion()

    async def aclose(self) -> None:
        socket = self._socket
        self._end(None)
        self._send_error = ConnectionLost("this transport is closed")
        if self._task is None:
            return
        task, self._task = self._task, None
        try:
            if socket is not None:
                socket.transport.resume_reading()  # or the close frame of the server is never read
                await socket.close()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._connector.cookies.clear()
