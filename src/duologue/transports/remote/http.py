"""The client side of streamable HTTP: frames are posted in order, and received in event streams.

The connection has one stream and each session another. `transports.resume` and `event_stream` resume broken ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import Any, Self

import httpx2
import msgspec

from duologue.errors import ConnectError, ConnectionLost, DuologueError, OutputLimitExceeded, ResumeFailed
from duologue.jsonrpc.envelope import Envelope, read_envelope
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.transports.base import Transport
from duologue.transports.remote.event_stream import BUSY, EventStream
from duologue.transports.remote.http_client import (
    CONNECTION,
    SESSION,
    HttpClient,
    HttpResponse,
    first_error,
    unreachable,
)
from duologue.transports.remote.sse import Event
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.resume import ResumeNegotiation, RetryPolicy
from duologue.transports.stdio.line_stream import (
    HARD_MARK_FACTOR,
    LINGER_SECONDS,
    MAX_QUEUED_BYTES,
    READ_AHEAD,
    WRITE_AHEAD,
)

__all__ = ["HttpTransport"]

_log = logging.getLogger("duologue.transports")

NUMBER = "Duologue-Message"  # the header that numbers posts, so that the server handles each once

REPLAYS = {"session/load", "session/resume", "session/fork"}
ENDINGS = {"session/close", "session/delete"}
NO_SUCH_SESSION = -32002
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603


class HttpTransport(Transport):
    """Frames over streamable HTTP.

    Args:
        address: Where, and how we show who we are.
        max_message_bytes: Longest message that is received.
        max_queued_bytes: Output that may wait; four times as much ends the connection with `OutputLimitExceeded`.
        patience: How to return after a break.

    Raises:
        ConnectError: From `receive`: no server answers at this URL, or it rejects the client.
    """

    def __init__(
        self,
        address: RemoteEndpoint,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        patience: RetryPolicy | None = None,
    ) -> None:
        self.address = address
        self._max_message, self._max_queued = max_message_bytes, max_queued_bytes
        self._patience = patience or RetryPolicy()
        self._greeting = ResumeNegotiation()
        self._connection_id: str | None = None
        self._posted = 0
        self._streams: dict[str, EventStream] = {}
        self._sent: dict[int | str, Envelope] = {}  # requests of sessions without a response
        self._asked: dict[int | str, str] = {}  # the session of each request that the agent waits for
        self._frames: list[bytes] = []
        self._untaken = 0
        self._arrival = asyncio.Event()
        self._taken = asyncio.Event()
        self._outgoing: deque[bytes] = deque()
        self._queued = 0
        self._departure = asyncio.Event()
        self._room = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._is_ended = False
        self._failure: DuologueError | None = None
        self._broken: ConnectionLost | None = ConnectionLost("this transport was not entered yet")  # or None

    async def __aenter__(self) -> Self:
        try:
            self._requester = HttpClient(self.address, self._max_message)
        except (ImportError, ValueError) as error:  # a proxy of the environment that makes no sense, or needs more
            raise ConnectError(f"cannot reach {self.address.url}: {error}") from error
        self._broken = None
        self._life = asyncio.get_running_loop().create_task(self._live())
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
        self._untaken = 0
        self._taken.set()
        return frames

    def _hand_over(self, frame: bytes) -> None:
        if self.on_frames is None or self._frames or not self.on_frames([frame]):
            self._frames.append(frame)
            self._untaken += len(frame)
            self._arrival.set()

    async def wait_for_capacity(self) -> None:
        """Wait until most of what was heard is taken: a flood stays in the network and not in memory."""
        while self._untaken > READ_AHEAD:
            self._taken.clear()
            await self._taken.wait()

    def on_event(self, stream: EventStream, event: Event) -> None:
        """One more message of the server: pass it on, and remember where answers belong."""
        if self._is_ended:
            return
        shape = read_envelope(event.data)
        if shape is not None and (id := shape.response_id) is not None:
            self._answered(stream, event, shape, self._sent.pop(id, None))
            return
        if shape is not None and (id := shape.request_id) is not None and stream.session is not None:
            self._asked[id] = stream.session
        self._hand_over(event.data)

    def _answered(self, stream: EventStream, event: Event, shape: Envelope, request: Envelope | None) -> None:
        if shape.made_session is not None:
            self._stream_of(shape.made_session)
        other = self._streams.get(request.session or "") if request is not None else None
        if other is None or request is None:
            self._hand_over(event.data)
        elif other is not stream and (event.after.isdecimal() or request.method in REPLAYS | ENDINGS):
            self._group.create_task(self._hold(event, other, shape, request))
        else:
            self._hand_over(event.data)
            self._leave_if_over(other, shape, request)

    async def _hold(self, event: Event, stream: EventStream, shape: Envelope, request: Envelope) -> None:
        await stream.caught_up_with(event)
        self._hand_over(event.data)
        self._leave_if_over(stream, shape, request)

    def _leave_if_over(self, stream: EventStream, shape: Envelope, request: Envelope) -> None:
        """Leave the stream of a closed session after the last answer: some servers send nothing on it any more."""
        if not shape.is_error and request.method in REPLAYS | ENDINGS:
            stream.is_closed = request.method in ENDINGS
        if stream.is_closed and not any(each.session == request.session for each in self._sent.values()):
            self._leave_stream(stream)

    # Writing

    @property
    def pending_bytes(self) -> int:
        return self._queued

    def send(self, frame: bytes) -> None:
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        self._outgoing.append(frame)
        self._queued += len(frame)
        self._departure.set()
        self.is_congested = self._queued > min(WRITE_AHEAD, self._max_queued)
        if self._queued > self._max_queued * HARD_MARK_FACTOR:
            failure = OutputLimitExceeded(f"{self._queued} bytes wait to be read; the bound is {self._max_queued}")
            self._end(failure)
            raise failure

    async def drain(self) -> None:
        while self.is_congested and self._broken is None:
            self._room.clear()
            await self._room.wait()
        if self._broken is not None:
            raise self._broken.with_traceback(None)

    # Life

    async def _live(self) -> None:
        failure: DuologueError | None = None
        try:
            async with asyncio.TaskGroup() as self._group:
                await self._post_all()
        except* DuologueError as group:
            failure = first_error(group)
        except* httpx2.HTTPError as group:
            failure = ConnectionLost(f"the connection broke: {first_error(group)!r}")
        except* Exception as group:
            _log.exception("the connection cannot go on")
            failure = ConnectionLost(f"the connection cannot go on: {first_error(group)}")
        self._end(failure)

    async def _post_all(self) -> None:
        while True:
            while self._outgoing:
                frame = self._outgoing[0]
                await self._post(frame)
                self._outgoing.popleft()
                self._queued -= len(frame)
                self.is_congested = self._queued > min(WRITE_AHEAD, self._max_queued)
                self._room.set()
            self._departure.clear()
            await self._departure.wait()

    async def _post(self, frame: bytes) -> None:
        shape = read_envelope(frame) or Envelope()
        if self._connection_id is None:
            await self._introduce(frame, shape)
            return
        session = self._session_of(shape)
        headers = {"Content-Type": "application/json", CONNECTION: self._connection_id}
        if session is not None:
            if shape.method in REPLAYS and (stream := self._streams.get(session)) is not None and stream.is_closed:
                self._leave_stream(stream)
            if (refusal := await self._prepare(session)) is not None:
                self._refuse(shape, NO_SUCH_SESSION, refusal)
                return
            headers[SESSION] = session
            if (id := shape.request_id) is not None:
                self._sent[id] = shape
        reply = await self._deliver(frame, headers)
        if not reply.is_good:
            self._refused(shape, session, reply)

    async def _introduce(self, frame: bytes, shape: Envelope) -> None:
        """The first exchange, whose answer comes at once; it says which connection this is."""
        if shape.method != "initialize":
            self._refuse(shape, INVALID_REQUEST, "the first message must be initialize")
            return
        asking = self._greeting.outgoing(frame)
        try:
            # How long an agent may take to start is for others to decide.
            reply = await self._requester.ask("POST", {"Content-Type": "application/json"}, asking, seconds=None)
        except httpx2.HTTPError as error:
            raise unreachable(self.address.url, error) from error
        answer = read_envelope(reply.body)
        if answer is None or not answer.is_response or answer.id != shape.id:
            raise unreachable(self.address.url, reply)
        body = self._greeting.incoming(reply.body)
        if reply.is_good and self._greeting.is_over:
            self._connection_id = reply.connection_id
            if self._connection_id is None:
                raise ConnectionLost("the server did not say which connection this is; does it speak ACP?")
            self._group.create_task(self._open(None).run())
        self._hand_over(body)

    def _session_of(self, shape: Envelope) -> str | None:
        id = shape.response_id
        return shape.session if id is None else self._asked.pop(id, None)

    async def _prepare(self, session: str) -> str | None:
        """Listen to a session before we speak in it; returns why that cannot be."""
        if not session.isascii() or not session.isprintable():
            return "this id cannot be written in a header"
        stream = self._stream_of(session)
        await stream.settled.wait()
        # There are servers that know a session only once it is loaded.
        return None if stream.refusal in (None, "HTTP 404") else f"the session cannot be heard: {stream.refusal}"

    def _stream_of(self, session: str) -> EventStream:
        stream = self._streams.get(session)
        if stream is None:
            stream = self._streams[session] = self._open(session)
            self._group.create_task(self._follow(session, stream))
        return stream

    def _open(self, session: str | None) -> EventStream:
        assert self._connection_id is not None
        headers = {CONNECTION: self._connection_id} | ({} if session is None else {SESSION: session})
        return EventStream(self._requester, headers, self._greeting.terms, self._patience, self._max_message, self)

    async def _follow(self, session: str, stream: EventStream) -> None:
        await stream.run()
        if self._streams.get(session) is stream:
            del self._streams[session]  # the next message of the session opens it anew
            if stream.refusal is None:
                self._refuse_unanswered(session, "the server ended the session's event stream")

    def _leave_stream(self, stream: EventStream) -> None:
        if stream.session is not None and self._streams.get(stream.session) is stream:
            del self._streams[stream.session]
            stream.leave()
            self._refuse_unanswered(stream.session, "the session was closed before this was answered")

    def _refuse_unanswered(self, session: str, reason: str) -> None:
        for id, shape in list(self._sent.items()):
            if shape.session == session:
                del self._sent[id]
                self._refuse(shape, INTERNAL_ERROR, reason)

    async def _deliver(self, frame: bytes, headers: dict[str, str]) -> HttpResponse:
        """Post it, once in effect however often it takes."""
        terms = self._greeting.terms
        if terms is None:
            return await self._requester.ask("POST", headers, frame)
        self._posted += 1
        headers[NUMBER] = str(self._posted)
        pauses = self._patience.pauses_within(terms.grace_seconds)
        while True:
            reason = ""
            try:
                reply = await self._requester.ask("POST", headers, frame)
                if reply.status not in BUSY - {409, 500}:
                    return reply
                reason = f"HTTP {reply.status}"
            except httpx2.HTTPError as error:
                reason = str(error) or type(error).__name__
            pause = next(pauses, None)
            if pause is None:
                raise ConnectionLost(f"a message could not be delivered in time: {reason}")
            await asyncio.sleep(pause)

    def _refused(self, shape: Envelope, session: str | None, reply: HttpResponse) -> None:
        """The server did not take a message: that is the end of the connection, or of this request alone."""
        # Of a session it may say the same; every server we know of names the connection if that is what it misses.
        is_unknown = reply.status in (404, 410) and (session is None or b"connection" in reply.body.lower())
        if is_unknown:
            kind = ResumeFailed if self._greeting.terms is not None else ConnectionLost
            raise kind(f"the server does not know this connection any more (HTTP {reply.status}); load the session")
        if reply.status in (401, 403):
            raise ConnectionLost(f"the server refuses us by now: HTTP {reply.status}")
        if isinstance(shape.id, int | str):
            self._sent.pop(shape.id, None)
        answer = read_envelope(reply.body)
        if answer is not None and answer.id == shape.id and isinstance(shape.id, int | str):
            self._hand_over(reply.body)
            return
        told = reply.body.decode("utf-8", "replace")
        code = NO_SUCH_SESSION if reply.status == 404 else INTERNAL_ERROR
        self._refuse(shape, code, f"HTTP {reply.status}: {told[:200]}", {"status": reply.status, "body": told})

    def _refuse(self, shape: Envelope, code: int, message: str, data: Any = None) -> None:
        """Answer a request of ours in place of the server."""
        if (id := shape.request_id) is not None:
            error = {"code": code, "message": message} | ({} if data is None else {"data": data})
            self._hand_over(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error}))
        elif shape.is_notification:
            _log.warning("the server did not take %s: %a", shape.method, message)
        else:
            raise ConnectionLost(f"the server did not take our answer: {message}")

    # The end

    def _end(self, failure: DuologueError | None) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._failure = failure
        self._broken = failure if isinstance(failure, ConnectionLost) else ConnectionLost("the connection is closed")
        self.is_congested = False
        self._arrival.set()
        self._room.set()

    async def aclose(self) -> None:
        if self._life is None:
            return
        life, self._life = self._life, None
        self._broken = ConnectionLost("this transport is closed")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    while self._outgoing and not self._is_ended:
                        self._room.clear()
                        await self._room.wait()
        finally:
            self._end(None)
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
            await self._leave()

    async def _leave(self) -> None:
        """Tell the server that we are gone; it would find out by itself, but late."""
        try:
            if self._connection_id is not None:
                async with asyncio.timeout(LINGER_SECONDS):
                    await self._requester.ask("DELETE", {CONNECTION: self._connection_id})
        except (httpx2.HTTPError, TimeoutError) as error:
            _log.debug("the server was not told of our leaving: %s", error)
        finally:
            await self._requester.aclose()
