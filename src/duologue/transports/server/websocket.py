"""WebSocket: one message in each text frame, and a connection that survives the loss of its socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.types import Receive, Send

from duologue.errors import InvalidRequest
from duologue.jsonrpc.codec import Malformed, parse, serialize_error
from duologue.jsonrpc.envelope import Ambiguous, Envelope, check_names, read_envelope
from duologue.transports.offload import examine
from duologue.transports.server.asgi_extensions import Write
from duologue.transports.server.connection import ServerConnection
from duologue.transports.server.limits import Limits
from duologue.transports.server.metrics import Metrics
from duologue.transports.server.registry import ConnectionRegistry
from duologue.transports.server.replay_buffer import ReplayBuffer
from duologue.transports.server.resume_messages import (
    Received,
    Resume,
    attach_resume_grant,
    extract_resume_request,
    lost_message,
    parse_control,
    received,
    resumed,
)
from duologue.transports.server.wakeup import Wakeup

__all__ = ["WebSocketHandler", "WebSocketServerConnection"]

CLEAN_CLOSE = 1000
PROTOCOL_ERROR = 1002
SLOW = 1008
TOO_BIG = 1009
TRY_LATER = 1013
REPLACED = 4409
HISTORY_LOST = 4410


NOTIFICATION = b'{"jsonrpc":"2.0","method":"'
GATHERED = 64 * 1024
"""Bytes of messages that leave in one piece, more or less."""


class WebSocketServerConnection(ServerConnection):
    """A connection over WebSocket, whichever socket carries it."""

    kind = "websocket"

    def __init__(self, id: str, caller: str, limits: Limits, numbers: Metrics) -> None:
        super().__init__(id, caller, limits, numbers)
        self.window = ReplayBuffer(limits.window_bytes, limits.window_frames, keeps=False)
        self.carrier: WebSocketHandler | None = None
        self.received_count = 0
        self._unacknowledged_frames = 0
        self._unacknowledged_bytes = 0
        self._unacknowledged_since = 0.0

    @property
    def pending_bytes(self) -> int:
        return self.window.waiting_bytes

    def send(self, frame: bytes) -> None:
        # Most of what an agent says are updates, and one without an id answers nothing: no need to look closer.
        if self.is_gone or self.is_finished or not frame.startswith(NOTIFICATION) or b'"id":' in frame:
            super().send(frame)
            return
        self.last_active = self._loop.time()
        self.numbers.sent(len(frame))
        self.route(frame, None)
        self.check_limit()

    def send_initialize_response(self, frame: bytes) -> None:
        if not self.is_resumable:
            self.route(frame, None)
            return
        self.window.append(attach_resume_grant(frame, self.resume_grant))
        self.window.start_counting()
        self.wake()

    def route(self, frame: bytes, shape: Envelope | None) -> None:
        self.window.append(frame)
        if self.carrier is None:
            self.window.trim()
            self.is_congested = self.window.is_filling
            return
        if self.window.waiting_bytes > self.limits.write_ahead or (self.is_resumable and self.window.is_filling):
            self.is_congested = True
        self.carrier.wakeup.set()

    def route_answer(self, frame: bytes, shape: Envelope, request: Envelope | None) -> None:
        self.route(frame, shape)

    def wake(self) -> None:
        if self.carrier is None:
            return
        if self.is_gone and self.carrier.blocked_since is not None:
            self.carrier.abort()
        self.carrier.wakeup.set()

    def check(self, now: float) -> None:
        carrier = self.carrier
        if carrier is None:
            return
        if carrier.blocked_since is not None and now - carrier.blocked_since > self.limits.stall_seconds:
            carrier.abort()
        elif self._unacknowledged_frames and now - self._unacknowledged_since > self.limits.acknowledge_seconds:
            self._acknowledge(carrier)

    # --- for those who carry it

    def attach(self, carrier: WebSocketHandler) -> None:
        """Another socket carries it from now on."""
        if self.carrier is not None:
            self.carrier.close(REPLACED)
        self.carrier = carrier
        self.cancel_grace_timer()

    def detach(self, carrier: WebSocketHandler, code: int) -> None:
        """This socket is gone."""
        if self.carrier is not carrier:
            return
        self.carrier = None
        if code == CLEAN_CLOSE or not self.is_resumable or not self.is_introduced or self.is_over:
            self.end()
            return
        self.window.trim()
        if not self.window.is_filling:
            self.make_room()
        self.start_grace_timer()

    def reconsider(self) -> None:
        """Let the agent go on, if enough has left, and enough of that has arrived."""
        is_behind = self.window.waiting_bytes >= self.limits.write_ahead // 2
        if self.is_congested and not is_behind and not (self.is_resumable and self.window.is_filling):
            self.make_room()

    def rewind(self, position: object) -> bool:
        """Go back to what a client says it has; false, if that is no place to go on from."""
        if not isinstance(position, int) or isinstance(position, bool) or position < 0:
            return False
        return self.window.rewind(position)

    def count(self, frame: bytes, carrier: WebSocketHandler) -> None:
        """One more frame of the client is here, and it wants to know that now and then."""
        if not self.is_resumable:
            return
        self.received_count += 1
        if not self._unacknowledged_frames:
            self._unacknowledged_since = asyncio.get_running_loop().time()
        self._unacknowledged_frames += 1
        self._unacknowledged_bytes += len(frame)
        limits = self.limits
        if (
            self._unacknowledged_frames >= limits.acknowledge_frames
            or self._unacknowledged_bytes >= limits.acknowledge_bytes
        ):
            self._acknowledge(carrier)

    def _acknowledge(self, carrier: WebSocketHandler) -> None:
        self._unacknowledged_frames = self._unacknowledged_bytes = 0
        carrier.send_control(received(self.received_count))


class WebSocketHandler:
    """One socket, from its first message to its end.

    Args:
        receive: Where messages of the web server come from.
        send: Where they go.
        connections: Where connections are opened and found again.
        caller: Who is on the other side.
        abort: Cuts them off.
        write: Writes many messages at once, if the web server can.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        connections: ConnectionRegistry,
        caller: str,
        abort: Callable[[], object],
        write: Write | None = None,
    ) -> None:
        self._abort = abort
        self._write_many = write or self._write_one_by_one
        self.wakeup = Wakeup()
        self.blocked_since: float | None = None
        """Since when the client takes nothing of what is being sent."""
        self._receive = receive
        self._send = send
        self._connections = connections
        self._limits = connections.limits
        self._caller = caller
        self._loop = asyncio.get_running_loop()
        self._first_words: list[bytes] = []
        self._close_code: int | None = None
        self._scope: asyncio.Timeout | None = None
        self._left_with = 1006

    async def run(self, id: str) -> None:
        """Carry a connection: a new one of this id, or an old one that is taken up again."""
        try:
            async with asyncio.timeout(self._limits.init_seconds):
                held = await self._begin(id)
        except TimeoutError:
            held = None
            await self._shut(PROTOCOL_ERROR, "no initialize")
        if held is None:
            return
        try:
            async with asyncio.timeout(None) as self._scope, asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(held))
                try:
                    await self._read(held)
                finally:
                    writing.cancel()
        except TimeoutError:
            pass  # cut
        finally:
            self._scope = None
            held.detach(self, self._left_with)

    def abort(self) -> None:
        """The client takes nothing: leave without good-bye, which it would not take either."""
        self._abort()
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.reschedule(self._loop.time())

    def close(self, code: int) -> None:
        """Leave the connection to another socket."""
        self._close_code = code
        self.wakeup.set()
        if self.blocked_since is not None:
            self.abort()

    def send_control(self, words: bytes) -> None:
        """Send something about the connection itself, before anything of the agent."""
        self._first_words.append(words)
        self.wakeup.set()

    # --- the first message

    async def _begin(self, id: str) -> WebSocketServerConnection | None:
        while (frame := await self._next()) is not None:
            words = parse_control(frame)
            if isinstance(words, Resume):
                return await self._come_back(words)
            try:
                message = await examine(parse, frame)
            except Malformed as malformed:
                await self._send_text(serialize_error(malformed.id, malformed.error))
                continue
            if message.method != "initialize" or not isinstance(message.id, (int, str)):
                await self._shut(PROTOCOL_ERROR, "the first message must be initialize")
                return None
            if not self._connections.can_open:
                await self._shut(TRY_LATER, "no more connections")
                return None
            return await self._open(id, frame)
        return None

    async def _open(self, id: str, frame: bytes) -> WebSocketServerConnection:
        held = WebSocketServerConnection(id, self._caller, self._limits, self._connections.numbers)
        frame, held.is_resumable = extract_resume_request(frame)
        held.attach(self)
        self._connections.open(held)
        await self._deliver(held, frame)
        return held

    async def _come_back(self, words: Resume) -> WebSocketServerConnection | None:
        numbers = self._connections.numbers
        held = self._connections.find(words.params.connection_id, self._caller)
        if not isinstance(held, WebSocketServerConnection) or not held.is_resumable:
            reason = "there is no such connection; load the session"
        elif not held.rewind(words.params.received):
            held.end()
            reason = "what was missed is not kept any more; load the session"
        else:
            numbers.resumed += 1
            self.send_control(resumed(held.received_count))
            held.attach(self)
            held.reconsider()
            return held
        numbers.lost += 1
        await self._send_text(lost_message(reason))
        await self._shut(HISTORY_LOST, "history lost")
        return None

    # --- then all others

    async def _read(self, held: WebSocketServerConnection) -> None:
        while (frame := await self._next()) is not None:
            if held.carrier is not self:
                continue  # another socket took over; this one only waits for its good-bye
            words = parse_control(frame) if held.is_resumable else None
            if isinstance(words, Received):
                held.window.acknowledge(words.params.count)
                held.reconsider()
                continue
            held.count(frame, self)
            await self._deliver(held, frame)
            await held.wait_for_capacity()

    async def _deliver(self, held: WebSocketServerConnection, frame: bytes) -> None:
        try:
            shape = await examine(_examine, frame)
        except Ambiguous as ambiguous:
            held.refuse(None, InvalidRequest(str(ambiguous)))
        else:
            held.deliver(frame, shape)

    async def _next(self) -> bytes | None:
        """The next text; `None` when there will be no more."""
        while (message := await self._receive())["type"] == "websocket.receive":
            text: str | None = message.get("text")
            if text is None:
                continue
            frame = text.encode()
            if len(frame) > self._limits.message_bytes:
                await self._shut(TOO_BIG, "message too large")
                continue
            return frame
        if message["type"] == "websocket.disconnect":
            self._left_with = message.get("code", 1006)
        return None

    async def _write(self, held: WebSocketServerConnection) -> None:
        window = held.window
        with suppress(OSError):  # the client is gone, as the reader will hear
            while True:
                if self._first_words:
                    await self._send_text(self._first_words.pop(0))
                elif held.carrier is self and (frames := window.take_many(GATHERED)):
                    await self._send_texts(frames)
                    held.reconsider()
                elif self._close_code is not None:
                    await self._shut(self._close_code, "taken over")
                    return
                elif held.is_finished or held.is_gone:
                    await self._shut(held.close_code, "")
                    return
                else:
                    await self.wakeup.wait()

    async def _send_text(self, frame: bytes) -> None:
        await self._send_texts([frame])

    async def _send_texts(self, frames: list[bytes]) -> None:
        self.blocked_since = self._loop.time()
        await self._write_many([frame if frame.isascii() else _as_text(frame) for frame in frames])
        self.blocked_since = None

    async def _write_one_by_one(self, frames: list[bytes]) -> None:
        for frame in frames:
            await self._send({"type": "websocket.send", "text": frame.decode()})

    async def _shut(self, code: int, reason: str) -> None:
        with suppress(OSError):
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


def _examine(frame: bytes) -> Envelope | None:
    check_names(frame)
    return read_envelope(frame)


def _as_text(frame: bytes) -> bytes:
    """An agent may have written anything; what is no text may not be sent as one."""
    try:
        frame.decode()
    except UnicodeDecodeError:
        return frame.decode("utf-8", "replace").encode()
    return frame
