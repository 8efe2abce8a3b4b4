"""A `Peer` on a `Transport`: where frames become calls of handlers, and exceptions become error answers.

One task reads and never runs user code. Requests of the peer get a task each; notifications go through the lanes of
their sessions. `docs/topics/order.md` states the order this keeps, `docs/topics/limits.md` what bounds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar

from msgspec import UNSET

from duologue.errors import (
    ConnectionLost,
    Deadlock,
    DuologueError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    PeerTooFast,
    RequestError,
    TooMuchNoise,
)
from duologue.jsonrpc.codec import MAX_NUMBER_CHARS, has_long_number
from duologue.jsonrpc.messages import Answer, Cancel, Id, Message
from duologue.jsonrpc.peer import MAX_PENDING, Peer
from duologue.runtime.calls import Call, Calls, read_object
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.introductions import Introductions
from duologue.runtime.lanes import Lanes
from duologue.runtime.log import FrameLog, is_wanted, shorten
from duologue.runtime.requests import Requests, reference
from duologue.runtime.tasks import TaskScope
from duologue.schema.base import Method, Notification
from duologue.transports.base import Transport

__all__ = ["Connection", "Direction", "Tap"]

_log = logging.getLogger("duologue.runtime")

P = TypeVar("P")
R = TypeVar("R")
Direction: TypeAlias = Literal["in", "out"]
_Held: TypeAlias = tuple[Any, Context, Any]
Tap: TypeAlias = Callable[[Direction, bytes], None]
"""Sees every frame as it passes. It must be quick; what it raises is logged and changes nothing."""

MAX_INCOMING_BYTES = 16 * 1024 * 1024
"""Unhandled input before reading pauses: several seconds of the fastest agent, little beside an interpreter."""

HARD_MARK = 4
"""How many times that bound may be exceeded while reading has to go on, before the connection ends."""

LINGER = 0.5
"""Seconds a running handler gets to finish by itself after the peer closed its end."""

CANCEL_GRACE = 1.0
"""Seconds a cancelled handler gets to clean up before it is abandoned; also the longest a call waits on a lost peer."""

BURST_BYTES = 64 * 1024
"""Sent without a break before the event loop gets a turn, so that a tight loop of updates still sees a cancel."""

NOISE_LINES = 1000
NOISE_BYTES = 1024 * 1024
"""What a child may print before its first message; more is not a banner but the wrong program."""


class Connection:
    """Both directions of a conversation. Enter it to start, leave it to end everything it started.

    Args:
        transport: How frames move; entered and closed by the connection.
        handlers: What this end can do. Changes to the table take effect at once.
        first: The request that must come before all others (`initialize`, on the agent's side).
        skips_noise: Ignore lines that are not JSON (on the client's side, where an agent may print).
        taps: Observers of every frame.
        debug: Put the text of unexpected exceptions into error answers.
        max_incoming_bytes: Unhandled input before reading pauses.
        max_pending: Requests in flight, per direction.
    """

    def __init__(
        self,
        transport: Transport,
        handlers: Handlers | None = None,
        *,
        first: str | None = None,
        skips_noise: bool = False,
        taps: tuple[Tap, ...] = (),
        debug: bool = False,
        max_incoming_bytes: int = MAX_INCOMING_BYTES,
        max_pending: int = MAX_PENDING,
    ) -> None:
        self.handlers = handlers if handlers is not None else Handlers()
        self.cause: ConnectionLost | None = None
        """Why the connection is over, once it is; `None` after a plain end."""
        self._transport = transport
        self._peer = Peer(first=first, skips_noise=skips_noise, max_pending=max_pending)
        self._first = first
        self._taps: tuple[Tap, ...] = (*taps, FrameLog()) if is_wanted() else taps
        self._debug = debug
        self._max_incoming = max_incoming_bytes
        self._max_pending = max_pending
        self._draining = 0
        self._burst = 0
        self._held_out = 0
        self._room: asyncio.Future[None] | None = None
        self._is_over = False
        self._is_left = False

    async def __aenter__(self) -> Self:
        self._closed = asyncio.Event()
        self._tasks = TaskScope()
        self._handler_tasks = TaskScope()
        self._lanes = Lanes(self._tasks, self._report, self._reconsider)
        self._arrivals: Introductions[_Held] = Introductions(self._deliver)
        self._departures: Introductions[bytes] = Introductions(self._depart)
        self._calls = Calls(self._lanes, self._arrivals, self._max_pending)
        self._requests = Requests(
            self._peer,
            self._handler_tasks,
            self._departures,
            self._send_and_drain,
            first=self._first,
            debug=self._debug,
        )
        await self._transport.__aenter__()
        self._reader = self._tasks.start(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def is_closed(self) -> bool:
        """Nothing more will come from the peer."""
        return self._is_over

    async def wait_closed(self) -> None:
        """Until the peer has closed its end and what it asked for is finished or given up."""
        await self._closed.wait()

    async def aclose(self) -> None:
        """End the connection: running handlers are cancelled, waiting calls fail. A second call does nothing."""
        if self._is_left:
            return
        self._is_left = True
        self._end(None)
        try:
            await self._handler_tasks.cancel(CANCEL_GRACE)
            await self._tasks.cancel(CANCEL_GRACE)
        finally:
            self._deadline.cancel()
            self._calls.fail_all(self._lost(), at_once=True)
            self._peer.close()
            await self._transport.__aexit__(None, None, None)
            self._closed.set()

    # --- calling the peer

    async def request(self, method: Method[P, R], params: P, *, arrived: Callable[[R], None] | None = None) -> R:
        """Ask the peer and wait for its answer. Cancelling the wait tells the peer.

        Args:
            method: What to ask.
            params: With what.
            arrived: Called with the result the moment it is read, before anything else of its session is handled.

        Raises:
            RequestError: The peer's error answer.
            ConnectionLost: No answer will come.
            ProtocolViolation: The answer makes no sense.
            Deadlock: The current handler stands in the way of the answer.
        """
        if self._is_over:
            raise self._lost()
        if self._peer.pending >= self._max_pending:
            await self._calls.slot()
        call = self._calls.start(method, params, arrived)
        try:
            call.id, frame = self._peer.request(method.name, params, call)
            self._send(frame)
            if self._room is not None:
                self._reconsider()
            if self._transport.is_congested:
                await self._drain()
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
        frame = self._peer.notification(notification.name, params)
        if self._departures.is_waiting:
            session_id = getattr(params, "session_id", None)
            if session_id is not None and self._departures.must_wait(session_id):
                return self._hold_back(notification.name, session_id, frame)
        self._send(frame)
        self._burst += len(frame)
        if self._transport.is_congested:
            await self._drain()
        elif self._burst > BURST_BYTES:
            self._burst = 0
            await asyncio.sleep(0)

    def _abandon(self, call: Call) -> None:
        """The wait ended without an answer: tell the peer, if it was ever asked."""
        self._calls.abandon(call)
        frame = self._peer.cancel(call.id) if call.id else None
        if frame is not None:
            self._send_quietly(frame)

    def _hold_back(self, method: str, session_id: str, frame: bytes) -> None:
        self._held_out += len(frame)
        if self._held_out > self._max_incoming:
            raise Deadlock(
                f"over {self._max_incoming} bytes of {method} for session {session_id!r} wait for the answer that "
                f"introduces it; return that answer first"
            )
        self._departures.hold(session_id, frame)

    def _depart(self, session_id: str, frame: bytes) -> None:
        self._held_out -= len(frame)
        self._send_quietly(frame)

    def _send(self, frame: bytes) -> None:
        if self._is_left:
            raise self._lost()
        if self._taps:
            self._show("out", frame)
        self._transport.send(frame)

    def _send_quietly(self, frame: bytes) -> None:
        """For what nobody waits on: a peer that is gone is noticed by those who do."""
        try:
            self._send(frame)
        except ConnectionLost:
            _log.debug("not sent, the peer is gone: %d bytes", len(frame))

    async def _send_and_drain(self, frame: bytes) -> None:
        self._send(frame)
        if self._transport.is_congested:
            await self._drain()

    async def _drain(self) -> None:
        """Waiting for room to write is waiting for the peer: reading must go on meanwhile."""
        self._draining += 1
        self._reconsider()
        try:
            await self._transport.drain()
        finally:
            self._draining -= 1

    def _show(self, direction: Direction, frame: bytes) -> None:
        for tap in self._taps:
            try:
                tap(direction, frame)
            except Exception:
                _log.exception("an observer of frames failed")

    # --- reading

    async def _read(self) -> None:
        cause: BaseException | None = None
        try:
            while frames := await self._transport.receive():
                for frame in frames:
                    if self._taps:
                        self._show("in", frame)
                    self._on_frame(frame)
                if self._lanes.queued_bytes > self._max_incoming:
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

    def _on_frame(self, frame: bytes) -> None:
        event = self._peer.receive(frame)
        if isinstance(event, Message):
            if event.id is UNSET:
                self._on_notification(event, frame)
            else:
                self._on_request(event, event.id, frame)
        elif isinstance(event, Answer):
            self._calls.on_answer(event)
        elif isinstance(event, Cancel):
            self._requests.cancel(event.id)
        else:
            self._after_nothing()

    def _after_nothing(self) -> None:
        """A frame that was no event: it may want an answer, or be one line of noise too many."""
        for reply in self._peer.frames_to_send():
            self._send_quietly(reply)
        peer = self._peer
        if not peer.messages_received and (peer.noise_lines > NOISE_LINES or peer.noise_bytes > NOISE_BYTES):
            raise TooMuchNoise(
                f"{peer.noise_lines} lines that are not the protocol, beginning with {shorten(peer.first_noise)}; "
                f"is this command an ACP agent?"
            )

    def _on_notification(self, message: Message, frame: bytes) -> None:
        name: str = message.method  # type: ignore[assignment]  # the peer checked it
        entry = self.handlers.notifications.get(name)
        if entry is None:
            if self.handlers.other_notifications is not None and name not in self.handlers.requests:
                self._lanes.put(
                    None, self.handlers.other_notifications, Context(self, name, frame), message.params, len(frame)
                )
            return
        notification, handler = entry
        try:
            params = read_object(notification.params, message.params)
        except InvalidParams as bad:
            _log.warning("%s dropped: %s", shorten(name), shorten(bad.message))
            return
        context = Context(self, name, frame)
        session_id = getattr(params, "session_id", None)
        if notification.urgent:
            self._handler_tasks.start(self._run_urgent(context, handler, params))
        elif session_id is not None and self._arrivals.is_waiting and self._arrivals.must_wait(session_id):
            self._lanes.queued_bytes += len(frame)
            self._arrivals.hold(session_id, (handler, context, params))
        else:
            self._lanes.put(session_id, handler, context, params, len(frame))

    def _on_request(self, message: Message, id: Id, frame: bytes) -> None:
        name: str = message.method  # type: ignore[assignment]  # the peer checked it
        context = Context(self, name, frame, id)
        entry = self.handlers.requests.get(name)
        if entry is None:
            if self.handlers.other_requests is not None and name not in self.handlers.notifications:
                self._requests.start(context, id, None, self.handlers.other_requests, message.params)
            else:
                self._refuse(id, MethodNotFound(f"no such method: {shorten(name)}", data={"method": name}))
            return
        method, handler = entry
        try:
            params = read_object(method.params, message.params)
        except InvalidParams as bad:
            too_long = InvalidRequest(f"a number has more than {MAX_NUMBER_CHARS} characters")
            self._refuse(id, too_long if has_long_number(frame) else bad)
            return
        self._requests.start(context, id, method, handler, params)

    def _refuse(self, id: Id, error: RequestError) -> None:
        frame = self._peer.fail(id, error)
        if frame is not None:
            self._send_quietly(frame)

    def _deliver(self, session_id: str, held: _Held) -> None:
        handler, context, params = held
        self._lanes.queued_bytes -= len(context.raw)
        self._lanes.put(session_id, handler, context, params, len(context.raw))

    async def _run_urgent(self, context: Context, handler: Any, params: Any) -> None:
        try:
            await handler(context, params)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._report(context.method, error)

    def _reconsider(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def _wait_for_room(self) -> None:
        """Pause reading until the lanes have caught up, unless somebody needs what is still in the pipe."""
        self._lanes.reports_progress = True
        try:
            while (queued := self._lanes.queued_bytes) > self._max_incoming:
                if queued > HARD_MARK * self._max_incoming:
                    raise PeerTooFast(
                        f"{queued} bytes of input wait to be handled (limit {HARD_MARK * self._max_incoming}); "
                        f"the handlers are too slow, and something waits for an answer behind them"
                    )
                if self._draining or self._calls.starve():
                    return
                self._room = asyncio.get_running_loop().create_future()
                await self._room
        finally:
            self._lanes.reports_progress = False
            self._room = None

    # --- the end

    def _end(self, cause: BaseException | None) -> None:
        """Nothing more will come: every call ends within a second, behind what was already received if it can."""
        if self._is_over:
            return
        self._is_over = True
        if isinstance(cause, ConnectionLost):
            self.cause = cause
        elif cause is not None:
            self.cause = ConnectionLost(str(cause))
            self.cause.__cause__ = cause
        self._calls.fail_all(self._lost(), at_once=False)
        self._deadline = asyncio.get_running_loop().call_later(
            CANCEL_GRACE, self._calls.fail_all, self._lost(), True
        )

    async def _wind_down(self) -> None:
        """The peer is gone: let what it asked for finish if that is a matter of moments, then give it up."""
        await self._handler_tasks.settle(LINGER)
        await self._handler_tasks.cancel(CANCEL_GRACE)
        self._closed.set()

    def _lost(self) -> ConnectionLost:
        return self.cause if self.cause is not None else ConnectionLost("the connection is closed")

    def _report(self, method: str, error: BaseException) -> None:
        _log.error("handling %s failed, reference %s", shorten(method), reference(), exc_info=error)
