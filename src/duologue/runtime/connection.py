"""A `Peer` on a `Transport`: where frames become calls of handlers, and answers end the waits of callers.

One task reads and never runs user code. `docs/topics/order.md` states the order this keeps, `docs/topics/limits.md`
what bounds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from copy import copy
from types import TracebackType
from typing import Self, TypeVar

from duologue.errors import ConnectionLost, DuologueError, InputLimitExceeded, RequestError
from duologue.jsonrpc.codec import serialize_notification
from duologue.jsonrpc.peer import MAX_PENDING, Peer
from duologue.runtime.dispatcher import Dispatcher
from duologue.runtime.handlers import Handlers
from duologue.runtime.incoming_requests import MAX_REQUEST_BYTES, IncomingRequests, report
from duologue.runtime.log import FrameLog, is_wanted
from duologue.runtime.loop_monitor import LoopMonitor
from duologue.runtime.observers import Direction, FrameObserver, notify_observers
from duologue.runtime.outgoing_requests import PendingRequest
from duologue.runtime.session_queues import SessionQueues
from duologue.runtime.tasks import TaskScope
from duologue.runtime.unread_bytes import UnreadBytes
from duologue.runtime.writer import FrameWriter
from duologue.schema.base import Method, Notification
from duologue.transports.base import Transport

__all__ = ["Connection", "Direction", "FrameObserver"]

_log = logging.getLogger("duologue.runtime")

P = TypeVar("P")
R = TypeVar("R")

MAX_INCOMING_BYTES = 16 * 1024 * 1024
"""Unhandled input before reading pauses: several seconds of the fastest agent, little beside an interpreter."""

HARD_MARK = 4
"""How many times that bound may be exceeded while reading has to go on, before the connection ends."""

LINGER = 0.5
"""Seconds that running handlers and received notifications get after the peer closed its end."""

CANCEL_GRACE = 1.0
"""Seconds a cancelled handler gets to clean up before it is abandoned; also the longest a call waits on a lost peer."""

BURST_BYTES = 64 * 1024
"""Sent without a break before the event loop gets a turn, so that a tight loop of updates still sees a cancel."""


class Connection:
    """Both directions of a conversation. Enter it to start, leave it to end everything it started.

    Args:
        transport: How frames move; entered and closed by the connection.
        handlers: What this end can do. Changes to the table take effect at once.
        first: The request that must come before all others (`initialize`, on the agent's side).
        skips_noise: Ignore lines that are not JSON (on the client's side, where an agent may print).
        observers: Observers of every frame.
        debug: Put the text of unexpected exceptions into error answers.
        max_incoming_bytes: Unhandled input before reading pauses.
        max_pending: Requests in flight, per direction.
        max_request_bytes: The memory that requests of the peer may take while they run.
    """

    def __init__(
        self,
        transport: Transport,
        handlers: Handlers | None = None,
        *,
        first_method: str | None = None,
        ignore_stray_output: bool = False,
        observers: tuple[FrameObserver, ...] = (),
        debug: bool = False,
        max_incoming_bytes: int = MAX_INCOMING_BYTES,
        max_pending: int = MAX_PENDING,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self.handlers = handlers if handlers is not None else Handlers()
        self.cause: ConnectionLost | None = None
        """Why the connection is over, once it is; `None` after a plain end."""
        self._transport = transport
        self._peer = Peer(first=first_method, skips_noise=ignore_stray_output, max_pending=max_pending)
        self._first = first_method
        self._observers: tuple[FrameObserver, ...] = (*observers, FrameLog()) if is_wanted() else observers
        self._debug = debug
        self._max_incoming = max_incoming_bytes
        self._max_pending = max_pending
        self._max_request_bytes = max_request_bytes
        self._burst = 0
        self._capacity_event: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        """What handling a frame raised outside of the reading task, which is to end the connection with it."""
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._closed = asyncio.Event()
        self._tasks = TaskScope()
        self._handler_tasks = TaskScope()
        self._lanes = SessionQueues(self._tasks, self._report, self._wake_reader)
        self.unread = UnreadBytes(self._wake_reader)
        """What waits for readers, for those who hand it to them; it counts against `max_incoming_bytes`."""
        self._outgoing = FrameWriter(
            self._transport, self._observers, self._connection_lost, self._wake_reader, self._max_incoming
        )
        self._requests = IncomingRequests(
            self._peer,
            self._handler_tasks,
            self._outgoing.pending_sessions,
            self._outgoing.send_and_drain,
            self._report,
            first=self._first,
            max_bytes=self._max_request_bytes,
            debug=self._debug,
        )
        self._incoming = Dispatcher(
            self,
            self.handlers,
            self._peer,
            self._outgoing,
            self._lanes,
            self.unread,
            self._requests,
            self._handler_tasks,
            self._max_pending,
            self._first,
        )
        self._calls = self._incoming.calls
        await self._transport.__aenter__()
        self._watch = LoopMonitor.of_this_loop()
        self._watch.acquire(self)
        self._transport.on_frames = self._take
        self._tasks.start(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def is_closed(self) -> bool:
        """Nothing more will come from the peer."""
        return self._is_over

    @property
    def is_paused(self) -> bool:
        """Nothing is read from the peer now: too much of what it sent waits for handlers and readers."""
        return self._capacity_event is not None and not self._is_over

    @property
    def stray_output(self) -> str:
        """How much the peer printed that is not the protocol, and how it began; empty if nothing."""
        return self._incoming.noise

    async def wait_closed(self) -> None:
        """Until the peer has closed its end and what it asked for is finished or given up."""
        await self._closed.wait()

    async def aclose(self) -> None:
        """End the connection: running handlers are cancelled, waiting calls fail. A handler may call it, too."""
        self._end(None)
        self._outgoing.close()
        self._lanes.close()
        self._calls.close(self._connection_lost)
        try:
            await self._tasks.cancel(CANCEL_GRACE)  # the reader among them: from here on nothing is started
            await self._handler_tasks.cancel(CANCEL_GRACE)
        finally:
            self._deadline.cancel()
            self._watch.release(self)
            self._peer.close()
            await self._transport.__aexit__(None, None, None)
            self._closed.set()

    def allow_reinitialize(self) -> None:
        """The request that comes first may come again, until another one comes."""
        self._peer.repeats_first = True

    def is_introducing(self, session_id: str | None) -> bool:
        """Whether this session may be one that a request of ours is about to open: what is said of it is held."""
        return self._incoming.is_introducing(session_id)

    def give_up_places(self, session_id: str) -> None:
        """End the waits of requests for their places in this session, because its turn is being cancelled."""
        self._requests.give_up_places("the turn was cancelled", session_id)

    def error_for(self, raised: BaseException, method: str) -> RequestError:
        """What the peer is told of an exception that ended something it asked for with `method`."""
        return self._requests.error_for(raised, method)

    def _report(self, method: str, error: BaseException) -> str:
        return report(method, error, is_lost=self._is_over or self._outgoing.is_lost)

    # --- calling the peer

    async def request(
        self,
        method: Method[P, R],
        params: P,
        *,
        arrived: Callable[[R], None] | None = None,
        released: Callable[[R], None] | None = None,
        late: Callable[[R], object] | None = None,
    ) -> R:
        """Ask the peer and wait for its answer. Cancelling the wait tells the peer.

        Args:
            method: What to ask.
            params: With what.
            arrived: Called with the result the moment it is read, before anything else of its session is handled.
            released: Called with the result where it stands among the notifications of its session: what came before
                it has been handled, and what comes behind it has not.
            late: Called with a result that comes although the wait was cancelled: it may have to be undone.

        Raises:
            RequestError: The peer's error answer.
            ConnectionLost: No answer will come.
            ProtocolViolation: The answer makes no sense.
            Deadlock: The current handler stands in the way of the answer.
        """
        if self._is_over:
            raise self._connection_lost()
        if self._peer.pending >= self._max_pending:
            await self._calls.acquire_slot()
            if self._is_over:
                raise self._connection_lost()
        call = self._calls.start(method, params, arrived, released, late)
        try:
            call.id, frame = self._peer.request(method.name, params, call)
            self._outgoing.send(frame)
            del frame  # it may be large, and the answer may take long
            if self._capacity_event is not None:
                self._wake_reader()
            if self._transport.is_congested:
                await self._outgoing.drain()
            result: R = await call.future
            return result
        except BaseException:
            self._abandon(call)
            raise

    async def notify(self, notification: Notification[P], params: P) -> None:
        """Tell the peer something. Waits only while the peer is too slow to take it.

        Raises:
            ConnectionLost: The peer takes nothing any more.
        """
        frame = serialize_notification(notification.name, params)
        outgoing = self._outgoing
        if outgoing.pending_sessions.is_waiting:
            session_id = getattr(params, "session_id", None)
            if session_id is not None and outgoing.pending_sessions.must_wait(session_id):
                outgoing.defer(notification.name, session_id, frame)
                return
        outgoing.send(frame)
        self._burst += len(frame)
        if self._transport.is_congested:
            await outgoing.drain()
        elif self._burst > BURST_BYTES:
            self._burst = 0
            await asyncio.sleep(0)

    def _abandon(self, call: PendingRequest) -> None:
        """The wait ended without an answer: tell the peer, if it was ever asked."""
        self._calls.abandon(call)
        late = None if call.late is None else call
        frame = self._peer.cancel(call.id, late=late) if call.id else None
        if frame is not None:
            self._outgoing.send_quietly(frame)

    # --- reading

    async def _read(self) -> None:
        cause: BaseException | None = None
        try:
            self._incoming.get_ready()
            while frames := await self._transport.receive():
                if self._failure is not None:
                    raise self._failure
                self._handle(frames)
                if self._waiting_bytes > self._max_incoming:
                    await self._wait_for_room()
        except asyncio.CancelledError:
            raise
        except DuologueError as error:
            cause = error
        except Exception as error:
            _log.exception("reading failed")
            cause = error
        self._end(cause)
        await self._wind_down()

    def _take(self, frames: list[bytes]) -> bool:
        """What `_read` does, without waking it; but it alone waits for room, and it alone ends the connection."""
        if self._capacity_event is not None or self._waiting_bytes > self._max_incoming:
            return False
        try:
            self._handle(frames)
        except Exception as error:
            self._failure = error
        return self._failure is None

    def _handle(self, frames: list[bytes]) -> None:
        if not self._observers:
            self._incoming.on_frames(frames)
            return
        for frame in frames:
            notify_observers(self._observers, "in", frame)
            self._incoming.on_frames([frame])

    @property
    def _waiting_bytes(self) -> int:
        return self._lanes.queued_bytes + self.unread.bytes

    def _wake_reader(self) -> None:
        if self._capacity_event is not None and not self._capacity_event.done():
            self._capacity_event.set_result(None)

    async def _wait_for_room(self) -> None:
        """Pause reading until handlers and readers have caught up, unless a call needs what is still in the pipe."""
        self._lanes.reports_progress = self.unread.is_awaited = True
        try:
            while (waiting := self._waiting_bytes) > self._max_incoming:
                if self._outgoing.waiting or self._calls.is_blocked_on_input():
                    if waiting > HARD_MARK * self._max_incoming:
                        raise InputLimitExceeded(
                            f"{waiting} bytes of input wait to be handled or read (limit "
                            f"{HARD_MARK * self._max_incoming}), and a call waits for an answer behind them; "
                            f"handle and read faster, or await the call in another task"
                        )
                    return
                self._capacity_event = asyncio.get_running_loop().create_future()
                self.unread.report_full()
                await self._capacity_event
        finally:
            self._lanes.reports_progress = self.unread.is_awaited = False
            self._capacity_event = None

    # --- the end

    def _end(self, cause: BaseException | None) -> None:
        """Nothing more will come: every call ends within a second, behind what was already received if it can."""
        if self._is_over:
            return
        self._is_over = True
        self._transport.on_frames = None
        if isinstance(cause, ConnectionLost):
            self.cause = cause
        elif cause is not None:
            self.cause = ConnectionLost(str(cause))
            self.cause.__cause__ = cause
        self._outgoing.end(CANCEL_GRACE)
        self._calls.fail_all(self._connection_lost, at_once=False)
        self._requests.give_up_places("the connection is over")
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(CANCEL_GRACE, self._calls.fail_all, self._connection_lost, True)

    async def _wind_down(self) -> None:
        """The peer is gone: let what it asked for finish if that is a matter of moments, then give it up."""
        try:
            async with asyncio.timeout(LINGER):
                await self._handler_tasks.settle()
                await self._until_handled()
        except TimeoutError:
            await self._handler_tasks.cancel(CANCEL_GRACE)
        self._closed.set()

    async def _until_handled(self) -> None:
        self._lanes.reports_progress = True
        while self._lanes.is_busy:
            self._capacity_event = asyncio.get_running_loop().create_future()
            await self._capacity_event

    def _connection_lost(self) -> ConnectionLost:
        """For each who waits an error of its own: a shared one would gather the traces of all."""
        if self.cause is None:
            return ConnectionLost("the connection is closed")
        lost = copy(self.cause)
        lost.__cause__ = self.cause.__cause__
        return lost
