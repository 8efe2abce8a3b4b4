"""WebSocket: one message in each text frame, and a connection that survives the loss of its socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from starlette.types import Receive, Send

from duologue.jsonrpc.codec import Malformed, parse, serialize_error
from duologue.jsonrpc.envelope import Envelope
from duologue.transports.buffered import Wakeup
from duologue.transports.methods import INITIALIZE
from duologue.transports.offload import run_offloaded
from duologue.transports.resume.buffers import AckCounter, ReplayBuffer
from duologue.transports.resume.protocol import (
    HISTORY_LOST,
    REPLACED,
    ControlMessage,
    attach_resume_grant,
    control,
    extract_resume_request,
    read_control,
)
from duologue.transports.server.asgi_extensions import Listen, Write
from duologue.transports.server.connection import ServerConnection, examine
from duologue.transports.server.limits import Limits
from duologue.transports.server.metrics import Metrics
from duologue.transports.server.registry import ConnectionRegistry
from duologue.transports.server.websocket_frames import WebSocketFrames, texts_of

CLEAN_CLOSE = 1000
PROTOCOL_ERROR = 1002
TOO_BIG = 1009
TRY_LATER = 1013


class WebSocketServerConnection(ServerConnection):
    """A connection over WebSocket, which one socket after the other may carry."""

    kind = "websocket"

    def __init__(self, id: str, caller: str, limits: Limits, metrics: Metrics) -> None:
        super().__init__(id, caller, limits, metrics)
        self.window = ReplayBuffer(limits.window_bytes, limits.window_frames, WebSocketFrames, stores_sent=False)
        self.handler: WebSocketHandler | None = None
        self.flushes_at_once = False
        """Whether to write the next frame without delay: after a message of the client it is probably the response."""
        self.received = AckCounter(limits.acknowledge_frames, limits.acknowledge_bytes)
        self._unacknowledged_since = 0.0

    @property
    def pending_bytes(self) -> int:
        return self.window.waiting_bytes

    def send_initialize_response(self, frame: bytes) -> None:
        if not self.is_resumable:
            self.route(frame, None)
            return
        self.window.append(attach_resume_grant(frame, self.resume_grant))
        self.window.start_counting()
        self.wake()

    def route(self, frame: bytes, envelope: Envelope | None) -> None:
        self.route_many([frame], len(frame))

    def route_many(self, frames: list[bytes], size: int) -> None:
        window = self.window
        window.extend(frames, size)
        if self.handler is None:
            window.trim()
            self.is_congested = window.is_filling
            return
        if window.waiting_bytes > self.limits.write_ahead or (self.is_resumable and window.is_filling):
            self.is_congested = True
        if self.flushes_at_once or len(frames) > 1:  # several were already collected by the agent
            self.flushes_at_once = False
            self.handler.flush(self)
        else:
            self.handler.wakeup.set()

    def route_response(self, frame: bytes, envelope: Envelope, request: Envelope | None) -> None:
        self.route(frame, envelope)

    def wake(self) -> None:
        if self.handler is None:
            return
        if self.is_gone and self.handler.blocked_since is not None:
            self.handler.abort()
        self.handler.wakeup.set()

    def check(self, now: float) -> None:
        handler = self.handler
        if handler is None:
            return
        if handler.blocked_since is not None and now - handler.blocked_since > self.limits.stall_seconds:
            handler.abort()
        elif self.received.has_unacknowledged and now - self._unacknowledged_since > self.limits.acknowledge_seconds:
            self._acknowledge(handler)

    # --- used by the handler of the socket

    def attach(self, handler: WebSocketHandler) -> None:
        """Let this socket carry the connection from now on."""
        if self.handler is not None:
            self.handler.close(REPLACED)
        self.handler = handler
        self.cancel_grace_timer()

    def detach(self, handler: WebSocketHandler, code: int) -> None:
        """Wait for the client to resume, or end, after this socket was closed."""
        if self.handler is not handler:
            return
        self.handler = None
        if code == CLEAN_CLOSE or not self.is_resumable or not self.is_initialized or self.is_over:
            self.end()
            return
        self.window.trim()
        if not self.window.is_filling:
            self._end_congestion()
        self.start_grace_timer()

    def update_congestion(self) -> None:
        """Let the agent continue, if enough was sent, and enough of that acknowledged."""
        is_behind = self.window.waiting_bytes >= self.limits.write_ahead // 2
        if self.is_congested and not is_behind and not (self.is_resumable and self.window.is_filling):
            self._end_congestion()

    def rewind(self, position: object) -> bool:
        """Go back to the number of frames that a client says it has; `False` if that is impossible."""
        if not isinstance(position, int) or isinstance(position, bool) or position < 0:
            return False
        return self.window.rewind(position)

    def count(self, frame: bytes, handler: WebSocketHandler) -> None:
        """Count a frame of the client, and acknowledge some of them now and then."""
        if not self.is_resumable:
            return
        if not self.received.has_unacknowledged:
            self._unacknowledged_since = self._loop.time()
        self.received.add(frame)
        if self.received.is_due:
            self._acknowledge(handler)

    def _acknowledge(self, handler: WebSocketHandler) -> None:
        handler.send_control(control("received", count=self.received.acknowledge()))


class WebSocketHandler:
    """Serve one socket, from its first message to its end.

    Args:
        receive: Returns the next event of the web server.
        send: Sends an event to the web server.
        connections: Where connections are opened and found again.
        caller: The authenticated caller.
        abort: Drops the TCP connection.
        write: Writes frames at once, if the web server can.
        listen: Sets what is called with texts the moment they arrive, if the web server can do that.

    Attributes:
        blocked_since: When the write began that the client does not read; `None` while it reads.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        connections: ConnectionRegistry,
        caller: str,
        abort: Callable[[], object],
        write: Write | None = None,
        listen: Listen | None = None,
    ) -> None:
        self._abort = abort
        self._write_now = write
        self._listen = listen
        self._is_receiving = False
        self._writable: asyncio.Event | None = None
        self._is_idle = False
        self.wakeup = Wakeup()
        self.blocked_since: float | None = None
        self._receive = receive
        self._send = send
        self._connections = connections
        self._limits = connections.limits
        self._caller = caller
        self._loop = asyncio.get_running_loop()
        self._control_frames: list[bytes] = []
        self._close_code: int | None = None
        self._scope: asyncio.Timeout | None = None
        self._received_code = 1006

    async def run(self, id: str) -> None:
        """Carry a new connection with this id, or an earlier one that the client resumes."""
        try:
            async with asyncio.timeout(self._limits.init_seconds):
                connection = await self._begin(id)
        except TimeoutError:
            connection = None
            await self._close(PROTOCOL_ERROR, "no initialize")
        if connection is None:
            return
        try:
            async with asyncio.timeout(None) as self._scope, asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(connection))
                try:
                    await self._read(connection)
                finally:
                    writing.cancel()
        except TimeoutError:
            pass  # aborted
        finally:
            self._scope = None
            connection.detach(self, self._received_code)

    def abort(self) -> None:
        """Drop a client that reads nothing: it would not read a close frame either."""
        self._abort()
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.reschedule(self._loop.time())

    def close(self, code: int) -> None:
        """Close this socket, because another one carries the connection now."""
        self._close_code = code
        self.wakeup.set()
        if self.blocked_since is not None:
            self.abort()

    def send_control(self, frame: bytes) -> None:
        """Send a control message before anything of the agent."""
        self._control_frames.append(frame)
        self.wakeup.set()

    # --- the first message

    async def _begin(self, id: str) -> WebSocketServerConnection | None:
        while (frame := await self._next()) is not None:
            name, params = read_control(frame) or ("", ControlMessage())
            if name == "resume":
                return await self._resume(params)
            try:
                message = await run_offloaded(parse, frame)
            except Malformed as malformed:
                await self._send_frame(serialize_error(malformed.id, malformed.error))
                continue
            if message.method != INITIALIZE or not isinstance(message.id, (int, str)):
                await self._close(PROTOCOL_ERROR, "the first message must be initialize")
                return None
            if not self._connections.can_open:
                await self._close(TRY_LATER, "too many connections")
                return None
            return await self._open(id, frame)
        return None

    async def _open(self, id: str, frame: bytes) -> WebSocketServerConnection:
        connection = WebSocketServerConnection(id, self._caller, self._limits, self._connections.metrics)
        frame, connection.is_resumable = extract_resume_request(frame)
        connection.attach(self)
        self._connections.open(connection)
        connection.deliver(frame, await run_offloaded(examine, frame))
        return connection

    async def _resume(self, request: ControlMessage) -> WebSocketServerConnection | None:
        metrics = self._connections.metrics
        connection = self._connections.find(request.connection_id, self._caller)
        if not isinstance(connection, WebSocketServerConnection) or not connection.is_resumable:
            reason = "there is no such connection; load the session"
        elif not connection.rewind(request.received):
            connection.end()
            reason = "what the client missed is no longer there; load the session"
        else:
            metrics.resumed += 1
            self.send_control(control("resumed", received=connection.received.count))
            connection.attach(self)
            connection.update_congestion()
            return connection
        metrics.lost += 1
        await self._send_frame(control("lost", reason=reason))
        await self._close(HISTORY_LOST, "history lost")
        return None

    # --- later messages

    async def _read(self, connection: WebSocketServerConnection) -> None:
        if self._listen is not None:
            self._listen(partial(self._on_text, connection))
        while True:
            self._is_receiving = True
            frame = await self._next()
            self._is_receiving = False
            if frame is None:
                return
            if connection.handler is not self:
                continue  # another socket carries the connection; this one only waits for its close frame
            if not self._count(connection, frame):
                connection.deliver(frame, await run_offloaded(examine, frame))
                await connection.wait_for_capacity()

    def _on_text(self, connection: WebSocketServerConnection, frame: bytes) -> bool:
        """Process a message the moment it arrives; `False` leaves it to `_read`, because it or an earlier one waits."""
        if not self._is_receiving or connection.handler is not self or connection.has_unread:
            return False
        if len(frame) > self._limits.message_bytes:
            return False
        if not self._count(connection, frame):
            connection.deliver(frame, examine(frame))
        return True

    def _count(self, connection: WebSocketServerConnection, frame: bytes) -> bool:
        """Process an acknowledgement, or count another message; return whether it is an acknowledgement."""
        message = read_control(frame) if connection.is_resumable else None
        if message is not None and message[0] == "received":
            connection.window.acknowledge(message[1].count)
            connection.update_congestion()
            return True
        connection.count(frame, self)
        connection.flushes_at_once = True
        return False

    async def _next(self) -> bytes | None:
        """Return the next text message; `None` when the socket is closed."""
        while (message := await self._receive())["type"] == "websocket.receive":
            text: str | None = message.get("text")
            if text is None:
                continue
            frame = text.encode()
            if len(frame) > self._limits.message_bytes:
                await self._close(TOO_BIG, "message too large")
                continue
            return frame
        if message["type"] == "websocket.disconnect":
            self._received_code = message.get("code", 1006)
        return None

    async def _write(self, connection: WebSocketServerConnection) -> None:
        window = connection.window
        with suppress(OSError):  # the client is gone, as the reader will notice
            while True:
                if self._control_frames:
                    await self._send_frame(self._control_frames.pop(0))
                elif connection.handler is self and (data := window.take(self._limits.write_ahead)):
                    await self._send_data(data)
                    connection.update_congestion()
                elif self._close_code is not None:
                    await self._close(self._close_code, "taken over")
                    return
                elif connection.is_finished or connection.is_gone:
                    await self._close(connection.close_code, "")
                    return
                elif self._writable is not None and not self._writable.is_set():
                    await self._until_writable(self._writable)
                    connection.update_congestion()
                else:
                    self._is_idle = True
                    await self.wakeup.wait()
                    self._is_idle = False

    def flush(self, connection: WebSocketServerConnection) -> None:
        """Write at once, if the writer has nothing else to write; else let it write in its turn."""
        if not self._is_idle or self._control_frames or self._write_now is None:
            self.wakeup.set()
            return
        with suppress(OSError):  # the client is gone, as the reader will notice
            self._writable = self._write_now(connection.window.take(self._limits.write_ahead))
            if self._writable.is_set() and not connection.window.waiting_bytes:
                connection.update_congestion()
            else:
                self.wakeup.set()

    async def _send_frame(self, frame: bytes) -> None:
        await self._send_data(WebSocketFrames.encode([frame]))

    async def _send_data(self, data: bytes) -> None:
        if self._write_now is not None:
            self._writable = self._write_now(data)
            if not self._writable.is_set():
                await self._until_writable(self._writable)
            return
        self.blocked_since = self._loop.time()
        for text in texts_of(data):
            await self._send({"type": "websocket.send", "text": text})
        self.blocked_since = None

    async def _until_writable(self, writable: asyncio.Event) -> None:
        self.blocked_since = self._loop.time()
        await writable.wait()
        self.blocked_since = None

    async def _close(self, code: int, reason: str) -> None:
        with suppress(OSError):
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
