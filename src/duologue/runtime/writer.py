"""The writing side of a connection: observers, waiting for a slow peer, deferring updates of unannounced sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from duologue.errors import ConnectionLost, Deadlock
from duologue.runtime.observers import FrameObserver, notify_observers
from duologue.runtime.pending_sessions import PendingSessions
from duologue.transports.base import Transport

_log = logging.getLogger("duologue.runtime")

BURST_BYTES = 64 * 1024
"""Bytes sent in a row before the event loop runs other tasks, so that a tight loop of updates still sees a cancel."""


class FrameWriter:
    """The writing side of one connection.

    Args:
        transport: Sends the frames.
        observers: Observers of every frame.
        lost: Makes the error to raise when the connection is gone.
        on_wait: Called when a caller begins to wait for the peer to accept more; reading must continue meanwhile.
        max_deferred_bytes: Bytes of notifications that may be deferred until their session is announced.
    """

    def __init__(
        self,
        transport: Transport,
        observers: tuple[FrameObserver, ...],
        lost: Callable[[], ConnectionLost],
        on_wait: Callable[[], None],
        max_deferred_bytes: int,
    ) -> None:
        self.pending_sessions: PendingSessions[bytes] = PendingSessions(self._send_deferred)
        self.waiting = 0
        """How many callers wait for the peer to accept more."""
        self.is_lost = False
        """The peer no longer accepts frames; what it sent may still arrive."""
        self._transport = transport
        self._observers = observers
        self._on_wait = on_wait
        self._max_deferred = max_deferred_bytes
        self._deferred_bytes = 0
        self._burst = 0
        self._deadline: float | None = None
        self._waits: set[asyncio.Timeout] = set()
        self._lost = lost
        self._is_closed = False

    def send(self, frame: bytes) -> bool:
        """Queue a frame; return whether to await `drain` before sending more.

        Raises:
            ConnectionLost: The peer no longer accepts frames.
        """
        if self._is_closed:
            raise self._lost()
        if self._observers:
            notify_observers(self._observers, "out", frame)
        try:
            self._transport.send(frame)
        except ConnectionLost:
            self.is_lost = True
            raise
        return self._transport.is_congested

    def send_notification(self, method: str, session_id: str | None, frame: bytes) -> Awaitable[None] | None:
        """Queue a notification, or defer it if its session is not announced; return what to await before the next.

        It is not a coroutine, because most notifications wait for nothing.

        Raises:
            ConnectionLost: The peer no longer accepts frames.
        """
        if self.pending_sessions.is_waiting and session_id is not None and self.pending_sessions.must_wait(session_id):
            self._defer(method, session_id, frame)
            return None
        is_congested = self.send(frame)
        self._burst += len(frame)
        if is_congested:
            return self.drain()
        if self._burst > BURST_BYTES:
            self._burst = 0
            return asyncio.sleep(0)
        return None

    def send_quietly(self, frame: bytes) -> None:
        """Queue a frame that no caller waits for; log and ignore that the peer is gone."""
        try:
            self.send(frame)
        except ConnectionLost:
            _log.debug("the peer is gone; a frame of %d bytes was not sent", len(frame))

    async def drain(self) -> None:
        """Wait until the peer accepts more, or the connection ends.

        Raises:
            ConnectionLost: The connection ended meanwhile.
        """
        self.waiting += 1
        self._on_wait()
        limit = asyncio.timeout_at(self._deadline)
        try:
            async with limit:
                self._waits.add(limit)
                await self._transport.drain()
        except TimeoutError:
            raise self._lost() from None
        except ConnectionLost:
            self.is_lost = True
            raise
        finally:
            self._waits.discard(limit)
            self.waiting -= 1

    def _defer(self, method: str, session_id: str, frame: bytes) -> None:
        """Buffer a notification until the response that announces its session has been sent.

        Raises:
            Deadlock: Too much is buffered already.
        """
        self._deferred_bytes += len(frame)
        if self._deferred_bytes > self._max_deferred:
            self._deferred_bytes -= len(frame)
            raise Deadlock(
                f"over {self._max_deferred} bytes of {method} for session {session_id!r} wait for the response that "
                f"announces it; return from that handler first"
            )
        self.pending_sessions.defer(session_id, frame)

    def end(self, seconds: float) -> None:
        """Fail callers that wait for the peer after `seconds` at most: the peer is gone."""
        self._deadline = asyncio.get_running_loop().time() + seconds
        for wait in self._waits:
            wait.reschedule(self._deadline)

    def close(self) -> None:
        """Send nothing from here on."""
        self._is_closed = True

    def _send_deferred(self, session_id: str, frame: bytes) -> None:
        self._deferred_bytes -= len(frame)
        self.send_quietly(frame)
