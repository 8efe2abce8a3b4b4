"""A JSON-RPC connection: calls handlers for the peer's messages, and sends requests and notifications.

One task reads and never runs user code. `docs/topics/order.md` states the guaranteed order, `docs/topics/limits.md` the
limits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from copy import copy
from types import TracebackType
from typing import Self, TypeVar

from duologue.errors import ConnectionLost, DuologueError, InputLimitExceeded
from duologue.jsonrpc.codec import serialize_notification
from duologue.jsonrpc.peer import MAX_PENDING, Peer
from duologue.runtime.dispatcher import Dispatcher
from duologue.runtime.handlers import Handlers
from duologue.runtime.incoming_requests import MAX_REQUEST_BYTES, IncomingRequests, report
from duologue.runtime.internals import ConnectionInternals
from duologue.runtime.log import FrameLog, is_enabled
from duologue.runtime.loop_monitor import LoopMonitor
from duologue.runtime.observers import FrameObserver, notify_observers
from duologue.runtime.outgoing_requests import PendingRequest
from duologue.runtime.session_queues import SessionQueues
from duologue.runtime.tasks import TaskScope
from duologue.runtime.unread_bytes import UnreadBytes
from duologue.runtime.writer import FrameWriter
from duologue.schema.base import Method, Notification
from duologue.transports.base import Transport

_log = logging.getLogger("duologue.runtime")

P = TypeVar("P")
R = TypeVar("R")

MAX_INCOMING_BYTES = 16 * 1024 * 1024
"""Unhandled input before reading pauses: several seconds of the fastest agent, little compared to an interpreter."""

HARD_LIMIT = 4
"""Times that limit that may wait while reading has to continue, before the connection ends."""

LINGER = 0.5
"""Seconds that running handlers and received notifications get after the peer closed its end."""

CANCEL_GRACE = 1.0
"""Seconds a cancelled handler gets to clean up before it is abandoned; also the longest wait for a lost peer."""


class Connection:
    """A JSON-RPC connection to one peer. Enter it to start; leaving it ends every task it started.

    Args:
        transport: Sends and receives frames; entered and closed by the connection.
        handlers: The methods this end handles. Changes to the table take effect at once.
        first_method: The request that must come before all others (`initialize`, on the agent's side).
        ignore_stray_output: Skip lines that are not JSON (on the client's side, where an agent may print).
        observers: Called with every frame that is sent or received.
        debug: Put the text of unexpected exceptions into error responses.
        max_incoming_bytes: Unhandled input before reading pauses.
        max_pending: Requests in flight, per direction.
        max_request_bytes: The memory that requests of the peer may take while they run.

    Attributes:
        handlers: The table of handlers.
        cause: Why the connection ended; `None` while it is open and after a normal end.
        internals: Used by the rest of this library; not part of the public API.
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
        self._transport = transport
        self._peer = Peer(first_method=first_method, ignore_stray_output=ignore_stray_output, max_pending=max_pending)
        self._first_method = first_method
        self._observers: tuple[FrameObserver, ...] = (*observers, FrameLog()) if is_enabled() else observers
        self._debug = debug
        self._max_incoming = max_incoming_bytes
        self._max_pending = max_pending
        self._max_request_bytes = max_request_bytes
        self._capacity_event: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        """An exception raised outside of the reading task, which ends the connection with it."""
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._closed = asyncio.Event()
        self._tasks = TaskScope()
        self._handler_tasks = TaskScope()
        self._queues = SessionQueues(self._tasks, self._report, self._wake_reader)
        self._unread = UnreadBytes(self._wake_reader)
        self._writer = FrameWriter(
            self._transport, self._observers, self._connection_lost, self._wake_reader, self._max_incoming
        )
        self._incoming_requests = IncomingRequests(
            self._peer,
            self._handler_tasks,
            self._writer,
            self._report,
            first_method=self._first_method,
            max_bytes=self._max_request_bytes,
            debug=self._debug,
        )
        self._dispatcher = Dispatcher(
            self,
            self.handlers,
            self._peer,
            self._writer,
            self._queues,
            self._unread,
            self._incoming_requests,
            self._handler_tasks,
            self._max_pending,
            self._first_method,
        )
        self._handle = self._observe_and_handle if self._observers else self._dispatcher.on_frames
        self._outgoing_requests = self._dispatcher.outgoing_requests
        self.internals = ConnectionInternals(
            self._peer, self._dispatcher, self._incoming_requests, self._unread, self._writer
        )
        await self._transport.__aenter__()
        self._monitor = LoopMonitor.of_this_loop()
        self._monitor.acquire(self)
        self._transport.on_frames = self._on_frames
        self._tasks.start(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended: nothing more arrives from the peer."""
        return self._is_over

    @property
    def is_paused(self) -> bool:
        """Whether reading from the peer is paused, because too much input waits for handlers and readers."""
        return self._capacity_event is not None and not self._is_over

    @property
    def stray_output(self) -> str:
        """Summary of lines the peer printed that are not the protocol; empty if there are none."""
        return self._dispatcher.stray_output

    async def wait_closed(self) -> None:
        """Wait until the peer has closed its end and its requests are finished or cancelled."""
        await self._closed.wait()

    async def aclose(self) -> None:
        """Close the connection: cancel running handlers and fail waiting requests. A handler may call it, too."""
        self._end(None)
        self._writer.close()
        self._queues.close()
        self._outgoing_requests.close(self._connection_lost)
        try:
            await self._tasks.cancel(CANCEL_GRACE)  # includes the reader: from here on nothing is started
            await self._handler_tasks.cancel(CANCEL_GRACE)
        finally:
            self._deadline.cancel()
            self._monitor.release(self)
            self._peer.close()
            try:
                await self._transport.__aexit__(None, None, None)
            finally:
                self._closed.set()

    def _report(self, method: str, error: BaseException) -> str:
        return report(method, error, is_lost=self._is_over or self._writer.is_lost)

    # --- calling the peer

    async def request(
        self,
        method: Method[P, R],
        params: P,
        *,
        on_result: Callable[[R], None] | None = None,
        on_release: Callable[[R], None] | None = None,
        on_late_result: Callable[[R], object] | None = None,
    ) -> R:
        """Send a request to the peer and wait for its response. Cancelling the wait cancels the request at the peer.

        Args:
            method: The method to call.
            params: Its parameters.
            on_result: Called with the result as soon as it is read, before anything else of its session is handled.
            on_release: Called with the result in its order among the notifications of its session: after those that
                arrived before it, and before those that arrived later.
            on_late_result: Called with a result that arrives although the wait was cancelled: it may have to be undone.

        Raises:
            RequestError: The peer answered with an error.
            ConnectionLost: The connection ended before the response.
            ProtocolViolation: The response is not valid.
            Deadlock: The response cannot be released before the current handler returns.
        """
        if self._is_over:
            raise self._connection_lost()
        requests = self._outgoing_requests
        if len(requests.open) >= self._max_pending:
            await requests.acquire_slot()
            if self._is_over:
                raise self._connection_lost()
        call = requests.start(method, params, on_result, on_release, on_late_result)
        try:
            call.id, frame = self._peer.request(method.name, params, call)
            is_congested = self._writer.send(frame)
            del frame  # it may be large, and the response may take long
            if self._capacity_event is not None:
                self._wake_reader()
            if is_congested:
                await self._writer.drain()
            result: R = await call.future
            return result
        except BaseException:
            self._abandon(call)
            raise

    async def notify(self, notification: Notification[P], params: P) -> None:
        """Send a notification to the peer. Waits only while the peer reads too slowly.

        Raises:
            ConnectionLost: The peer no longer accepts frames.
        """
        name = notification.name
        session_id = getattr(params, "session_id", None)
        waiting = self._writer.send_notification(name, session_id, serialize_notification(name, params))
        if waiting is not None:
            await waiting

    def _abandon(self, call: PendingRequest) -> None:
        """Cancel a request whose wait ended without a response, if it was sent."""
        self._outgoing_requests.abandon(call)
        late = None if call.on_late_result is None else call
        frame = self._peer.cancel(call.id, late=late) if call.id else None
        if frame is not None:
            self._writer.send_quietly(frame)

    # --- reading

    async def _read(self) -> None:
        cause: BaseException | None = None
        try:
            self._dispatcher.get_ready()
            while frames := await self._transport.receive():
                if self._failure is not None:
                    raise self._failure
                self._handle(frames)
                if self._waiting_bytes > self._max_incoming:
                    await self._wait_for_capacity()
        except asyncio.CancelledError:
            raise
        except DuologueError as error:
            cause = error
        except Exception as error:
            _log.exception("reading from the peer failed")
            cause = error
        self._end(cause)
        await self._wind_down()

    def _on_frames(self, frames: list[bytes]) -> bool:
        """Handle frames without waking `_read`; only `_read` waits for capacity and ends the connection."""
        if self._capacity_event is not None or self._queues.queued_bytes + self._unread.bytes > self._max_incoming:
            return False
        try:
            self._handle(frames)
        except Exception as error:
            self._failure = error
        return self._failure is None

    def _observe_and_handle(self, frames: list[bytes]) -> None:
        for frame in frames:
            notify_observers(self._observers, "in", frame)
            self._dispatcher.on_frames([frame])

    @property
    def _waiting_bytes(self) -> int:
        return self._queues.queued_bytes + self._unread.bytes

    def _wake_reader(self) -> None:
        if self._capacity_event is not None and not self._capacity_event.done():
            self._capacity_event.set_result(None)

    async def _wait_for_capacity(self) -> None:
        """Pause reading until handlers and readers have caught up, unless a request needs input that is not read."""
        self._queues.reports_progress = self._unread.is_awaited = True
        try:
            while (waiting := self._waiting_bytes) > self._max_incoming:
                if self._writer.waiting or self._outgoing_requests.is_blocked_on_input():
                    if waiting > HARD_LIMIT * self._max_incoming:
                        raise InputLimitExceeded(
                            f"{waiting} bytes of input wait to be handled or read (limit "
                            f"{HARD_LIMIT * self._max_incoming}), and a request waits for a response behind them; "
                            f"handle and read faster, or await the request in another task"
                        )
                    return
                self._capacity_event = asyncio.get_running_loop().create_future()
                self._unread.report_full()
                await self._capacity_event
        finally:
            self._queues.reports_progress = self._unread.is_awaited = False
            self._capacity_event = None

    # --- the end

    def _end(self, cause: BaseException | None) -> None:
        """End all requests within a second, after the notifications that were already received if possible."""
        if self._is_over:
            return
        self._is_over = True
        self._transport.on_frames = None
        if isinstance(cause, ConnectionLost):
            self.cause = cause
        elif cause is not None:
            self.cause = ConnectionLost(str(cause))
            self.cause.__cause__ = cause
        self._writer.end(CANCEL_GRACE)
        self._outgoing_requests.fail_all(self._connection_lost, at_once=False)
        self._incoming_requests.release_positions("the connection is over")
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(CANCEL_GRACE, self._outgoing_requests.fail_all, self._connection_lost, True)

    async def _wind_down(self) -> None:
        """Let handlers finish shortly after the peer is gone, then cancel them."""
        try:
            async with asyncio.timeout(LINGER):
                await self._handler_tasks.settle()
                await self._until_handled()
        except TimeoutError:
            await self._handler_tasks.cancel(CANCEL_GRACE)
        self._closed.set()

    async def _until_handled(self) -> None:
        self._queues.reports_progress = True
        while self._queues.is_busy:
            self._capacity_event = asyncio.get_running_loop().create_future()
            await self._capacity_event

    def _connection_lost(self) -> ConnectionLost:
        """Make an error for one caller: a shared one would collect the tracebacks of all."""
        if self.cause is None:
            return ConnectionLost("the connection is closed")
        lost = copy(self.cause)
        lost.__cause__ = self.cause.__cause__
        return lost
