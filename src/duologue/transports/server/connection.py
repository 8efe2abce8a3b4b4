"""One remote connection as its agent sees it: a transport like any other, whatever becomes of the network below it."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress

from duologue.errors import ConnectionLost, InternalError, InvalidRequest, OutputLimitExceeded, RequestError
from duologue.jsonrpc.codec import MAX_METHOD_CHARS, is_legal_id, serialize_error
from duologue.jsonrpc.envelope import Envelope, PendingRequests, read_envelope
from duologue.jsonrpc.messages import Id
from duologue.transports.base import Transport
from duologue.transports.server.limits import Limits
from duologue.transports.server.metrics import Metrics
from duologue.transports.server.wakeup import Wakeup

__all__ = ["ServerConnection"]


class ServerConnection(Transport):
    """What all remote connections share: arrival, counting, and the end.

    Args:
        id: How the client names it; nobody can guess it.
        caller: Who opened it, and who alone may use it.
        limits: Its bounds.
        numbers: What is counted.
    """

    kind = "remote"

    def __init__(self, id: str, caller: str, limits: Limits, numbers: Metrics) -> None:
        self.id = id
        self.caller = caller
        self.limits = limits
        self.is_over = False
        """Nothing arrives from the client any more."""
        self.is_gone = False
        """Nothing reaches the client any more."""
        self.is_finished = False
        """The agent is done, and says nothing any more."""
        self.close_code = 1000
        """How the end is told on a WebSocket."""
        self.takes_requests = True
        """Whether the client may still ask for something new."""
        self.is_resumable = False
        """The client knows how to come back."""
        self.running: PendingRequests[Envelope] = PendingRequests()
        """The client's requests that the agent works on."""
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()
        self.numbers = numbers
        self._first_id: Id | None = None
        self.is_introduced = False
        self._failure: ConnectionLost | None = None
        self._arrived: list[bytes] = []
        self._arrived_bytes = 0
        self._arrival = Wakeup()
        self._taken = Wakeup()
        self._room = Wakeup()
        self._grace: asyncio.TimerHandle | None = None
        self.on_answered: Callable[[], None] | None = None
        """Called after each answer of the agent, while somebody waits for the last one."""

    # --- what the agent uses

    async def receive(self) -> list[bytes]:
        while not self._arrived:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self.is_over:
                return []
            await self._arrival.wait()
        frames, self._arrived = self._arrived, []
        self._arrived_bytes = 0
        self._taken.set()
        return frames

    def send(self, frame: bytes) -> None:
        if self.is_gone or self.is_finished:
            raise (self._failure or ConnectionLost("the client is gone")).with_traceback(None)
        shape = read_envelope(frame)
        self.last_active = self._loop.time()
        self.numbers.sent(len(frame))
        if shape is not None and (id := shape.response_id) is not None:
            self._is_answer(frame, shape, id)
        else:
            self.route(frame, shape)
        self.check_limit()

    def check_limit(self) -> None:
        """End the connection, if more waits for the client than may.

        Raises:
            OutputLimitExceeded: It was ended.
        """
        if self.pending_bytes > self.limits.queued_bytes:
            self.fail(
                OutputLimitExceeded(
                    f"{self.pending_bytes} bytes wait to be read; the bound is {self.limits.queued_bytes}"
                )
            )
            raise OutputLimitExceeded("the client reads too slowly")

    def _is_answer(self, frame: bytes, shape: Envelope, id: Id) -> None:
        request = self.running.answered(id)
        if not self.is_introduced and id == self._first_id:
            self.is_introduced = True
            self.send_initialize_response(frame)
        else:
            self.route_answer(frame, shape, request)
        if self.on_answered is not None:
            self.on_answered()

    async def drain(self) -> None:
        while self.is_congested and not self.is_gone:
            await self._room.wait()
        if self.is_gone:
            raise self._failure or ConnectionLost("the client is gone")

    async def aclose(self) -> None:
        """The agent has said all it will say."""
        self.is_finished = True
        self.end(self.close_code, is_gone=False)
        self.wake()

    # --- what those use who carry frames to and from the client

    def deliver(self, frame: bytes, shape: Envelope | None) -> None:
        """A frame of the client has arrived."""
        self.last_active = self._loop.time()
        self.numbers.received(len(frame))
        if self.is_over:
            return
        if shape is not None and (id := shape.request_id) is not None:
            if (error := self._objection(id, str(shape.method), shape.session)) is not None:
                self.refuse(shape, error)
                return
            if self._first_id is None:
                self._first_id = id
            self.running.add(id, shape)
        if self.on_frames is not None and not self._arrived and self.on_frames([frame]):
            return
        self._arrived.append(frame)
        self._arrived_bytes += len(frame)
        self._arrival.set()

    def _objection(self, id: Id, method: str, session: str | None) -> RequestError | None:
        """Why the agent does not get this request: all of it is kept until it is answered."""
        if not is_legal_id(id) or len(method) > MAX_METHOD_CHARS or len(session or "") > self.limits.name_chars:
            return InvalidRequest(f"an id, a method and a sessionId have at most {self.limits.name_chars} characters")
        if not self.takes_requests:
            return InternalError("the server is being stopped; connect again")
        if len(self.running) >= self.limits.requests:
            return InternalError(f"busy: {self.limits.requests} requests are already running")
        return None

    def refuse(self, request: Envelope | None, error: RequestError) -> None:
        """Answer a message of the client that the agent does not get."""
        id = None if request is None else request.request_id
        id = id if id is None or is_legal_id(id) else None
        frame = serialize_error(id, error)
        self.numbers.sent(len(frame))
        if id is None:
            self.route(frame, None)
        else:
            self.route_answer(frame, Envelope(id), request)
        with suppress(OutputLimitExceeded):  # the agent hears of it
            self.check_limit()

    async def wait_for_capacity(self) -> None:
        """Wait until the agent has taken enough for more to arrive."""
        while self._arrived_bytes > self.limits.read_ahead and not self.is_over:
            await self._taken.wait()

    def end(self, code: int = 1000, *, is_gone: bool = True) -> None:
        """Nothing more will arrive; the last words of the agent still leave, unless the client is gone."""
        if is_gone and not self.is_gone:
            self.is_gone = True
            self.make_room()
            self.wake()
        if not self.is_over:
            self.is_over = True
            self.close_code = code
            self.cancel_grace_timer()
            self._arrival.set()
            self._taken.set()

    def fail(self, failure: ConnectionLost, code: int = 1008) -> None:
        """It cannot go on, and this is why."""
        if not self.is_gone:
            self._failure = failure
            self.end(code)

    def make_room(self) -> None:
        """The agent may send on."""
        self.is_congested = False
        self._room.set()

    def start_grace_timer(self) -> None:
        """Nobody is there: end, unless somebody comes back in time."""
        self.cancel_grace_timer()
        self._grace = self._loop.call_later(self.limits.grace_seconds, self.end)

    def cancel_grace_timer(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def is_idle(self, now: float) -> bool:
        """Nothing was said for so long that nobody will miss it; a request that is worked on is never idle."""
        seconds = self.limits.idle_seconds
        return seconds is not None and not self.running and now - self.last_active > seconds

    @property
    def resume_grant(self) -> dict[str, object]:
        """What a client must know to come back."""
        limits = self.limits
        return {
            "connectionId": self.id,
            "windowBytes": limits.window_bytes,
            "graceSeconds": limits.grace_seconds,
        }

    # --- what differs

    @abstractmethod
    def send_initialize_response(self, frame: bytes) -> None:
        """Send the answer to `initialize`."""

    @abstractmethod
    def route(self, frame: bytes, shape: Envelope | None) -> None:
        """Send a request or notification of the agent."""

    @abstractmethod
    def route_answer(self, frame: bytes, shape: Envelope, request: Envelope | None) -> None:
        """Send an answer of the agent to this request of the client."""

    @abstractmethod
    def wake(self) -> None:
        """There is something to send, or nothing will come any more."""

    @abstractmethod
    def check(self, now: float) -> None:
        """Once in a while: cut off whoever takes nothing."""
