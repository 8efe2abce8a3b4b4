"""Requests of the peer: each runs in its own task and is answered exactly once, whatever its handler does.

The one place where exceptions become error responses.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, cast

from msgspec import UNSET, Struct

from duologue.errors import (
    ConnectionLost,
    EncodeError,
    InternalError,
    InvalidRequest,
    RequestCancelled,
    RequestError,
)
from duologue.jsonrpc.messages import Id
from duologue.jsonrpc.peer import Peer
from duologue.runtime.handlers import Context
from duologue.runtime.queue_positions import release_position
from duologue.runtime.tasks import TaskScope, is_current
from duologue.runtime.writer import FrameWriter
from duologue.sanitize import quote
from duologue.schema.base import Method

_log = logging.getLogger("duologue.runtime")

Handler = Callable[[Context, Any], Awaitable[Any]]

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Memory for the peer's running requests, decoded: enough for a few of the largest, or many small ones."""


class _Running(Struct, eq=False):
    """A request between its arrival and its response."""

    context: Context
    method: Method[Any, Any] | None
    session_id: str | None
    is_first: bool
    """The session may be one that the peer does not know yet."""
    gate: asyncio.Future[bool] | None
    size: int
    has_started: bool = False
    is_cancelled: bool = False
    task: asyncio.Task[None] | None = None


class IncomingRequests:
    """The peer's requests that run on one connection.

    Args:
        peer: Tracks which requests are still unanswered.
        tasks: Owns the handler tasks.
        writer: Sends the responses.
        report: Logs an exception of a handler, and returns a reference by which to find it in the log.
        first_method: The method that the other requests have to wait for.
        max_bytes: The memory that running requests may take; further ones are rejected as busy.
        debug: Put the text of unexpected exceptions into error responses.

    Attributes:
        running_bytes: The memory that running requests take.
        max_bytes: The memory that they may take.
    """

    def __init__(
        self,
        peer: Peer,
        tasks: TaskScope,
        writer: FrameWriter,
        report: Callable[[str, BaseException], str],
        *,
        first_method: str | None,
        max_bytes: int,
        debug: bool,
    ) -> None:
        self._peer = peer
        self._tasks = tasks
        self._writer = writer
        self._pending_sessions = writer.pending_sessions
        self.report = report
        self._first_method = first_method
        self.max_bytes = max_bytes
        self.running_bytes = 0
        self._debug = debug
        self._running: dict[Id, _Running] = {}
        self._first_answered: asyncio.Future[bool] | None = None

    def rejection(self, size: int) -> RequestError | None:
        """Return the error for a request that would take too much memory together with the running ones."""
        if not self.running_bytes or self.running_bytes + size <= self.max_bytes:
            return None
        return InternalError(
            f"busy: the requests that are running take {self.running_bytes} of {self.max_bytes} bytes; "
            f"send this one again when one of them has been answered"
        )

    def start(
        self, context: Context, id: Id, method: Method[Any, Any] | None, handler: Handler, params: Any, size: int
    ) -> None:
        """Run `handler` in a task and answer the request with its result or error; `size` is its memory."""
        session_id: Any = getattr(params, "session_id", None)
        is_first = session_id is not None and session_id not in self._pending_sessions.known
        if is_first and session_id is not None:
            self._pending_sessions.request_started(session_id)
        if method is not None and method.opens_session:
            self._pending_sessions.opening_started()
        running = self._running[id] = _Running(context, method, session_id, is_first, self._first_answered, size)
        self.running_bytes += size
        if context.method == self._first_method:
            self._first_answered = asyncio.get_running_loop().create_future()
        running.task = self._tasks.start(self._run(running, id, handler, params))

    def cancel(self, id: Id) -> None:
        """Cancel the handler of a request that the peer cancelled; the response follows when the handler has ended."""
        running = self._running.get(id)
        if running is None or running.task is None:
            return
        running.is_cancelled = True
        if running.has_started:  # a task cancelled before its first step would never answer
            running.task.cancel()

    def release_positions(self, reason: str, session_id: str | None = None) -> None:
        """End the waits for positions among the notifications of this session, or of all sessions (`None`)."""
        for running in self._running.values():
            if session_id is None or running.session_id == session_id:
                release_position(running.context, reason)

    async def _run(self, running: _Running, id: Id, handler: Handler, params: Any) -> None:
        running.has_started = True
        context = running.context
        result: Any = None
        error: RequestError | None = None
        try:
            if running.is_cancelled:
                self._cancel_beforehand(running)
            if running.gate is not None and not await asyncio.shield(running.gate):
                raise InvalidRequest(f"{self._first_method} must come first")
            result = await handler(context, params)
        except BaseException as raised:
            if isinstance(raised, GeneratorExit) and not is_current(running.task):
                raise  # the event loop is gone, and nothing can be answered
            error = self.error_for(raised, context.method)
        del self._running[id]
        frame, is_success = self._response(id, result, error, context.method)
        try:
            if frame is not None and self._writer.send(frame):
                await self._writer.drain()
        except Exception as lost:
            _log.debug("the response to %s was not sent: %s", quote(context.method), quote(lost))
        finally:
            self._finish(running, result, is_success)
            # Cleared in any case: an action often refers to its context, a cycle that the garbage collector cannot see.
            following, context.following = context.following, None
        if following and is_success:
            await self._run_after(context.method, following)

    def _cancel_beforehand(self, running: _Running) -> None:
        """Answer a request that was cancelled before it started, unless its handler handles cancellation."""
        if running.task is None or running.method is None or not running.method.handles_cancellation:
            raise RequestCancelled("cancelled before it started")
        running.task.cancel()

    def _response(self, id: Id, result: Any, error: RequestError | None, method: str) -> tuple[bytes | None, bool]:
        """Return the response, `None` if there was one already, and whether it is a result."""
        if error is None:
            try:
                return self._peer.respond(id, {} if result is None or result is UNSET else result), True
            except EncodeError as bad:
                error = self.error_for(bad, method)
        return self._peer.respond_error(id, error), False

    def _finish(self, running: _Running, result: Any, is_success: bool) -> None:
        method, session_id, pending_sessions = running.method, running.session_id, self._pending_sessions
        self.running_bytes -= running.size
        if running.is_first and session_id is not None:
            pending_sessions.request_finished(session_id, is_success=is_success)
        if method is not None and is_success and method.ends_session:
            pending_sessions.known.discard(session_id or "")
        if method is not None and method.opens_session:
            pending_sessions.opening_finished(getattr(result, "session_id", None) if is_success else None)
        if self._first_answered is not None and running.context.method == self._first_method:
            self._first_answered.set_result(is_success)
            self._first_answered = None

    async def _run_after(self, method: str, actions: list[Callable[[], Awaitable[None]]]) -> None:
        for action in actions:
            try:
                await action()
            except Exception as raised:
                self.report(f"an action after the response to {method}", raised)

    def error_for(self, raised: BaseException, method: str) -> RequestError:
        """Return the error to send for an exception; details that are not sent are logged."""
        if isinstance(raised, RequestError):
            return raised
        if isinstance(raised, asyncio.CancelledError):
            return RequestCancelled("the request was cancelled")
        self.report(method, raised)
        return InternalError(text_for_peer(raised, debug=self._debug))


def report(method: str, error: BaseException, *, is_lost: bool) -> str:
    """Log an exception of a handler; return a reference that the error response names, to find it in the log.

    Args:
        method: The method that was handled.
        error: The exception.
        is_lost: The peer is gone. That a handler can no longer send is then not logged as an error.
    """
    reference = reference_of(error)
    if is_lost and _is_caused_by_loss(error):
        _log.info("handling %s ended with the connection, reference %s", quote(method), reference)
    else:
        _log.error("handling %s failed, reference %s", quote(method), reference, exc_info=error)
    return reference


def reference_of(error: BaseException) -> str:
    """Return the reference by which to find an exception in the log, the same one each time."""
    known: dict[str, str] = vars(error)
    return known.setdefault("_duologue_reference", os.urandom(4).hex())  # `secrets` takes 5 ms to import


def text_for_peer(error: BaseException, *, debug: bool) -> str:
    """Return what the peer is sent about an unexpected exception: its class, its reference, and in debug its text."""
    text = f": {_text_of(error)}" if debug else ""
    return f"{type(error).__name__}{text} (reference {reference_of(error)})"


def _is_caused_by_loss(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(map(_is_caused_by_loss, group.exceptions))
    return isinstance(error, ConnectionLost) or (error is not None and _is_caused_by_loss(error.__cause__))


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "its text could not be read"
