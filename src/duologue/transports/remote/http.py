"""The client side of streamable HTTP: frames are posted in order, and received in event streams.

The connection has one stream and each session another. `transports.resume` and `event_stream` resume broken ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import Any, Self

import msgspec

from duologue.errors import ConnectionLost, DuologueError, ResumeFailed
from duologue.jsonrpc.envelope import Envelope, read_envelope
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.transports.buffered import (
    HARD_LIMIT_FACTOR,
    LINGER_SECONDS,
    MAX_QUEUED_BYTES,
    READ_AHEAD,
    WRITE_AHEAD,
    BufferedTransport,
    Wakeup,
)
from duologue.transports.methods import END_SESSION, INITIALIZE, OPEN_SESSION
from duologue.transports.remote.connect_errors import rejected, unreachable
from duologue.transports.remote.event_stream import BUSY, EventStream
from duologue.transports.remote.http_client import (
    CONNECTION,
    SESSION,
    HttpClient,
    HttpResponse,
    first_error,
    is_header_value,
)
from duologue.transports.remote.http_connection import HttpError
from duologue.transports.remote.sse import Event
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.resume.protocol import ResumeNegotiation, RetryPolicy

_log = logging.getLogger("duologue.transports")

NUMBER = "Duologue-Message"  # the header that numbers posts, so that the server handles each once

REPLAYS = OPEN_SESSION | {"session/fork"}
NO_SUCH_SESSION = -32002
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603


class HttpTransport(BufferedTransport):
    """Frames over streamable HTTP.

    Args:
        address: URL, headers and certificates of the server.
        max_message_bytes: Longest message that is received.
        max_queued_bytes: Output that may wait; four times as much ends the connection with `OutputLimitExceeded`.
        retry: How to reconnect after a break.

    Raises:
        ConnectError: From `receive`: no server answers at this URL, or it rejects the client.
    """

    def __init__(
        self,
        address: RemoteEndpoint,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        retry: RetryPolicy | None = None,
    ) -> None:
        super().__init__(max_queued_bytes)
        self.address = address
        self._max_message = max_message_bytes
        self._retry = retry or RetryPolicy()
        self._negotiation = ResumeNegotiation()
        self._connection_id: str | None = None
        self._posted = 0
        self._streams: dict[str, EventStream] = {}
        self._sent: dict[int | str, Envelope] = {}  # requests of sessions without a response
        self._asked: dict[int | str, str] = {}  # the session of each request that the agent waits for
        self._frames_read = Wakeup()
        self._outgoing: deque[bytes] = deque()
        self._queued = 0
        self._frames_sent = Wakeup()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            self._client = HttpClient(self.address, self._max_message)
        except (ImportError, ValueError) as error:  # an invalid proxy in the environment, or a missing package
            raise unreachable(self.address.url, error) from error
        self._send_error = None
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    # Reading

    def _on_read(self, unread: int) -> None:
        self._frames_read.set()

    async def wait_for_capacity(self) -> None:
        """Wait until few enough frames wait for `receive`: a flood stays in the network and not in memory."""
        while self._unread_bytes > READ_AHEAD:
            await self._frames_read.wait()

    def on_event(self, stream: EventStream, event: Event) -> None:
        """Deliver a message of the server, and remember which session its response belongs to."""
        if self._is_ended:
            return
        envelope = read_envelope(event.data)
        if envelope is not None and (id := envelope.response_id) is not None:
            self._answered(stream, event, envelope, self._sent.pop(id, None))
            return
        if envelope is not None and stream.session is not None and (id := envelope.request_id) is not None:
            self._asked[id] = stream.session
        self._deliver([event.data])

    def _answered(self, stream: EventStream, event: Event, envelope: Envelope, request: Envelope | None) -> None:
        if envelope.made_session is not None and is_header_value(envelope.made_session):
            self._stream_of(envelope.made_session)
        other = self._streams.get(request.session or "") if request is not None else None
        if other is None or request is None:
            self._deliver([event.data])
        elif other is not stream and (event.after.isdecimal() or request.method in REPLAYS | END_SESSION):
            self._group.create_task(self._deliver_after(event, other, envelope, request))
        else:
            self._deliver([event.data])
            self._leave_if_over(other, envelope, request)

    async def _deliver_after(self, event: Event, stream: EventStream, envelope: Envelope, request: Envelope) -> None:
        await stream.caught_up_with(event)
        self._deliver([event.data])
        self._leave_if_over(stream, envelope, request)

    def _leave_if_over(self, stream: EventStream, envelope: Envelope, request: Envelope) -> None:
        """Close the stream of a closed session after the last response: some servers send nothing on it any longer."""
        if not envelope.is_error and request.method in REPLAYS | END_SESSION:
            stream.is_closed = request.method in END_SESSION
        if stream.is_closed and not any(each.session == request.session for each in self._sent.values()):
            self._leave_stream(stream)

    # Writing

    @property
    def pending_bytes(self) -> int:
        return self._queued

    def send(self, frame: bytes) -> None:
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)
        self._outgoing.append(frame)
        self._queued += len(frame)
        self._frames_sent.set()
        self.is_congested = self._queued > min(WRITE_AHEAD, self._max_queued)
        if self._queued > self._max_queued * HARD_LIMIT_FACTOR:
            self._exceed_output(self._queued)

    # The task that posts

    async def _run(self) -> None:
        failure: DuologueError | None = None
        try:
            async with asyncio.TaskGroup() as self._group:
                await self._post_all()
        except* DuologueError as group:
            failure = first_error(group)
        except* HttpError as group:
            failure = ConnectionLost(f"the connection broke: {first_error(group)!r}")
        except* Exception as group:
            _log.exception("the HTTP connection failed unexpectedly")
            failure = ConnectionLost(f"the HTTP connection failed unexpectedly: {first_error(group)}")
        self._end(failure)

    async def _post_all(self) -> None:
        while True:
            while self._outgoing:
                frame = self._outgoing[0]
                await self._post(frame)
                self._outgoing.popleft()
                self._queued -= len(frame)
                self.is_congested = self._queued > min(WRITE_AHEAD, self._max_queued)
                self._capacity_freed.set()
            await self._frames_sent.wait()

    async def _post(self, frame: bytes) -> None:
        envelope = read_envelope(frame) or Envelope()
        if self._connection_id is None:
            await self._initialize(frame, envelope)
            return
        session = self._session_of(envelope)
        headers = {"Content-Type": "application/json", CONNECTION: self._connection_id}
        if session is not None:
            if envelope.method in REPLAYS and (stream := self._streams.get(session)) is not None and stream.is_closed:
                self._leave_stream(stream)
            if (rejection := await self._prepare(session)) is not None:
                self._fail(envelope, NO_SUCH_SESSION, rejection)
                return
            headers[SESSION] = session
            if (id := envelope.request_id) is not None:
                self._sent[id] = envelope
        response = await self._post_until_accepted(frame, headers)
        if not response.is_good:
            self._on_rejected(envelope, session, response)

    async def _initialize(self, frame: bytes, envelope: Envelope) -> None:
        """Post `initialize`; its response comes at once and names the connection."""
        if envelope.method != INITIALIZE:
            self._fail(envelope, INVALID_REQUEST, "the first message must be initialize")
            return
        request = self._negotiation.outgoing(frame)
        try:
            # The layer above limits how long an agent may take to start.
            response = await self._client.request("POST", {"Content-Type": "application/json"}, request, seconds=None)
        except HttpError as error:
            raise unreachable(self.address.url, error) from error
        answer = read_envelope(response.body)
        if answer is None or answer.response_id is None or answer.id != envelope.id:
            raise rejected(self.address.url, response.status, response.headers)
        body = self._negotiation.incoming(response.body)
        if response.is_good and self._negotiation.is_over:
            self._connection_id = response.connection_id
            if self._connection_id is None or not is_header_value(self._connection_id):
                raise ConnectionLost("the server named no connection in its response to initialize; does it speak ACP?")
            self._group.create_task(self._open(None).run())
        self._deliver([body])

    def _session_of(self, envelope: Envelope) -> str | None:
        if isinstance(envelope.method, str):
            return envelope.session
        id = envelope.response_id
        return None if id is None else self._asked.pop(id, None)

    async def _prepare(self, session: str) -> str | None:
        """Open the event stream of a session before posting to it; return why that is impossible."""
        if not is_header_value(session):
            return "this session id cannot be written in a header"
        stream = self._stream_of(session)
        await stream.settled.wait()
        if stream.rejection in (None, "HTTP 404"):  # some servers know a session only after it was loaded
            return None
        return f"the event stream of the session cannot be opened: {stream.rejection}"

    def _stream_of(self, session: str) -> EventStream:
        stream = self._streams.get(session)
        if stream is None:
            stream = self._streams[session] = self._open(session)
            self._group.create_task(self._follow(session, stream))
        return stream

    def _open(self, session: str | None) -> EventStream:
        assert self._connection_id is not None
        headers = {CONNECTION: self._connection_id} | ({} if session is None else {SESSION: session})
        return EventStream(self._client, headers, self._negotiation.grant, self._retry, self._max_message, self)

    async def _follow(self, session: str, stream: EventStream) -> None:
        await stream.run()
        if self._streams.get(session) is stream:
            del self._streams[session]  # the next message of the session opens it again
            if stream.rejection is None:
                self._fail_unanswered(session, "the server ended the session's event stream")

    def _leave_stream(self, stream: EventStream) -> None:
        if stream.session is not None and self._streams.get(stream.session) is stream:
            del self._streams[stream.session]
            stream.leave()
            self._fail_unanswered(stream.session, "the session was closed before this was answered")

    def _fail_unanswered(self, session: str, reason: str) -> None:
        for id, envelope in list(self._sent.items()):
            if envelope.session == session:
                del self._sent[id]
                self._fail(envelope, INTERNAL_ERROR, reason)

    async def _post_until_accepted(self, frame: bytes, headers: dict[str, str]) -> HttpResponse:
        """Post a frame until the server accepts it; the server handles it once."""
        grant = self._negotiation.grant
        if grant is None:
            return await self._client.request("POST", headers, frame)
        self._posted += 1
        headers[NUMBER] = str(self._posted)
        pauses = self._retry.pauses_within(grant.grace_seconds)
        while True:
            reason = ""
            try:
                response = await self._client.request("POST", headers, frame)
                if response.status not in BUSY - {409, 500}:
                    return response
                reason = f"HTTP {response.status}"
            except HttpError as error:
                reason = str(error) or type(error).__name__
            pause = next(pauses, None)
            if pause is None:
                raise ConnectionLost(f"a message could not be delivered in time: {reason}")
            await asyncio.sleep(pause)

    def _on_rejected(self, envelope: Envelope, session: str | None, response: HttpResponse) -> None:
        """Handle a rejected post: end the connection, or fail only this request."""
        # An unknown session gets the same status; known servers name the connection in the body if they miss that.
        is_unknown = response.status in (404, 410) and (session is None or b"connection" in response.body.lower())
        if is_unknown:
            kind = ResumeFailed if self._negotiation.grant is not None else ConnectionLost
            raise kind(f"the server no longer knows this connection (HTTP {response.status}); load the session")
        if response.status in (401, 403):
            raise ConnectionLost(f"the server no longer accepts this client: HTTP {response.status}")
        if isinstance(envelope.id, int | str):
            self._sent.pop(envelope.id, None)
        answer = read_envelope(response.body)
        if answer is not None and answer.id == envelope.id and isinstance(envelope.id, int | str):
            self._deliver([response.body])
            return
        text = response.body.decode("utf-8", "replace")
        code = NO_SUCH_SESSION if response.status == 404 else INTERNAL_ERROR
        self._fail(envelope, code, f"HTTP {response.status}: {text[:200]}", {"status": response.status, "body": text})

    def _fail(self, envelope: Envelope, code: int, message: str, data: Any = None) -> None:
        """Answer a request of this client in place of the server."""
        if (id := envelope.request_id) is not None:
            error = {"code": code, "message": message} | ({} if data is None else {"data": data})
            self._deliver([msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error})])
        elif isinstance(envelope.method, str) or envelope.id is None:
            # An error without an id answers no request: an agent misses nothing that it waits for.
            what = envelope.method if isinstance(envelope.method, str) else "an error without an id"
            _log.warning("the server rejected %s: %a", what, message)
        else:
            raise ConnectionLost(f"the server rejected a response of this client: {message}")

    # The end

    def _end(self, failure: DuologueError | None) -> None:
        if self._is_ended:
            return
        super()._end(failure)
        self._send_error = (
            failure if isinstance(failure, ConnectionLost) else ConnectionLost("the connection is closed")
        )
        self._end_congestion()

    async def aclose(self) -> None:
        if self._task is None:
            return
        task, self._task = self._task, None
        self._send_error = ConnectionLost("this transport is closed")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    while self._outgoing and not self._is_ended:
                        await self._capacity_freed.wait()
        finally:
            self._end(None)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._leave()

    async def _leave(self) -> None:
        """Close the connection on the server, which would notice only later."""
        try:
            if self._connection_id is not None:
                async with asyncio.timeout(LINGER_SECONDS):
                    await self._client.request("DELETE", {CONNECTION: self._connection_id})
        except (HttpError, TimeoutError) as error:
            _log.debug("the connection could not be closed on the server: %s", error)
        finally:
            await self._client.aclose()
