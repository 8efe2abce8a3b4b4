"""Streamable HTTP, from the agent to the client: an event stream for the connection, and one for each session."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from starlette.types import Receive, Send

from duologue.errors import ConnectionLost, InvalidRequest
from duologue.jsonrpc.codec import serialize_error
from duologue.jsonrpc.envelope import Envelope, PendingRequests
from duologue.jsonrpc.messages import Id
from duologue.transports.server.auth import RequestRejected
from duologue.transports.server.connection import ServerConnection
from duologue.transports.server.limits import Limits
from duologue.transports.server.metrics import Metrics
from duologue.transports.server.replay_buffer import ReplayBuffer
from duologue.transports.server.resume_messages import attach_resume_grant
from duologue.transports.server.wakeup import Wakeup

__all__ = ["HttpServerConnection", "StreamReader"]

GATHERED = 64 * 1024
"""Bytes of events that leave in one piece, more or less."""

OPENING = ("session/load", "session/resume")
ENDING = ("session/close", "session/delete")
HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would wait for more
]


class AfterEvent(bytes):
    """A frame that belongs behind event number `after` of its session's own stream."""

    after: int

    def __new__(cls, frame: bytes, after: int) -> Self:
        self = super().__new__(cls, frame)
        self.after = after
        return self


class Stream:
    """What goes to one event stream, read or not."""

    def __init__(self, limits: Limits) -> None:
        self.window = ReplayBuffer(limits.window_bytes, limits.window_frames, keeps=True)
        self.reader: StreamReader | None = None


class HttpServerConnection(ServerConnection):
    """A connection over HTTP: messages arrive one by one, and leave on streams."""

    kind = "http"

    def __init__(self, id: str, caller: str, limits: Limits, numbers: Metrics) -> None:
        super().__init__(id, caller, limits, numbers)
        self.sessions: set[str] = set()
        """Those that the agent has introduced here."""
        self.asked: PendingRequests[str | None] = PendingRequests()
        """The agent's own requests, each with its session."""
        self._welcome: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._streams: dict[str | None, Stream] = {}
        self._closed: deque[str] = deque()
        """Sessions that are over, and whose streams may go when there is no room for others."""
        self._congested: set[Stream] = set()
        self._kept = 0
        self._done: set[int] = set()
        self._done_up_to = 0

    @property
    def pending_bytes(self) -> int:
        return self._kept

    async def welcome(self) -> bytes | None:
        """The answer to `initialize`; `None` if the agent ended without one."""
        return await self._welcome

    # --- where the agent's words go

    def send_initialize_response(self, frame: bytes) -> None:
        if self.is_resumable:
            frame = attach_resume_grant(frame, self.resume_grant)
            self.start_grace_timer()
        if not self._welcome.done():
            self._welcome.set_result(frame)

    def route(self, frame: bytes, shape: Envelope | None) -> None:
        session = None if shape is None else shape.session
        if shape is not None and (id := shape.request_id) is not None:
            self.asked.add(id, session)
        self._append(session, frame)

    def route_answer(self, frame: bytes, shape: Envelope, request: Envelope | None) -> None:
        if shape.made_session is not None:
            self.sessions.add(shape.made_session)
        session = None if request is None else request.session
        if request is not None and session is not None and request.method in OPENING and not shape.is_error:
            self.sessions.add(session)
            with suppress(ValueError):
                self._closed.remove(session)
        if request is not None and session is not None and request.method in ENDING and not shape.is_error:
            if session not in self._closed:
                self._closed.append(session)
            if len(self._closed) > self.limits.streams:
                self._drop_closed()
        if request is None or request.method != "session/load":
            self._append(session, frame)
            return
        # The proposal sends this answer another way than the replay it ends: clients of ours wait until that is whole.
        replay = self._streams.get(session)
        self._append(None, AfterEvent(frame, 0 if replay is None else replay.window.newest))

    def _append(self, session: str | None, frame: bytes) -> None:
        stream = self.stream(session)
        if stream is None:
            self.fail(ConnectionLost(f"more than {self.limits.streams} streams"))
            return
        stream.window.append(frame)
        self._kept += len(frame)
        if stream.reader is None:
            before = stream.window.kept_bytes
            stream.window.trim()
            self._kept += stream.window.kept_bytes - before
            if self.is_resumable and stream.window.is_filling and not self._is_read:
                self._congested.add(stream)
                self.is_congested = True
        else:
            if stream.window.waiting_bytes > self.limits.write_ahead:
                self._congested.add(stream)
                self.is_congested = True
            stream.reader.wakeup.set()
        if self._kept > self.limits.queued_bytes:
            for each in self._streams.values():
                each.window.acknowledge(each.window.last_taken)
            self.measure()

    def measure(self) -> None:
        """Windows have changed: add up again what is kept."""
        self._kept = sum(stream.window.kept_bytes for stream in self._streams.values())

    def kept_changed(self, difference: int) -> None:
        """So much more is kept, or less."""
        self._kept += difference

    def stream(self, session: str | None) -> Stream | None:
        """The stream of a session, or of the connection itself; `None` if there are too many."""
        stream = self._streams.get(session)
        if stream is None and (len(self._streams) < self.limits.streams or self._drop_closed()):
            stream = self._streams[session] = Stream(self.limits)
        return stream

    def _drop_closed(self) -> bool:
        """Make room by the stream of a session that is over; whether there was one."""
        while self._closed:
            if self._drop(self._closed.popleft()):
                return True
        return False

    def begin_anew(self, session: str | None) -> None:
        """Drop the stream of a closed session before it is read from its beginning: the next one counts from 1."""
        if session is not None and session in self._closed:
            self._closed.remove(session)
            self._drop(session)

    def _drop(self, session: str) -> bool:
        """Drop the stream of a session that is over; whether there was one."""
        self.sessions.discard(session)
        stream = self._streams.pop(session, None)
        if stream is None:
            return False
        self._congested.discard(stream)
        self.measure()
        reader, stream.reader = stream.reader, None
        if reader is not None:
            reader.make_way()
        return True

    # --- what the client posts

    def is_new(self, number: int) -> bool:
        """Whether the message of this number was not here before; from now on it was.

        Raises:
            Refusal: Too many numbers before it are missing.
        """
        if number > self._done_up_to + self.limits.window_frames:
            raise RequestRejected(400, f"the messages from number {self._done_up_to + 1} on are missing")
        if number <= self._done_up_to or number in self._done:
            return False
        self._done.add(number)
        while self._done_up_to + 1 in self._done:
            self._done_up_to += 1
            self._done.discard(self._done_up_to)
        return True

    def answers(self, id: Id) -> str | None:
        """The session of the agent's request that is answered here, if it has one."""
        return self.asked.get(id)

    # --- who reads

    @property
    def _is_read(self) -> bool:
        return any(stream.reader is not None for stream in self._streams.values())

    def is_read_again(self) -> None:
        """Somebody is there: nothing waits any longer for streams that nobody reads."""
        self.cancel_grace_timer()
        self._congested = {stream for stream in self._congested if stream.reader is not None}
        if self.is_congested and not self._congested:
            self.make_room()

    def relieved(self, stream: Stream) -> None:
        """A stream flows again, or nobody reads it."""
        self._congested.discard(stream)
        if self.is_congested and not self._congested:
            self.make_room()

    def left(self, stream: Stream, reader: StreamReader) -> None:
        """A reader is gone."""
        if stream.reader is not reader:
            return
        stream.reader = None
        stream.window.trim()
        self.measure()
        self.relieved(stream)
        if self.is_resumable and not self.is_over and not self._is_read:
            self.start_grace_timer()

    def wake(self) -> None:
        if not self._welcome.done():
            self._welcome.set_result(None)
        for stream in self._streams.values():
            if stream.reader is not None:
                stream.reader.wakeup.set()
                if self.is_gone:
                    stream.reader.make_way()

    def cut(self) -> None:
        """Leave every reader without good-bye."""
        for stream in self._streams.values():
            if stream.reader is not None:
                stream.reader.cut()

    def check(self, now: float) -> None:
        for stream in self._streams.values():
            reader = stream.reader
            since = None if reader is None else reader.blocked_since
            if reader is not None and since is not None and now - since > self.limits.stall_seconds:
                reader.cut()


class StreamReader:
    """One GET: reads a stream until either side leaves.

    Args:
        held: The connection.
        stream: One of its streams.
        abort: Cuts off who reads it.
    """

    def __init__(self, held: HttpServerConnection, stream: Stream, abort: Callable[[], object]) -> None:
        self._abort = abort
        self.wakeup = Wakeup()
        self.blocked_since: float | None = None
        """Since when the client takes nothing of what is being sent."""
        self._held = held
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._scope: asyncio.Timeout | None = None

    def begin(self, last_seen: str | None) -> None:
        """Take the stream, from the first event that was not seen.

        Raises:
            Refusal: Somebody reads it, or something was missed for good.
        """
        stream, held = self._stream, self._held
        if last_seen is None and stream.reader is not None:
            raise RequestRejected(409, "this stream is being read already")
        window = stream.window
        if last_seen is None:
            is_whole = not window.has_gap
        else:
            # Digits alone: `int` would take signs, blanks and underscores.
            number = int(last_seen) if last_seen.isascii() and last_seen.isdigit() and len(last_seen) < 20 else -1
            is_whole = number >= 0 and window.rewind(number)
            held.numbers.resumed += is_whole
        if not is_whole:
            window.forget()
            held.measure()
            held.numbers.lost += 1
            error = InvalidRequest("history lost, load the session")
            raise RequestRejected(410, error.message, body=serialize_error(None, error))
        held.measure()
        before, stream.reader = stream.reader, self
        if before is not None:
            before.make_way()
        held.is_read_again()

    def cut(self) -> None:
        """The client takes nothing: leave without good-bye, which it would not take either."""
        self._abort()
        self.leave()

    def leave(self) -> None:
        """Stop reading."""
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.reschedule(self._loop.time())

    def make_way(self) -> None:
        """Another reads on from here: end in good order, or at once if this one takes nothing."""
        self.wakeup.set()
        if self.blocked_since is not None:
            self.cut()

    async def run(self, receive: Receive, send: Send) -> None:
        """Tell events until somebody leaves."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        try:
            async with asyncio.timeout(None) as self._scope, asyncio.TaskGroup() as group:
                telling = group.create_task(self._tell(send))
                while (await receive())["type"] != "http.disconnect":
                    pass
                telling.cancel()
        except TimeoutError:
            pass  # told to leave
        finally:
            self._scope = None
            self._held.left(self._stream, self)

    async def _tell(self, send: Send) -> None:
        held = self._held
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
            while self._stream.reader is self:
                events = self._gather()
                if events:
                    await self._write(send, events)
                    if self._stream.window.waiting_bytes < held.limits.write_ahead // 2:
                        held.relieved(self._stream)
                elif held.is_finished or held.is_gone:
                    break
                else:
                    held.relieved(self._stream)
                    await self._wait(send)
            await send({"type": "http.response.body", "body": b""})
        self.leave()

    def _gather(self) -> bytes:
        window = self._stream.window
        events: list[bytes] = []
        size = 0
        before = window.kept_bytes
        while size < GATHERED and (frame := window.take()) is not None:
            after = b"after: %d\n" % frame.after if isinstance(frame, AfterEvent) else b""
            if b"\n" in frame or b"\r" in frame:  # outside of strings only: blanks are as good
                frame = frame.replace(b"\n", b" ").replace(b"\r", b" ")
            events.append(b"id: %d\n%bdata: %b\n\n" % (window.last_taken, after, frame))
            size += len(frame)
        self._held.kept_changed(window.kept_bytes - before)
        return b"".join(events)

    async def _write(self, send: Send, events: bytes) -> None:
        self.blocked_since = self._loop.time()
        await send({"type": "http.response.body", "body": events, "more_body": True})
        self.blocked_since = None

    async def _wait(self, send: Send) -> None:
        try:
            async with asyncio.timeout(self._held.limits.keepalive_seconds):
                await self.wakeup.wait()
        except TimeoutError:
            await self._write(send, b":\n\n")
