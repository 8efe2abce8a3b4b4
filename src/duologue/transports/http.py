"""An agent behind HTTP, from the client's side: what we say is posted, what it says comes in event streams.

There is one stream for the connection and one for each session; they are read side by side. What we say is posted one
after the other, so that it arrives in order. Where the server lets us return, broken streams and posts are taken up
again; `returning` and `following` say how.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Self

import httpx2
import msgspec

from duologue.errors import ConnectionLost, DuologueError, HistoryLost, PeerTooSlow, Unreachable
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.jsonrpc.outline import Outline, outline
from duologue.transports.address import Address
from duologue.transports.base import Transport
from duologue.transports.following import BUSY, Stream
from duologue.transports.lines import HARD_MARK_FACTOR, LINGER_SECONDS, MAX_QUEUED_BYTES, READ_AHEAD, WRITE_AHEAD
from duologue.transports.requesting import CONNECTION, SESSION, Reply, Requester, first_error, unreachable
from duologue.transports.returning import Greeting, Patience
from duologue.transports.sse import Event

__all__ = ["HttpTransport"]

_log = logging.getLogger("duologue.transports")

NUMBER = "Duologue-Message"
"""The header that numbers what we post, so that the server does it once however often it arrives."""

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
        max_queued_bytes: Output that may wait; four times as much ends the connection with `PeerTooSlow`.
        patience: How to return after a break.

    Raises:
        Unreachable: From `receive`: nobody answers there, or refuses us; nobody knows before the first request.
    """

    def __init__(
        self,
        address: Address,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        patience: Patience | None = None,
    ) -> None:
        self.address = address
        self._max_message = max_message_bytes
        self._max_queued = max_queued_bytes
        self._patience = patience or Patience()
        self._greeting = Greeting()
        self._connection_id: str | None = None
        self._posted = 0
        self._streams: dict[str, Stream] = {}
        self._sent: dict[int | str, Outline] = {}
        """Our requests in sessions that have no answer yet."""
        self._asked: dict[int | str, str] = {}
        """In which session the agent asked what we have not answered yet."""
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
        self._broken: ConnectionLost | None = ConnectionLost("this transport was not entered yet")
        """Why nothing can be sent."""

    async def __aenter__(self) -> Self:
        try:
            self._requester = Requester(self.address, self._max_message)
        except (ImportError, ValueError) as error:  # a proxy of the environment that makes no sense, or needs more
            raise Unreachable(f"cannot reach {self.address.url}: {error}") from error
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
        if self.taker is None or self._frames or not self.taker([frame]):
            self._frames.append(frame)
            self._untaken += len(frame)
            self._arrival.set()

    async def caught_up(self) -> None:
        """Wait until most of what was heard is taken: a flood stays in the network and not in memory."""
        while self._untaken > READ_AHEAD:
            self._taken.clear()
            await self._taken.wait()

    def heard(self, stream: Stream, event: Event) -> None:
        """One more message of the server: pass it on, and remember where answers belong."""
        if self._is_ended:
            return
        shape = outline(event.data)
        if shape is None or not isinstance(shape.id, int | str):
            self._hand_over(event.data)
        elif isinstance(shape.method, str):
            if stream.session is not None:
                self._asked[shape.id] = stream.session
            self._hand_over(event.data)
        else:
            self._answered(stream, event, shape, self._sent.pop(shape.id, None))

    def _answered(self, stream: Stream, event: Event, shape: Outline, request: Outline | None) -> None:
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

    async def _hold(self, event: Event, stream: Stream, shape: Outline, request: Outline) -> None:
        await stream.caught_up_with(event)
        self._hand_over(event.data)
        self._leave_if_over(stream, shape, request)

    def _leave_if_over(self, stream: Stream, shape: Outline, request: Outline) -> None:
        """Leave the stream of a closed session after the last answer: some servers send nothing on it any more."""
        if not shape.is_error and request.method in REPLAYS | ENDINGS:
            stream.is_closed = request.method in ENDINGS
        if stream.is_closed and not any(each.session == request.session for each in self._sent.values()):
            self._leave_stream(stream)

    # Writing

    @property
    def queued(self) -> int:
        return self._queued

    def send(self, frame: bytes) -> None:
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        self._outgoing.append(frame)
        self._queued += len(frame)
        self._departure.set()
        self.is_congested = self._queued > min(WRITE_AHEAD, self._max_queued)
        if self._queued > self._max_queued * HARD_MARK_FACTOR:
            failure = PeerTooSlow(f"{self._queued} bytes wait to be read; the bound is {self._max_queued}")
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
        shape = outline(frame) or Outline()
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
            if isinstance(shape.id, int | str) and isinstance(shape.method, str):
                self._sent[shape.id] = shape
        reply = await self._deliver(frame, headers)
        if not reply.is_good:
            self._refused(shape, session, reply)

    async def _introduce(self, frame: bytes, shape: Outline) -> None:
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
        answer = outline(reply.body)
        if answer is None or answer.id != shape.id or isinstance(answer.method, str):
            raise unreachable(self.address.url, reply)
        body = self._greeting.incoming(reply.body)
        if reply.is_good and self._greeting.is_over:
            self._connection_id = reply.connection_id
            if self._connection_id is None:
                raise ConnectionLost("the server did not say which connection this is; does it speak ACP?")
            self._group.create_task(self._open(None).follow())
        self._hand_over(body)

    def _session_of(self, shape: Outline) -> str | None:
        if isinstance(shape.method, str):
            return shape.session
        return self._asked.pop(shape.id, None) if isinstance(shape.id, int | str) else None

    async def _prepare(self, session: str) -> str | None:
        """Listen to a session before we speak in it; returns why that cannot be."""
        if not session.isascii() or not session.isprintable():
            return "this id cannot be written in a header"
        stream = self._stream_of(session)
        await stream.settled.wait()
        # There are servers that know a session only once it is loaded.
        return None if stream.refusal in (None, "HTTP 404") else f"the session cannot be heard: {stream.refusal}"

    def _stream_of(self, session: str) -> Stream:
        stream = self._streams.get(session)
        if stream is None:
            stream = self._streams[session] = self._open(session)
            self._group.create_task(self._follow(session, stream))
        return stream

    def _open(self, session: str | None) -> Stream:
        assert self._connection_id is not None
        headers = {CONNECTION: self._connection_id} | ({} if session is None else {SESSION: session})
        return Stream(self._requester, headers, self._greeting.terms, self._patience, self._max_message, self)

    async def _follow(self, session: str, stream: Stream) -> None:
        await stream.follow()
        if self._streams.get(session) is stream:
            del self._streams[session]  # the next message of the session opens it anew
            if stream.refusal is None:
                self._refuse_unanswered(session, "the server ended the session's event stream")

    def _leave_stream(self, stream: Stream) -> None:
        if stream.session is not None and self._streams.get(stream.session) is stream:
            del self._streams[stream.session]
            stream.leave()
            self._refuse_unanswered(stream.session, "the session was closed before this was answered")

    def _refuse_unanswered(self, session: str, reason: str) -> None:
        for id, shape in list(self._sent.items()):
            if shape.session == session:
                del self._sent[id]
                self._refuse(shape, INTERNAL_ERROR, reason)

    async def _deliver(self, frame: bytes, headers: dict[str, str]) -> Reply:
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

    def _refused(self, shape: Outline, session: str | None, reply: Reply) -> None:
        """The server did not take a message: that is the end of the connection, or of this request alone."""
        # Of a session it may say the same; every server we know of names the connection if that is what it misses.
        is_unknown = reply.status in (404, 410) and (session is None or b"connection" in reply.body.lower())
        if is_unknown:
            kind = HistoryLost if self._greeting.terms is not None else ConnectionLost
            raise kind(f"the server does not know this connection any more (HTTP {reply.status}); load the session")
        if reply.status in (401, 403):
            raise ConnectionLost(f"the server refuses us by now: HTTP {reply.status}")
        if isinstance(shape.id, int | str):
            self._sent.pop(shape.id, None)
        answer = outline(reply.body)
        if answer is not None and answer.id == shape.id and isinstance(shape.id, int | str):
            self._hand_over(reply.body)
            return
        told = reply.body.decode("utf-8", "replace")
        code = NO_SUCH_SESSION if reply.status == 404 else INTERNAL_ERROR
        self._refuse(shape, code, f"HTTP {reply.status}: {told[:200]}", {"status": reply.status, "body": told})

    def _refuse(self, shape: Outline, code: int, message: str, data: Any = None) -> None:
        """Answer a request of ours in place of the server."""
        if isinstance(shape.id, int | str) and isinstance(shape.method, str):
            error = {"code": code, "message": message} | ({} if data is None else {"data": data})
            self._hand_over(msgspec.json.encode({"jsonrpc": "2.0", "id": shape.id, "error": error}))
        elif isinstance(shape.method, str):
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
            async with asyncio.timeout(LINGER_SECONDS):
                while self._outgoing and not self._is_ended:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            pass
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
