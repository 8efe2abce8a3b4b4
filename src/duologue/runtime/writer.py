"""What leaves a connection: shown to the observers, paced by the transport, in an order the peer can follow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from duologue.errors import ConnectionLost, Deadlock
from duologue.runtime.observers import FrameObserver, notify_observers
from duologue.runtime.pending_sessions import PendingSessions
from duologue.transports.base import Transport

__all__ = ["FrameWriter"]

_log = logging.getLogger("duologue.runtime")


class FrameWriter:
    """The writing side of one connection.

    Args:
        transport: Where frames go.
        observers: Observers of every frame.
        lost: Makes the error for those who find the connection gone.
        on_wait: Called when somebody begins to wait for room; waiting for room to write is waiting for the peer, so
            reading must go on meanwhile.
        max_held_bytes: What may be held back for sessions the peer has not heard of yet.
    """

    def __init__(
        self,
        transport: Transport,
        observers: tuple[FrameObserver, ...],
        lost: Callable[[], ConnectionLost],
        on_wait: Callable[[], None],
        max_held_bytes: int,
    ) -> None:
        self.pending_sessions: PendingSessions[bytes] = PendingSessions(self._depart)
        self.waiting = 0
        """How many wait for room."""
        self.is_lost = False
        """The peer takes nothing any more; what it sent may still arrive."""
        self._transport = transport
        self._observers = observers
        self._on_wait = on_wait
        self._max_held = max_held_bytes
        self._held = 0
        self._deadline: float | None = None
        self._waits: set[asyncio.Timeout] = set()
        self._lost = lost
        self._is_closed = False

    def send(self, frame: bytes) -> None:
        """Queue a frame.

        Raises:
            ConnectionLost: The peer takes nothing any more.
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

    def send_quietly(self, frame: bytes) -> None:
        """For what nobody waits on: a peer that is gone is noticed by those who do."""
        try:
            self.send(frame)
        except ConnectionLost:
            _log.debug("not sent, the peer is gone: %d bytes", len(frame))

    async def send_and_drain(self, frame: bytes) -> None:
        """Queue a frame, and wait while the peer is too slow.

        Raises:
            ConnectionLost: The peer takes nothing any more.
        """
        self.send(frame)
        if self._transport.is_congested:
            await self.drain()

    async def drain(self) -> None:
        """Wait for room, but not beyond the end of the connection.

        Raises:
            ConnectionLost: There will be none.
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

    def defer(self, method: str, session_id: str, frame: bytes) -> None:
        """Keep a notification until the answer that introduces its session has left.

        Raises:
            Deadlock: Too much is kept already.
        """
        self._held += len(frame)
        if self._held > self._max_held:
            self._held -= len(frame)
            raise Deadlock(
                f"over {self._max_held} bytes of {method} for session {session_id!r} wait for the answer that "
                f"introduces it; return that answer first"
            )
        self.pending_sessions.hold(session_id, frame)

    def end(self, seconds: float) -> None:
        """The peer is gone: whoever waits for room is told so after `seconds` at most."""
        self._deadline = asyncio.get_running_loop().time() + seconds
        for wait in self._waits:
            wait.reschedule(self._deadline)

    def close(self) -> None:
        """Nothing leaves from here on."""
        self._is_closed = True

    def _depart(self, session_id: str, frame: bytes) -> None:
        self._held -= len(frame)
        self.send_quietly(frame)
