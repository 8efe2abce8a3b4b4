"""Subscribers to the events of a session: functions that are called, and iterators that queue events."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable

from duologue.errors import EventBufferOverflow
from duologue.events import Event
from duologue.runtime.unread_bytes import size_of

_log = logging.getLogger("duologue.client")

MAX_UNREAD = 10_000
"""Events that are queued for one reader: those of a long turn."""


MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""The same limit in bytes of their messages: as much as a connection queues."""


class _Reader:
    """Queue of one iterator."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._events: deque[Event] = deque()
        self._is_over = False
        self._has_missed = False
        self._wakeup = asyncio.Event()

    def publish(self, event: Event) -> None:
        # After a gap, later events would look as if they followed.
        if len(self._events) < self._limit and self._bytes <= MAX_UNREAD_BYTES and not self._has_missed:
            self._events.append(event)
            self._bytes += size_of(event.raw)
        else:
            self._has_missed = True
        self._wakeup.set()

    def close(self) -> None:
        self._is_over = True
        self._wakeup.set()

    async def next(self) -> Event | None:
        """Return the next event; `None` after the last one."""
        while not self._events:
            if self._has_missed:
                raise EventBufferOverflow(
                    f"more than {self._limit} events or {MAX_UNREAD_BYTES} bytes were not read in time, and later "
                    f"ones were dropped; read faster, or use `session.watch`"
                )
            if self._is_over:
                return None
            self._wakeup.clear()
            await self._wakeup.wait()
        event = self._events.popleft()
        self._bytes -= size_of(event.raw)
        return event


class EventSubscribers:
    """Subscribers to the events of one session.

    Args:
        max_unread: Events that are queued for one reader.

    Attributes:
        receivers: The functions to call with each event; without any there is nothing to publish.
    """

    def __init__(self, max_unread: int = MAX_UNREAD) -> None:
        self.receivers: list[Callable[[Event], None]] = []
        self._max_unread = max_unread
        self._readers: list[_Reader] = []
        self._is_closed = False

    def watch(self, watcher: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event; call the returned function to stop."""
        self.receivers.append(watcher)
        return lambda: self.receivers.remove(watcher)

    async def events(self) -> AsyncIterator[Event]:
        """Yield every event from now on until `close`.

        Raises:
            EventBufferOverflow: Too many events were not read.
        """
        if self._is_closed:
            return
        reader = _Reader(self._max_unread)
        self._readers.append(reader)
        stop = self.watch(reader.publish)
        try:
            while (event := await reader.next()) is not None:
                yield event
        finally:
            stop()
            self._readers.remove(reader)

    def publish(self, event: Event) -> None:
        """Pass an event to all subscribers."""
        for receive in tuple(self.receivers):
            try:
                receive(event)
            except Exception:  # the other subscribers and the turn do not depend on it
                _log.exception("a function given to session.watch() failed")

    def close(self) -> None:
        """End all iterators after their queued events."""
        self._is_closed = True
        for reader in self._readers:
            reader.close()
