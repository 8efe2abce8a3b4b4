"""One remote connection as its agent uses it: an ordinary transport, whatever happens to the network."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress

from duologue.errors import ConnectionLost, InternalError, InvalidRequest, OutputLimitExceeded, RequestError
from duologue.jsonrpc.codec import MAX_METHOD_CHARS, PLAIN_NOTIFICATION, is_legal_id, serialize_error
from duologue.jsonrpc.envelope import Ambiguous, Envelope, PendingRequests, check_names, read_envelope
from duologue.jsonrpc.messages import Id
from duologue.transports.buffered import BufferedTransport, Wakeup
from duologue.transports.resume.protocol import FRAME_BYTES, VERSION, ResumeGrant
from duologue.transports.server.limits import Limits
from duologue.transports.server.metrics import Metrics


class ServerConnection(BufferedTransport):
    """The base of remote connections: receiving, counting and ending.

    Args:
        id: How the client names it; it cannot be guessed.
        caller: The caller that opened it; no other may use it.
        limits: Its limits.
        metrics: Counts its messages.

    Attributes:
        is_over: Nothing more arrives from the client.
        is_gone: Nothing more reaches the client.
        is_finished: The agent has ended and sends nothing more.
        is_initialized: The agent has answered `initialize`.
        is_resumable: The client can resume it after a broken connection.
        takes_requests: The client may still send new requests.
        close_code: The code that closes its WebSocket.
        running: The client's requests that the agent has not answered.
        on_answered: Called after each response of the agent, if set.
    """

    kind = "remote"

    def __init__(self, id: str, caller: str, limits: Limits, metrics: Metrics) -> None:
        super().__init__(limits.queued_bytes)
        self.id = id
        self.caller = caller
        self.limits = limits
        self.metrics = metrics
        self.is_gone = False
        self.is_finished = False
        self.is_initialized = False
        self.is_resumable = False
        self.takes_requests = True
        self.close_code = 1000
        self.running: PendingRequests[Envelope] = PendingRequests()
        self.on_answered: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()
        self._send_error = None
        self._first_id: Id | None = None
        self._frames_read = Wakeup()
        self._grace: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        return self._is_ended

    @property
    def has_unread(self) -> bool:
        """Whether a frame of the client waits for the agent."""
        return bool(self._frames)

    # --- used by the agent

    def _on_read(self, unread: int) -> None:
        self._frames_read.set()

    def send(self, frame: bytes) -> None:
        if frame.startswith(PLAIN_NOTIFICATION):
            self.send_notifications([frame])
            return
        self._check_open()
        envelope = read_envelope(frame)
        self.last_active = self._loop.time()
        self.metrics.sent(len(frame))
        if envelope is not None and (id := envelope.response_id) is not None:
            self._respond(frame, envelope, id)
        else:
            self.route(frame, envelope)
        self.check_limit()

    def send_many(self, frames: list[bytes]) -> None:
        begin = 0
        for index in [index for index, frame in enumerate(frames) if not frame.startswith(PLAIN_NOTIFICATION)]:
            if begin < index:
                self.send_notifications(frames[begin:index])
            self.send(frames[index])
            begin = index + 1
        if begin < len(frames):
            self.send_notifications(frames[begin:])

    def send_notifications(self, frames: list[bytes]) -> None:
        self._check_open()
        self.last_active = self._loop.time()
        size = sum(map(len, frames))
        self.metrics.sent(size, len(frames))
        self.route_many(frames, size)
        self.check_limit()

    def _check_open(self) -> None:
        if self.is_gone or self.is_finished:
            raise (self._send_error or ConnectionLost("the client is gone")).with_traceback(None)

    def check_limit(self) -> None:
        """End the connection, if more output waits for the client than it may.

        Raises:
            OutputLimitExceeded: The connection was ended.
        """
        if self.pending_bytes > self.limits.queued_bytes:
            failure = OutputLimitExceeded(
                f"{self.pending_bytes} bytes wait to be read by the client; the limit is {self.limits.queued_bytes}"
            )
            self.fail(failure)
            raise failure

    def _respond(self, frame: bytes, envelope: Envelope, id: Id) -> None:
        request = self.running.answered(id)
        if not self.is_initialized and id == self._first_id:
            self.is_initialized = True
            self.send_initialize_response(frame)
        else:
            self.route_response(frame, envelope, request)
        if self.on_answered is not None:
            self.on_answered()

    async def aclose(self) -> None:
        """End the connection after what the agent has sent."""
        self.is_finished = True
        self.end(self.close_code, is_gone=False)
        self.wake()

    # --- used by the handlers of WebSocket and HTTP

    def deliver(self, frame: bytes, envelope: Envelope | Ambiguous | None) -> None:
        """Pass a frame of the client to the agent, or reject it."""
        if isinstance(envelope, Ambiguous):
            self.reject(None, InvalidRequest(str(envelope)))
            return
        self.last_active = self._loop.time()
        self.metrics.received(len(frame))
        if self.is_over:
            return
        if envelope is not None and (id := envelope.request_id) is not None:
            if (error := self._rejection(id, str(envelope.method), envelope.session)) is not None:
                self.reject(envelope, error)
                return
            if self._first_id is None:
                self._first_id = id
            self.running.add(id, envelope)
        self._deliver([frame])

    def _rejection(self, id: Id, method: str, session: str | None) -> RequestError | None:
        """Return why the agent must not get this request, whose names the server keeps until it is answered."""
        if not is_legal_id(id) or len(method) > MAX_METHOD_CHARS or len(session or "") > self.limits.name_chars:
            return InvalidRequest(f"an id, a method and a sessionId have at most {self.limits.name_chars} characters")
        if not self.takes_requests:
            return InternalError("the server is shutting down; connect again")
        if len(self.running) >= self.limits.requests:
            return InternalError(f"busy: {self.limits.requests} requests are already running")
        return None

    def reject(self, request: Envelope | None, error: RequestError) -> None:
        """Answer a message of the client that the agent does not get."""
        id = None if request is None else request.request_id
        id = id if id is None or is_legal_id(id) else None
        frame = serialize_error(id, error)
        self.metrics.sent(len(frame))
        if id is None:
            self.route(frame, None)
        else:
            self.route_response(frame, Envelope(id), request)
        with suppress(OutputLimitExceeded):  # the next call of the agent reports it
            self.check_limit()

    async def wait_for_capacity(self) -> None:
        """Wait until the agent has received enough for more to arrive."""
        while self._unread_bytes > self.limits.read_ahead and not self.is_over:
            await self._frames_read.wait()

    def end(self, code: int = 1000, *, is_gone: bool = True) -> None:
        """Stop receiving; what the agent still sends leaves, unless the client is gone."""
        if is_gone and not self.is_gone:
            self.is_gone = True
            self._send_error = self._send_error or ConnectionLost("the client is gone")
            self._end_congestion()
            self.wake()
        if not self.is_over:
            self._end(self._failure)
            self.close_code = code
            self.cancel_grace_timer()
            self._frames_read.set()

    def fail(self, failure: ConnectionLost, code: int = 1008) -> None:
        """End the connection with an error for the agent."""
        if not self.is_gone:
            self._failure = self._send_error = failure
            self.end(code)

    def start_grace_timer(self) -> None:
        """End the connection, unless the client resumes it in time."""
        self.cancel_grace_timer()
        self._grace = self._loop.call_later(self.limits.grace_seconds, self.end)

    def cancel_grace_timer(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def is_idle(self, now: float) -> bool:
        """Return whether the idle limit is exceeded; a connection with a running request is never idle."""
        seconds = self.limits.idle_seconds
        return seconds is not None and not self.running and now - self.last_active > seconds

    @property
    def resume_grant(self) -> ResumeGrant:
        """The grant with which a client can resume this connection.

        A client acknowledges after a part of the bytes that it is granted; a window of few frames is granted as fewer
        bytes, or the agent would wait for the client's timer whenever half of the frames are sent.
        """
        limits = self.limits
        return ResumeGrant(
            version=VERSION,
            connection_id=self.id,
            window_bytes=min(limits.window_bytes, limits.window_frames * FRAME_BYTES),
            grace_seconds=limits.grace_seconds,
        )

    # --- implemented for WebSocket and HTTP

    @abstractmethod
    def send_initialize_response(self, frame: bytes) -> None:
        """Send the response to `initialize`."""

    @abstractmethod
    def route(self, frame: bytes, envelope: Envelope | None) -> None:
        """Send a request or notification of the agent."""

    @abstractmethod
    def route_many(self, frames: list[bytes], size: int) -> None:
        """Send requests and notifications of the agent, which have `size` bytes together."""

    @abstractmethod
    def route_response(self, frame: bytes, envelope: Envelope, request: Envelope | None) -> None:
        """Send a response of the agent to this request of the client."""

    @abstractmethod
    def wake(self) -> None:
        """Wake the writers: there is something to send, or nothing more will come."""

    @abstractmethod
    def check(self, now: float) -> None:
        """Disconnect a client that has read nothing for too long; called regularly."""


def examine(frame: bytes) -> Envelope | Ambiguous | None:
    """Return the envelope of a frame of the client, or why its parts could be read in two ways."""
    try:
        check_names(frame)
    except Ambiguous as ambiguous:
        return ambiguous
    return read_envelope(frame)
