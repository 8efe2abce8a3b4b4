"""Requests of ours that wait for an answer, and the moment each answer is released.

Most answers settle at once. Those that end or open something (`Method.in_order`) take their turn in the lane of their
session, so that when `prompt()` returns, every update of the turn has been handled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from duologue.errors import ConnectionLost, Deadlock, InvalidParams, ProtocolViolation
from duologue.jsonrpc.codec import OBJECT_BYTES, decoded_bytes
from duologue.jsonrpc.messages import Id, Response
from duologue.runtime.pending_sessions import PendingSessions
from duologue.runtime.session_queues import SessionQueues
from duologue.runtime.unread_bytes import UnreadBytes
from duologue.schema.base import Method
from duologue.schema.codec import decoder_for

__all__ = ["OutgoingRequests", "PendingRequest", "read_object"]

_log = logging.getLogger("duologue.runtime")

MAX_VALUE_BYTES = 32 * 1024 * 1024
"""What the values of one message may take in memory beside their text: half a million arrays or numbers."""

_CLEARLY_SMALL_BYTES = MAX_VALUE_BYTES // OBJECT_BYTES
"""The values of what is no longer than this cannot take more."""

_NULL = Raw(b"null")
_EMPTY = Raw(b"{}")
_decoders: dict[Any, Callable[[Any], Any]] = {}


class PendingRequest:
    """One request of ours in flight; `late` is called with a result that nobody waits for any more."""

    __slots__ = ("arrived", "future", "id", "is_abandoned", "late", "method", "released", "session_id")

    def __init__(
        self,
        method: Method[Any, Any],
        session_id: str | None,
        arrived: Callable[[Any], None] | None,
        released: Callable[[Any], None] | None,
        late: Callable[[Any], object] | None,
        future: asyncio.Future[Any],
    ) -> None:
        self.method = method
        self.session_id = session_id
        self.arrived = arrived
        self.released = released
        self.late = late
        self.future = future
        self.id: Id = 0
        self.is_abandoned = False

    def settle(self, outcome: tuple[Any, Exception | None]) -> None:
        """Give the waiting task its result or its error; nobody waits any more if it was cancelled."""
        result, error = outcome
        if self.future.done():
            if self.future.cancelled() and error is None:
                self.deliver_late(result)
        elif error is None:
            if self.released is not None:
                self.released(result)
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def deliver_late(self, result: Any) -> None:
        """Hand a result to the one who wanted it even then."""
        if self.late is not None:
            try:
                self.late(result)
            except Exception:
                _log.exception("a late answer to %s could not be dealt with", self.method.name)


class OutgoingRequests:
    """The calls of one connection."""

    def __init__(
        self, lanes: SessionQueues, unread: UnreadBytes, arrivals: PendingSessions[Any], max_pending: int
    ) -> None:
        self._lanes = lanes
        self._unread = unread
        self._arrivals = arrivals
        self._max_pending = max_pending
        self._loop = asyncio.get_running_loop()
        self._open: set[PendingRequest] = set()
        self._unreleased: set[PendingRequest] = set()
        """Answered, but behind notifications of their session that are still to be handled."""
        self._slots: deque[asyncio.Future[None]] = deque()

    async def acquire_slot(self) -> None:
        """Wait until another request may be sent.

        Raises:
            ConnectionLost: None will be.
        """
        while len(self._open) >= self._max_pending:
            slot = self._loop.create_future()
            self._slots.append(slot)
            try:
                await slot
            except asyncio.CancelledError:
                if not slot.cancelled():
                    self._free_slot()  # it was ours already: the next in line must not miss it
                raise

    def start(
        self,
        method: Method[Any, Any],
        params: Any,
        arrived: Callable[[Any], None] | None,
        released: Callable[[Any], None] | None,
        late: Callable[[Any], object] | None,
    ) -> PendingRequest:
        """Account for a request that is about to be sent.

        Raises:
            Deadlock: The current task is the handler whose return the answer would have to wait for.
            TypeError: No answer could be read as the type that the method names for its result.
        """
        _decoder_for(method.result)
        session_id = getattr(params, "session_id", None)
        if method.in_order and not method.opens_session and session_id is not None:
            occupied_by = self._lanes.current_handler(session_id)
            if occupied_by is not None:
                raise Deadlock(
                    f"the handler of {occupied_by} awaits {method.name} of the same session {session_id!r}, whose "
                    f"answer is released only after that handler has returned; start it in a task of its own instead"
                )
        call = PendingRequest(method, session_id, arrived, released, late, self._loop.create_future())
        self._open.add(call)
        if session_id is not None:
            self._arrivals.request_started(session_id)
        if method.opens_session:
            self._arrivals.opening_started()
        return call

    def on_answer(self, answer: Response) -> None:
        """The answer to a call: read it, let it introduce its session, release it when its turn comes."""
        call: PendingRequest = answer.call
        result, error = None, answer.error
        if error is None:
            try:
                result = read_object(call.method.result, answer.result)
            except InvalidParams as bad:
                error = ProtocolViolation(f"the result of {call.method.name} does not fit: {bad.message}")
            except Exception as failure:  # raised by the type itself: it fails this call, not the connection
                error = failure
        is_success = error is None
        if call.is_abandoned:
            if is_success:
                call.deliver_late(result)
            return
        if is_success and call.arrived is not None:
            try:
                call.arrived(result)
            except Exception as failure:  # the caller's own code fails its own call, not the connection
                error = failure
        session_id = self._finish(call, result, is_success)
        if call.method.in_order and session_id is not None and self._lanes.has_backlog(session_id):
            self._unreleased.add(call)
            self._lanes.put_barrier(session_id, self._release, (call, result, error))
        else:
            call.settle((result, error))

    def _release(self, answered: tuple[PendingRequest, Any, Exception | None]) -> None:
        call, result, error = answered
        self._unreleased.discard(call)
        call.settle((result, error))

    def abandon(self, call: PendingRequest) -> None:
        """Nobody waits for this call any more."""
        call.is_abandoned = True
        future = call.future
        # Answered in the very moment of the cancellation, or failed while its caller still waited for room.
        if future.done() and not future.cancelled() and future.exception() is None:
            call.deliver_late(future.result())
        if call in self._open:
            self._finish(call, None, False)

    def fail_all(self, lost: Callable[[], ConnectionLost], at_once: bool) -> None:
        """No answer will come any more. Unless `at_once`, what was received before is handled first."""
        for call in list(self._open):
            if not at_once and self._lanes.has_backlog(call.session_id):
                self._lanes.put_barrier(call.session_id, call.settle, (None, lost()))
            else:
                call.settle((None, lost()))
                self._open.discard(call)
        for slot in self._slots:
            if not slot.done():
                slot.set_exception(lost())

    def close(self, lost: Callable[[], ConnectionLost]) -> None:
        """Nothing is handled any more: also the answers that wait behind notifications are given up."""
        self.fail_all(lost, at_once=True)
        for call in self._unreleased:
            call.settle((None, lost()))
        self._unreleased.clear()

    def is_blocked_on_input(self) -> bool:
        """Whether a call waits for an answer that only further reading can bring.

        The others wait behind a backlog of their own session: for them the pipe may stay full.
        """
        return any(not self._waits_in_lane(call) for call in self._open)

    def _waits_in_lane(self, call: PendingRequest) -> bool:
        """Whether something of its session comes first: notifications, or for a prompt the reader of its turn."""
        method, session_id = call.method, call.session_id
        if not method.in_order or method.opens_session:
            return False
        return self._lanes.has_backlog(session_id) or (not method.ends_session and session_id in self._unread)

    def _free_slot(self) -> None:
        while self._slots:
            slot = self._slots.popleft()
            if not slot.done():
                slot.set_result(None)
                return

    def _finish(self, call: PendingRequest, result: Any, is_success: bool) -> str | None:
        """Close the books on a call; the session its answer belongs to."""
        self._open.discard(call)
        if self._slots:
            self._free_slot()
        session_id = call.session_id
        if session_id is not None:
            is_over = is_success and call.method.ends_session
            self._arrivals.request_finished(session_id, is_known=is_success, is_over=is_over)
        if call.method.opens_session:
            session_id = getattr(result, "session_id", None)
            self._arrivals.opening_finished(session_id)
        return session_id


def read_object(kind: Any, raw: Raw | UnsetType) -> Any:
    """Params or a result as `kind`; absent and null stand for an empty object. `Raw` takes what is there as it is.

    Raises:
        InvalidParams: It does not fit, and the message names the place; or it would take too much memory.
    """
    if kind is Raw:
        return raw
    if raw is UNSET or raw == _NULL:
        raw = _EMPTY
    elif len(memoryview(raw)) > _CLEARLY_SMALL_BYTES:
        _check_size(bytes(raw))
    return _decoder_for(kind)(raw)


def _check_size(text: bytes) -> None:
    size = decoded_bytes(text) - len(text)
    if size > MAX_VALUE_BYTES:
        raise InvalidParams(f"$: its values would take {size} bytes of memory (limit {MAX_VALUE_BYTES}); send fewer")


def _decoder_for(kind: Any) -> Callable[[Any], Any]:
    try:
        return _decoders[kind]
    except KeyError:
        decode = _decoders[kind] = _as_it_is if kind is Raw else decoder_for(kind)
        return decode


def _as_it_is(raw: Any) -> Any:
    return raw
