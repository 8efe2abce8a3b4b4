"""Streamable HTTP, from the agent to the client: one event stream for the connection and one for each session."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from duologue.errors import ConnectionLost
from duologue.jsonrpc.envelope import Envelope, PendingRequests, read_envelope
from duologue.jsonrpc.messages import Id
from duologue.transports.methods import END_SESSION, OPEN_SESSION, SESSION_LOAD
from duologue.transports.resume.buffers import ReplayBuffer
from duologue.transports.resume.protocol import attach_resume_grant
from duologue.transports.server.auth import RequestRejected
from duologue.transports.server.connection import ServerConnection
from duologue.transports.server.limits import Limits
from duologue.transports.server.metrics import Metrics
from duologue.transports.server.server_sent_events import AfterEvent, ServerSentEvents

if TYPE_CHECKING:
    from duologue.transports.server.stream_reader import StreamReader

UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
"""How most libraries begin an update, up to the id of its session; another order of members takes the general path."""


class Stream:
    """The events of one stream, and its reader, if a client reads it."""

    def __init__(self, limits: Limits) -> None:
        self.window = ReplayBuffer(limits.window_bytes, limits.window_frames, ServerSentEvents, stores_sent=True)
        self.reader: StreamReader | None = None


class HttpServerConnection(ServerConnection):
    """A connection over HTTP: messages arrive one by one, and leave on event streams.

    Attributes:
        sessions: Sessions that the agent has opened on this connection.
        asked: The agent's own requests, each with its session.
    """

    kind = "http"

    def __init__(self, id: str, caller: str, limits: Limits, metrics: Metrics) -> None:
        super().__init__(id, caller, limits, metrics)
        self.sessions: set[str] = set()
        self.asked: PendingRequests[str | None] = PendingRequests()
        self._initialize_response: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._streams: dict[str | None, Stream] = {}
        self._closed: deque[str] = deque()
        """Closed sessions, whose streams are dropped when the limit of streams is reached."""
        self._congested: set[Stream] = set()
        self._stored_bytes = 0
        self._last_update = UPDATE + b'"'
        self._last_session = ""
        self._done: set[int] = set()
        self._done_up_to = 0

    @property
    def pending_bytes(self) -> int:
        return self._stored_bytes

    async def initialize_response(self) -> bytes | None:
        """Wait for the response to `initialize`; return `None` if the agent ended without one."""
        return await self._initialize_response

    # --- which stream a message of the agent goes to

    def send_initialize_response(self, frame: bytes) -> None:
        if self.is_resumable:
            frame = attach_resume_grant(frame, self.resume_grant)
            self.start_grace_timer()
        if not self._initialize_response.done():
            self._initialize_response.set_result(frame)

    def route(self, frame: bytes, envelope: Envelope | None) -> None:
        session = None if envelope is None else envelope.session
        if envelope is not None and (id := envelope.request_id) is not None:
            self.asked.add(id, session)
        self._append(session, [frame], len(frame))

    def route_many(self, frames: list[bytes], size: int) -> None:
        if min(frames).startswith(self._last_update) and max(frames).startswith(self._last_update):
            self._append(self._last_session, frames, size)
            return
        group: list[bytes] = []
        for frame in frames:
            if not frame.startswith(self._last_update):
                self._append_updates(group)
                group = []
                if not self._is_update(frame):
                    self.route(frame, read_envelope(frame))
                    continue
            group.append(frame)
        self._append_updates(group)

    def _is_update(self, frame: bytes) -> bool:
        """Return whether a frame begins like an update; remember its session, because more of it may follow."""
        end = frame.find(b'"', len(UPDATE)) if frame.startswith(UPDATE) else -1
        id = frame[len(UPDATE) : end]
        if end < 0 or b"\\" in id or not id.isascii():
            return False
        self._last_update, self._last_session = frame[: end + 1], id.decode()
        return True

    def _append_updates(self, frames: list[bytes]) -> None:
        if frames:
            self._append(self._last_session, frames, sum(map(len, frames)))

    def route_response(self, frame: bytes, envelope: Envelope, request: Envelope | None) -> None:
        if envelope.made_session is not None:
            self.sessions.add(envelope.made_session)
        session = None if request is None else request.session
        if request is not None and session is not None and request.method in OPEN_SESSION and not envelope.is_error:
            self.sessions.add(session)
            with suppress(ValueError):
                self._closed.remove(session)
        if request is not None and session is not None and request.method in END_SESSION and not envelope.is_error:
            if session not in self._closed:
                self._closed.append(session)
            if len(self._closed) > self.limits.streams:
                self._drop_closed()
        if request is None or request.method != SESSION_LOAD:
            self._append(session, [frame], len(frame))
            return
        # The proposal sends this response on another stream than the replay that it ends: our clients wait for both.
        replay = self._streams.get(session)
        self._append(None, [AfterEvent(frame, 0 if replay is None else replay.window.newest)], len(frame))

    def _append(self, session: str | None, frames: list[bytes], size: int) -> None:
        stream = self.stream(session)
        if stream is None:
            self.fail(ConnectionLost(f"the connection has more than {self.limits.streams} event streams"))
            return
        stream.window.extend(frames, size)
        self._stored_bytes += size
        if stream.reader is None:
            before = stream.window.stored_bytes
            stream.window.trim()
            self._stored_bytes += stream.window.stored_bytes - before
            if self.is_resumable and stream.window.is_filling and not self._is_read:
                self._congested.add(stream)
                self.is_congested = True
        else:
            if stream.window.waiting_bytes > self.limits.write_ahead:
                self._congested.add(stream)
                self.is_congested = True
            stream.reader.wakeup.set()
        if self._stored_bytes > self.limits.queued_bytes:
            for each in self._streams.values():
                each.window.acknowledge(each.window.last_taken)
            self.measure()

    def measure(self) -> None:
        """Add up the bytes of all windows, after they have changed."""
        self._stored_bytes = sum(stream.window.stored_bytes for stream in self._streams.values())

    def add_stored_bytes(self, difference: int) -> None:
        """Add to the bytes that are kept."""
        self._stored_bytes += difference

    def stream(self, session: str | None) -> Stream | None:
        """Return the stream of a session, or of the connection itself; `None` if there are too many."""
        stream = self._streams.get(session)
        if stream is None and (len(self._streams) < self.limits.streams or self._drop_closed()):
            stream = self._streams[session] = Stream(self.limits)
        return stream

    def _drop_closed(self) -> bool:
        """Drop the stream of one closed session; return whether there was one."""
        while self._closed:
            if self._drop(self._closed.popleft()):
                return True
        return False

    def restart_stream(self, session: str | None) -> None:
        """Drop the stream of a closed session before it is read from its beginning: the next one counts from 1."""
        if session is not None and session in self._closed:
            self._closed.remove(session)
            self._drop(session)

    def _drop(self, session: str) -> bool:
        """Drop the stream of a closed session; return whether there was one."""
        self.sessions.discard(session)
        stream = self._streams.pop(session, None)
        if stream is None:
            return False
        self._congested.discard(stream)
        self.measure()
        reader, stream.reader = stream.reader, None
        if reader is not None:
            reader.replace()
        return True

    # --- what the client posts

    def is_new(self, number: int) -> bool:
        """Record the number of a message; return whether it is new.

        Raises:
            RequestRejected: Too many numbers before it are missing.
        """
        if number > self._done_up_to + self.limits.window_frames:
            raise RequestRejected(400, f"the messages from number {self._done_up_to + 1} on are missing")
        if number <= self._done_up_to or number in self._done:
            return False
        self._done.add(number)
        while self._done_up_to + 1 in self._done:
            self._done_up_to += 1
            self._done.discard(self._done_up_to)
        return True

    def session_of_request(self, id: Id) -> str | None:
        """Return the session of the agent's request that has this id, if there is one."""
        return self.asked.get(id)

    # --- readers

    @property
    def _is_read(self) -> bool:
        return any(stream.reader is not None for stream in self._streams.values())

    def on_read_again(self) -> None:
        """Let the agent continue, now that the client reads: streams without a reader no longer block it."""
        self.cancel_grace_timer()
        self._congested = {stream for stream in self._congested if stream.reader is not None}
        if self.is_congested and not self._congested:
            self._end_congestion()

    def end_congestion(self, stream: Stream) -> None:
        """Let the agent continue, if no other stream is congested."""
        self._congested.discard(stream)
        if self.is_congested and not self._congested:
            self._end_congestion()

    def detach(self, stream: Stream, reader: StreamReader) -> None:
        """Detach a reader, and wait for the client to resume."""
        if stream.reader is not reader:
            return
        stream.reader = None
        stream.window.trim()
        self.measure()
        self.end_congestion(stream)
        if self.is_resumable and not self.is_over and not self._is_read:
            self.start_grace_timer()

    def wake(self) -> None:
        if not self._initialize_response.done():
            self._initialize_response.set_result(None)
        for stream in self._streams.values():
            if stream.reader is not None:
                stream.reader.wakeup.set()
                if self.is_gone:
                    stream.reader.replace()

    def abort(self) -> None:
        """Drop the TCP connection of every reader."""
        for stream in self._streams.values():
            if stream.reader is not None:
                stream.reader.abort()

    def check(self, now: float) -> None:
        for stream in self._streams.values():
            reader = stream.reader
            since = None if reader is None else reader.blocked_since
            if reader is not None and since is not None and now - since > self.limits.stall_seconds:
                reader.abort()
