"""Requests sent to the peer that wait for a response, and when each response is released.

Most responses are released at once. Those that end or open something (`Method.in_order`) wait in the queue of their
session, so that when `prompt()` returns, every update of the turn has been handled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from duologue.errors import ConnectionLost, Deadlock, InvalidParams, ProtocolViolation
from duologue.jsonrpc.codec import OBJECT_BYTES, decoded_bytes
from duologue.jsonrpc.messages import Id, Response
from duologue.runtime.pending_sessions import PendingSessions
from duologue.runtime.session_queues import SessionQueues
from duologue.runtime.unread_bytes import UnreadBytes
from duologue.schema.base import Method
from duologue.schema.codec import decoder_for, strict_decoder_for

_log = logging.getLogger("duologue.runtime")

MAX_VALUE_BYTES = 32 * 1024 * 1024
"""Memory for the values of one message, in addition to their text: half a million arrays or numbers."""

_CLEARLY_SMALL_BYTES = MAX_VALUE_BYTES // OBJECT_BYTES
"""A text of at most this length cannot contain values that take more than that."""

_NULL = Raw(b"null")
_EMPTY = Raw(b"{}")
_decoders: dict[Any, Callable[[Any], Any]] = {}


class PendingRequest(Struct, eq=False):
    """One request in flight to the peer.

    Attributes:
        method: The method that is called.
        session_id: The session of its parameters.
        is_first: The session may be one that the peer does not know yet.
        on_result: Gets the result as soon as it is read.
        on_release: Gets the result in its order among the notifications of its session.
        on_late_result: Gets a result that arrives after the wait was cancelled.
        future: The wait of the caller.
        id: The id of the request, 0 before it has one.
        is_abandoned: The caller no longer waits.
    """

    method: Method[Any, Any]
    session_id: str | None
    is_first: bool
    on_result: Callable[[Any], None] | None
    on_release: Callable[[Any], None] | None
    on_late_result: Callable[[Any], object] | None
    future: asyncio.Future[Any]
    id: Id = 0
    is_abandoned: bool = False

    def settle(self, outcome: tuple[Any, Exception | None]) -> None:
        """Give the waiting task its result or its error, unless the wait was cancelled."""
        result, error = outcome
        if self.future.done():
            if self.future.cancelled() and error is None:
                self.deliver_late(result)
        elif error is None:
            if self.on_release is not None:
                self.on_release(result)
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def deliver_late(self, result: Any) -> None:
        """Pass a result that arrived after cancellation to `on_late_result`."""
        if self.on_late_result is not None:
            try:
                self.on_late_result(result)
            except Exception:
                _log.exception("handling the late response to %s failed", self.method.name)


class OutgoingRequests:
    """The requests that one connection has sent and that are not answered yet.

    Attributes:
        open: The requests without a response.
    """

    def __init__(
        self, queues: SessionQueues, unread: UnreadBytes, pending_sessions: PendingSessions[Any], max_pending: int
    ) -> None:
        self._queues = queues
        self._unread = unread
        self._pending_sessions = pending_sessions
        self._max_pending = max_pending
        self._loop = asyncio.get_running_loop()
        self.open: set[PendingRequest] = set()
        self._unreleased: set[PendingRequest] = set()
        """Answered requests whose response waits behind unhandled notifications of their session."""
        self._slots: deque[asyncio.Future[None]] = deque()

    async def acquire_slot(self) -> None:
        """Wait until another request may be sent.

        Raises:
            ConnectionLost: The connection ended meanwhile.
        """
        while len(self.open) >= self._max_pending:
            slot = self._loop.create_future()
            self._slots.append(slot)
            try:
                await slot
            except asyncio.CancelledError:
                if not slot.cancelled():
                    self._free_slot()  # the slot was already given to us: pass it on
                raise

    def start(
        self,
        method: Method[Any, Any],
        params: Any,
        on_result: Callable[[Any], None] | None,
        on_release: Callable[[Any], None] | None,
        on_late_result: Callable[[Any], object] | None,
    ) -> PendingRequest:
        """Register a request that is about to be sent.

        Raises:
            Deadlock: The current task is the handler that has to return before the response is released.
            TypeError: JSON cannot be read as the result type of the method.
        """
        if method.result not in _decoders:
            _add_decoder(method.result)
        session_id: Any = getattr(params, "session_id", None)
        if method.in_order and not method.opens_session and session_id is not None:
            occupied_by = self._queues.current_handler(session_id)
            if occupied_by is not None:
                raise Deadlock(
                    f"the handler of {occupied_by} awaits {method.name} of the same session {session_id!r}, whose "
                    f"response is released only after that handler has returned; await it in another task instead"
                )
        is_first = session_id is not None and session_id not in self._pending_sessions.known
        future = self._loop.create_future()
        call = PendingRequest(method, session_id, is_first, on_result, on_release, on_late_result, future)
        self.open.add(call)
        if is_first and session_id is not None:
            self._pending_sessions.request_started(session_id)
        if method.opens_session:
            self._pending_sessions.opening_started()
        return call

    def on_answer(self, answer: Response) -> None:
        """Read the response to a request, note the session it opens, and release it in its order."""
        call: PendingRequest = answer.call
        result, error = None, answer.error
        if error is None:
            try:
                result = read_object(call.method.result, answer.result)
            except InvalidParams as bad:
                error = ProtocolViolation(f"the result of {call.method.name} is invalid: {bad.message}")
            except Exception as failure:  # raised by the type itself: it fails this request, not the connection
                error = failure
        is_success = error is None
        if call.is_abandoned:
            if is_success:
                call.deliver_late(result)
            return
        if is_success and call.on_result is not None:
            try:
                call.on_result(result)
            except Exception as failure:  # the caller's own code fails its own request, not the connection
                error = failure
        session_id = self._finish(call, result, is_success)
        if call.method.in_order and session_id is not None and self._queues.has_backlog(session_id):
            self._unreleased.add(call)
            self._queues.put_barrier(session_id, self._release, (call, result, error))
        else:
            call.settle((result, error))

    def _release(self, answered: tuple[PendingRequest, Any, Exception | None]) -> None:
        call, result, error = answered
        self._unreleased.discard(call)
        call.settle((result, error))

    def abandon(self, call: PendingRequest) -> None:
        """Drop a request whose caller no longer waits for the response."""
        call.is_abandoned = True
        future = call.future
        # Answered at the moment of the cancellation, or failed while its caller still waited for capacity.
        if future.done() and not future.cancelled() and future.exception() is None:
            call.deliver_late(future.result())
        if call in self.open:
            self._finish(call, None, False)

    def fail_all(self, lost: Callable[[], ConnectionLost], at_once: bool) -> None:
        """Fail every open request. Unless `at_once`, the notifications received before are handled first."""
        for call in list(self.open):
            if not at_once and self._queues.has_backlog(call.session_id):
                self._queues.put_barrier(call.session_id, call.settle, (None, lost()))
            else:
                call.settle((None, lost()))
                self.open.discard(call)
        for slot in self._slots:
            if not slot.done():
                slot.set_exception(lost())

    def close(self, lost: Callable[[], ConnectionLost]) -> None:
        """Fail every open request, also those whose response waits behind notifications."""
        self.fail_all(lost, at_once=True)
        for call in self._unreleased:
            call.settle((None, lost()))
        self._unreleased.clear()

    def is_blocked_on_input(self) -> bool:
        """Return True if a request waits for a response that has not been read yet.

        The others wait behind the backlog of their own session: for them reading may stay paused.
        """
        return any(not self._waits_in_queue(call) for call in self.open)

    def _waits_in_queue(self, call: PendingRequest) -> bool:
        """Return True if notifications of its session, or for a prompt the reader of its turn, come first."""
        method, session_id = call.method, call.session_id
        if not method.in_order or method.opens_session:
            return False
        return self._queues.has_backlog(session_id) or (not method.ends_session and session_id in self._unread)

    def _free_slot(self) -> None:
        while self._slots:
            slot = self._slots.popleft()
            if not slot.done():
                slot.set_result(None)
                return

    def _finish(self, call: PendingRequest, result: Any, is_success: bool) -> str | None:
        """Remove an answered or abandoned request; return the session its response belongs to."""
        self.open.discard(call)
        if self._slots:
            self._free_slot()
        session_id, pending_sessions = call.session_id, self._pending_sessions
        if call.is_first and session_id is not None:
            pending_sessions.request_finished(session_id, is_success=is_success)
        if is_success and call.method.ends_session:
            pending_sessions.known.discard(session_id or "")
        if call.method.opens_session:
            session_id = getattr(result, "session_id", None)
            pending_sessions.opening_finished(session_id)
        return session_id


def read_object(kind: Any, raw: Raw | UnsetType) -> Any:
    """Decode params or a result as `kind`; absent and null stand for an empty object, `Raw` is returned unread.

    Raises:
        InvalidParams: The value does not match (the message names the path), or would take too much memory.
    """
    if kind is Raw:
        return raw
    if raw is UNSET or raw == _NULL:
        raw = _EMPTY
    elif len(raw) > _CLEARLY_SMALL_BYTES:
        _check_size(raw)
    try:
        return _decoders[kind](raw)
    except Exception:
        return _add_decoder(kind)(raw)  # leniently, or with an error that names the path


def _check_size(text: bytes) -> None:
    size = decoded_bytes(text) - len(text)
    if size > MAX_VALUE_BYTES:
        raise InvalidParams(f"$: its values would take {size} bytes of memory (limit {MAX_VALUE_BYTES}); send fewer")


def _add_decoder(kind: Any) -> Callable[[Any], Any]:
    """Keep the strict decoder of a type, and return the one for what that rejects."""
    decode = decoder_for(kind)
    _decoders[kind] = strict_decoder_for(kind)
    return decode
