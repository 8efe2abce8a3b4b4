"""Dispatch of received frames: to a handler, to the request they answer, or to an error response.

Everything here runs on the read loop, so nothing waits and no user code is called. Requests of the peer get a task
each; notifications go through the queues of their sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET

from duologue.errors import InvalidParams, InvalidRequest, MethodNotFound, NotAnAgent, RequestError
from duologue.jsonrpc.codec import (
    MAX_NUMBER_CHARS,
    METHOD_AT,
    METHOD_BYTE,
    SHALLOW_BYTES,
    has_long_number,
    is_well_formed,
    parse,
)
from duologue.jsonrpc.messages import Cancel, Id, JsonRpcMessage, Response
from duologue.jsonrpc.peer import Event, Peer
from duologue.runtime.fast_path import LONG_BYTES, NotificationFastPath
from duologue.runtime.handlers import Context, Handlers, NotificationEntry, NotificationHandler
from duologue.runtime.incoming_requests import IncomingRequests
from duologue.runtime.outgoing_requests import OutgoingRequests, read_object
from duologue.runtime.pending_sessions import PendingSessions
from duologue.runtime.queue_positions import QueuePosition
from duologue.runtime.session_queues import SessionQueues
from duologue.runtime.tasks import TaskScope, is_current
from duologue.runtime.unread_bytes import PLAIN_BYTES, UnreadBytes, size_of
from duologue.runtime.writer import FrameWriter
from duologue.sanitize import quote

if TYPE_CHECKING:
    from duologue.runtime.connection import Connection

_log = logging.getLogger("duologue.runtime")

_Deferred: TypeAlias = tuple[Any, Context, Any]

MAX_STRAY_LINES = 1000
MAX_STRAY_BYTES = 1024 * 1024
"""Output of a process that is not the protocol, before its first message; more means that it is the wrong program."""

MAX_READ_BYTES = 1024 * 1024
"""Unhandled input that is kept decoded; beyond it only the frames are kept, which take less than half the memory."""


class Dispatcher:
    """Dispatcher of the frames that one connection receives."""

    def __init__(
        self,
        connection: Connection,
        handlers: Handlers,
        peer: Peer,
        writer: FrameWriter,
        queues: SessionQueues,
        unread: UnreadBytes,
        requests: IncomingRequests,
        handler_tasks: TaskScope,
        max_pending: int,
        first_method: str | None,
    ) -> None:
        self._connection = connection
        self._handlers = handlers
        self._fast_path = NotificationFastPath(handlers)
        self._peer = peer
        self._writer = writer
        self._queues = queues
        self._requests = requests
        self._handler_tasks = handler_tasks
        self._first_method = first_method
        self._pending_sessions: PendingSessions[_Deferred] = PendingSessions(self._deliver)
        self.outgoing_requests = OutgoingRequests(queues, unread, self._pending_sessions, max_pending)

    def get_ready(self) -> None:
        """Build the decoder of the fast path now, while the peer is still starting."""
        self._fast_path.refresh()

    def on_frames(self, frames: list[bytes]) -> None:
        """Dispatch frames in the order of their arrival.

        Raises:
            MessageTooLarge: A frame is too large, and what was read of it does not show which request it concerns.
            NotAnAgent: The peer does not speak the protocol.
        """
        # Every update that a client reads comes through here, so this loop calls as little as it can.
        peer, queues, pending_sessions, fast_path = self._peer, self._queues, self._pending_sessions, self._fast_path
        connection, handlers, notifications = self._connection, self._handlers, self._handlers.notifications
        if fast_path.version != handlers.version:
            fast_path.refresh()
        items, items_of = None, None
        for frame in frames:
            size = len(frame)
            known: Any = None
            if METHOD_AT < size <= LONG_BYTES and frame[METHOD_AT] == METHOD_BYTE and not peer.awaits_first:
                try:
                    known = fast_path.decode(frame)
                except Exception:
                    known = None  # the general path reports what is wrong, if anything is
            if (
                known is None
                or known.id is not UNSET
                or not ((size <= SHALLOW_BYTES and frame.isascii()) or is_well_formed(frame))
            ):
                self._on_event(peer.receive(frame), frame)
                if fast_path.version != handlers.version:
                    fast_path.refresh()
                continue
            peer.has_received = True
            params = known.params
            if pending_sessions.is_waiting or queues.queued_bytes > MAX_READ_BYTES:
                self._accept(known.method, notifications[known.method], params, frame)
                continue
            session_id = getattr(params, "session_id", None)
            if items is None or session_id != items_of:
                items, items_of = queues.items_of(session_id), session_id
            items.append((notifications[known.method][1], Context(connection, known.method, frame), params, size))
            queues.queued_bytes += size

    def _on_event(self, event: Event | None, frame: bytes) -> None:
        if type(event) is Response:  # none of them has a subclass
            self.outgoing_requests.on_answer(event)
        elif type(event) is JsonRpcMessage:
            if event.id is UNSET:
                self._on_notification(event, frame)
            else:
                self._on_request(event, event.id, frame)
        elif type(event) is Cancel:
            self._requests.cancel(event.id)
        else:
            self._after_no_event()

    def _after_no_event(self) -> None:
        """Send error responses to bad input; end the connection if the peer prints too much stray output."""
        for reply in self._peer.frames_to_send():
            self._writer.send_quietly(reply)
        peer = self._peer
        if not peer.has_received and (peer.stray_lines > MAX_STRAY_LINES or peer.stray_bytes > MAX_STRAY_BYTES):
            raise NotAnAgent(f"{self.stray_output}; is this command an ACP agent?")

    @property
    def stray_output(self) -> str:
        """Summary of lines that are not the protocol: how many, and the first; empty if there are none."""
        lines = self._peer.stray_lines
        how_many = "1 line that is" if lines == 1 else f"{lines} lines that are"
        return f"{how_many} not the protocol, beginning with {quote(self._peer.first_stray_line)}" if lines else ""

    def _on_notification(self, message: JsonRpcMessage, frame: bytes) -> None:
        name: str = message.method  # type: ignore[assignment]  # the peer checked it
        entry = self._handlers.notifications.get(name)
        if entry is None:
            other = self._handlers.other_notifications
            if other is not None and name not in self._handlers.requests:
                self._queues.put(None, other, Context(self._connection, name, frame), message.params, len(frame))
            return
        try:
            params = read_object(entry[0].params, message.params)
        except InvalidParams as bad:
            _log.warning("%s dropped: %s", quote(name), quote(bad.message))
            return
        except Exception as error:  # raised by the type itself: it costs this message, not the connection
            self._requests.report(name, error)
            return
        self._accept(name, entry, params, frame)

    def _accept(self, name: str, entry: NotificationEntry, params: Any, frame: bytes) -> None:
        """Queue a notification that has a handler, or start the handler if it is urgent."""
        notification, handler = entry
        context = Context(self._connection, name, frame)
        session_id = getattr(params, "session_id", None)
        if notification.urgent:
            self._handler_tasks.start(_run_urgent(self._requests.report, context, handler, params))
        elif self._queues.queued_bytes > MAX_READ_BYTES and not self.is_opening(session_id):
            self._queues.put(session_id, _DecodeAgain(handler, notification.params), context, None, len(frame))
        else:
            self._enqueue(session_id, handler, context, params)

    def is_opening(self, session_id: str | None) -> bool:
        """Return True if a request of ours may be about to open this session."""
        return (
            session_id is not None
            and self._pending_sessions.is_waiting
            and self._pending_sessions.must_wait(session_id)
        )

    def _enqueue(self, session_id: str | None, handler: Any, context: Context, params: Any) -> None:
        """Append to the queue of the session; buffer it while the session is not announced yet."""
        if session_id is not None and self.is_opening(session_id):
            self._queues.queued_bytes += len(context.raw)
            self._pending_sessions.defer(session_id, (handler, context, params))
        else:
            self._queues.put(session_id, handler, context, params, len(context.raw))

    def _on_request(self, message: JsonRpcMessage, id: Id, frame: bytes) -> None:
        name: str = message.method  # type: ignore[assignment]  # the peer checked it
        context = Context(self._connection, name, frame, id)
        if name == self._first_method and self._handlers.prepare is not None:
            try:
                message.params = self._handlers.prepare(message.params)
            except RequestError as bad:
                self._reject(id, bad)
                return
        size = len(frame)
        if size > PLAIN_BYTES:
            size = size_of(frame)
        requests = self._requests
        if requests.running_bytes + size > requests.max_bytes and (busy := requests.rejection(size)) is not None:
            self._reject(id, busy)
            return
        entry = self._handlers.requests.get(name)
        if entry is None:
            other = self._handlers.other_requests
            if other is not None and name not in self._handlers.notifications:
                self._take_position(None, None, context, message.params)
                requests.start(context, id, None, other, message.params, size)
            else:
                self._reject(id, MethodNotFound(f"no such method: {quote(name)}", data={"method": name}))
            return
        method, handler = entry
        try:
            params = read_object(method.params, message.params)
        except InvalidParams as bad:
            too_long = InvalidRequest(f"a number has more than {MAX_NUMBER_CHARS} characters")
            self._reject(id, too_long if has_long_number(frame) else bad)
            return
        except Exception as error:
            self._reject(id, requests.error_for(error, name))
            return
        if name in self._handlers.positions:
            session_id = getattr(params, "session_id", None)
            self._take_position(session_id, self._handlers.positions[name], context, params)
        requests.start(context, id, method, handler, params, size)

    def _take_position(
        self, session_id: str | None, at_position: Callable[[Context, Any], Any] | None, context: Context, params: Any
    ) -> None:
        """Give a request a position behind the notifications of its session, if it needs one."""
        if at_position is None and not self.is_opening(session_id) and not self._queues.has_backlog(session_id):
            return
        context.position = asyncio.get_running_loop().create_future()
        self._enqueue(session_id, QueuePosition(at_position), context, params)

    def _reject(self, id: Id, error: RequestError) -> None:
        frame = self._peer.respond_error(id, error)
        if frame is not None:
            self._writer.send_quietly(frame)

    def _deliver(self, session_id: str, item: _Deferred) -> None:
        handler, context, params = item
        self._queues.queued_bytes -= len(context.raw)
        self._queues.put(session_id, handler, context, params, len(context.raw))


class _DecodeAgain:
    """A handler whose decoded parameters were not kept: it decodes the frame a second time when it is called."""

    __slots__ = ("_handler", "_kind")

    def __init__(self, handler: NotificationHandler[Any], kind: Any) -> None:
        self._handler = handler
        self._kind = kind

    def __call__(self, context: Context, _: None) -> Awaitable[None] | None:
        return self._handler(context, read_object(self._kind, parse(context.raw).params))


async def _run_urgent(report: Callable[[str, BaseException], str], context: Context, handler: Any, params: Any) -> None:
    task = asyncio.current_task()
    try:
        if (waiting := handler(context, params)) is not None:
            await waiting
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if isinstance(error, GeneratorExit) and not is_current(task):
            raise
        report(context.method, error)
