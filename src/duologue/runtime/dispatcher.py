"""What arrives at a connection: each frame goes to the handler, the call or the error answer it is meant for.

Everything here runs on the read loop, so nothing waits and no user code is called. Requests of the peer get a task
each; notifications go through the lanes of their sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET

from duologue.errors import InvalidParams, InvalidRequest, MethodNotFound, NotAnAgent, RequestError
from duologue.jsonrpc.codec import MAX_NUMBER_CHARS, SHALLOW_BYTES, has_long_number, is_well_formed, parse
from duologue.jsonrpc.messages import Cancel, Id, JsonRpcMessage, Response
from duologue.jsonrpc.peer import Event, Peer
from duologue.runtime.fast_path import LONG_BYTES, PLAIN_NOTIFICATION, NotificationFastPath
from duologue.runtime.handlers import Context, Handlers, NotificationEntry, NotificationHandler
from duologue.runtime.incoming_requests import IncomingRequests
from duologue.runtime.outgoing_requests import OutgoingRequests, read_object
from duologue.runtime.pending_sessions import PendingSessions
from duologue.runtime.queue_positions import QueuePosition
from duologue.runtime.session_queues import SessionQueues
from duologue.runtime.tasks import TaskScope, is_current
from duologue.runtime.unread_bytes import UnreadBytes
from duologue.runtime.writer import FrameWriter
from duologue.sanitize import quote

if TYPE_CHECKING:
    from duologue.runtime.connection import Connection

__all__ = ["MAX_NOISE_BYTES", "MAX_NOISE_LINES", "Dispatcher"]

_log = logging.getLogger("duologue.runtime")

_Held: TypeAlias = tuple[Any, Context, Any]

MAX_NOISE_LINES = 1000
MAX_NOISE_BYTES = 1024 * 1024
"""What a child may print before its first message; more is not a banner but the wrong program."""

MAX_READ_BYTES = 1024 * 1024
"""Unhandled input that is kept as it was read; beyond that the frames alone are kept, in less than half the room."""


class Dispatcher:
    """The reading side of one connection, less the reading itself."""

    def __init__(
        self,
        connection: Connection,
        handlers: Handlers,
        peer: Peer,
        outgoing: FrameWriter,
        lanes: SessionQueues,
        unread: UnreadBytes,
        requests: IncomingRequests,
        handler_tasks: TaskScope,
        max_pending: int,
        first: str | None,
    ) -> None:
        self._connection = connection
        self._handlers = handlers
        self._shortcut = NotificationFastPath(handlers)
        self._peer = peer
        self._outgoing = outgoing
        self._lanes = lanes
        self._requests = requests
        self._handler_tasks = handler_tasks
        self._first = first
        self._arrivals: PendingSessions[_Held] = PendingSessions(self._deliver)
        self.calls = OutgoingRequests(lanes, unread, self._arrivals, max_pending)

    def get_ready(self) -> None:
        """Build what the first notification would have to wait for; a peer that is just starting leaves the time."""
        self._shortcut.refresh()

    def on_frames(self, frames: list[bytes]) -> None:
        """Deal with frames in the order of their arrival.

        Raises:
            MessageTooLarge: Nobody can tell whose one of them is.
            NotAnAgent: The peer does not speak the protocol.
        """
        # Every update that a client reads comes through here, so this loop calls as little as it can.
        peer, lanes, arrivals, shortcut = self._peer, self._lanes, self._arrivals, self._shortcut
        connection, find = self._connection, self._handlers.notifications.get
        for frame in frames:
            known: Any = None
            size = len(frame)
            if frame.startswith(PLAIN_NOTIFICATION) and size <= LONG_BYTES and not peer.awaits_first:
                try:
                    known = shortcut.decode(frame)
                except Exception:
                    known = None  # the long way says what is wrong, if anything is
            if (
                known is None
                or known.id is not UNSET
                or find(known.method) is not known.entry
                or not ((size <= SHALLOW_BYTES and frame.isascii()) or is_well_formed(frame))
            ):
                self._on_event(peer.receive(frame), frame)
                continue
            peer.has_received = True
            entry: NotificationEntry = known.entry  # type: ignore[assignment]  # the shortcut has no empty ones
            notification, handler = entry
            params = known.params
            if notification.urgent or arrivals.is_waiting or lanes.queued_bytes > MAX_READ_BYTES:
                self._accept(known.method, entry, params, frame)
            else:
                context = Context(connection, known.method, frame)
                lanes.put(getattr(params, "session_id", None), handler, context, params, size)

    def _on_event(self, event: Event | None, frame: bytes) -> None:
        if isinstance(event, JsonRpcMessage):
            if event.id is UNSET:
                self._on_notification(event, frame)
            else:
                self._on_request(event, event.id, frame)
        elif isinstance(event, Response):
            self.calls.on_answer(event)
        elif isinstance(event, Cancel):
            self._requests.cancel(event.id)
        else:
            self._after_nothing()

    def _after_nothing(self) -> None:
        """A frame that was no event: it may want an answer, or be one line of noise too many."""
        for reply in self._peer.frames_to_send():
            self._outgoing.send_quietly(reply)
        peer = self._peer
        if not peer.has_received and (peer.noise_lines > MAX_NOISE_LINES or peer.noise_bytes > MAX_NOISE_BYTES):
            raise NotAnAgent(f"{self.noise}; is this command an ACP agent?")

    @property
    def noise(self) -> str:
        """How much was read that is not the protocol, and how it began; empty if nothing."""
        lines = self._peer.noise_lines
        how_many = "1 line that is" if lines == 1 else f"{lines} lines that are"
        return f"{how_many} not the protocol, beginning with {quote(self._peer.first_noise)}" if lines else ""

    def _on_notification(self, message: JsonRpcMessage, frame: bytes) -> None:
        name: str = message.method  # type: ignore[assignment]  # the peer checked it
        entry = self._handlers.notifications.get(name)
        if entry is None:
            other = self._handlers.other_notifications
            if other is not None and name not in self._handlers.requests:
                self._lanes.put(None, other, Context(self._connection, name, frame), message.params, len(frame))
            return
        try:
            params = read_object(entry[0].params, message.params)
        except InvalidParams as bad:
            _log.warning("%s dropped: %s", quote(name), quote(bad.message))
            return
        except Exception as error:  # raised by the type itself: it costs this message, not the connection
            self._requests.report(name, error)
            return
        self._shortcut.refresh()
        self._accept(name, entry, params, frame)

    def _accept(self, name: str, entry: NotificationEntry, params: Any, frame: bytes) -> None:
        """A notification that can be handled takes its place."""
        notification, handler = entry
        context = Context(self._connection, name, frame)
        session_id = getattr(params, "session_id", None)
        if notification.urgent:
            self._handler_tasks.start(_run_urgent(self._requests.report, context, handler, params))
        elif self._lanes.queued_bytes > MAX_READ_BYTES and not self.is_introducing(session_id):
            self._lanes.put(session_id, _ReadAgain(handler, notification.params), context, None, len(frame))
        else:
            self._stand(session_id, handler, context, params)

    def is_introducing(self, session_id: str | None) -> bool:
        """Whether this session may be one that a request of ours is about to open."""
        return session_id is not None and self._arrivals.is_waiting and self._arrivals.must_wait(session_id)

    def _stand(self, session_id: str | None, handler: Any, context: Context, params: Any) -> None:
        """Put it behind what came before in its session; that of a session not introduced yet is held."""
        if session_id is not None and self.is_introducing(session_id):
            self._lanes.queued_bytes += len(context.raw)
            self._arrivals.hold(session_id, (handler, context, params))
        else:
            self._lanes.put(session_id, handler, context, params, len(context.raw))

    def _on_request(self, message: JsonRpcMessage, id: Id, frame: bytes) -> None:
        name: str = message.method  # type: ignore[assignment]  # the peer checked it
        context = Context(self._connection, name, frame, id)
        if name == self._first and self._handlers.prepare is not None:
            try:
                message.params = self._handlers.prepare(message.params)
            except RequestError as bad:
                self._refuse(id, bad)
                return
        if (busy := self._requests.objection(frame)) is not None:
            self._refuse(id, busy)
            return
        entry = self._handlers.requests.get(name)
        if entry is None:
            other = self._handlers.other_requests
            if other is not None and name not in self._handlers.notifications:
                self._take_place(None, None, context, message.params)
                self._requests.start(context, id, None, other, message.params)
            else:
                self._refuse(id, MethodNotFound(f"no such method: {quote(name)}", data={"method": name}))
            return
        method, handler = entry
        try:
            params = read_object(method.params, message.params)
        except InvalidParams as bad:
            too_long = InvalidRequest(f"a number has more than {MAX_NUMBER_CHARS} characters")
            self._refuse(id, too_long if has_long_number(frame) else bad)
            return
        except Exception as error:
            self._refuse(id, self._requests.error_for(error, name))
            return
        if name in self._handlers.places:
            session_id = getattr(params, "session_id", None)
            self._take_place(session_id, self._handlers.places[name], context, params)
        self._requests.start(context, id, method, handler, params)

    def _take_place(
        self, session_id: str | None, at_place: Callable[[Context, Any], Any] | None, context: Context, params: Any
    ) -> None:
        """Give a request its place behind the notifications of its session, if it needs one."""
        if at_place is None and not self.is_introducing(session_id) and not self._lanes.has_backlog(session_id):
            return
        context.place = asyncio.get_running_loop().create_future()
        self._stand(session_id, QueuePosition(at_place), context, params)

    def _refuse(self, id: Id, error: RequestError) -> None:
        frame = self._peer.respond_error(id, error)
        if frame is not None:
            self._outgoing.send_quietly(frame)

    def _deliver(self, session_id: str, held: _Held) -> None:
        handler, context, params = held
        self._lanes.queued_bytes -= len(context.raw)
        self._lanes.put(session_id, handler, context, params, len(context.raw))


class _ReadAgain:
    """A handler whose parameters were not kept: they are read from the frame a second time, in their turn."""

    __slots__ = ("_handler", "_kind")

    def __init__(self, handler: NotificationHandler[Any], kind: Any) -> None:
        self._handler = handler
        self._kind = kind

    def __call__(self, context: Context, _: None) -> Awaitable[None]:
        return self._handler(context, read_object(self._kind, parse(context.raw).params))


async def _run_urgent(report: Callable[[str, BaseException], str], context: Context, handler: Any, params: Any) -> None:
    task = asyncio.current_task()
    try:
        await handler(context, params)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if isinstance(error, GeneratorExit) and not is_current(task):
            raise
        report(context.method, error)
