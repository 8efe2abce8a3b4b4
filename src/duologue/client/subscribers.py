"""Those who want to know what happens in a session, whoever prompts it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable

from duologue.errors import EventBufferOverflow
from duologue.events import Event
from duologue.runtime.unread_bytes import size_of

__all__ = ["EventSubscribers"]

_log = logging.getLogger("duologue.client")

MAX_UNREAD = 10_000
"""Events that wait for a reader who came for them and then did something else: a long turn, and not a day of them."""


MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""The same in bytes of their messages: as much as may wait to be handled."""


class _Reader:
    """Somebody who comes for the events when they like."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._events: deque[Event] = deque()
        self._is_over = False
        self._has_missed = False
        self._something = asyncio.Event()

    def publish(self, event: Event) -> None:
        # What comes behind a gap would pass for what follows.
        if len(self._events) < self._limit and self._bytes <= MAX_UNREAD_BYTES and not self._has_missed:
            self._events.append(event)
            self._bytes += size_of(event.raw)
        else:
            self._has_missed = True
        self._something.set()

    def close(self) -> None:
        self._is_over = True
        self._something.set()

    async def next(self) -> Event | None:
        """The next event; `None` when there will be no more."""
        while not self._events:
            if self._has_missed:
                raise EventBufferOverflow(
                    f"more than {self._limit} events, or {MAX_UNREAD_BYTES} bytes of them, were not read in time; "
                    f"those that came then are lost here: read faster, or use `watch`"
                )
            if self._is_over:
                return None
            self._something.clear()
            await self._something.wait()
        event = self._events.popleft()
        self._bytes -= size_of(event.raw)
        return event


class EventSubscribers:
    """The watchers of a session, who are called, and its readers, who come for the events when they like.

    Args:
        max_unread: Events that may wait for one reader.
    """

    def __init__(self, max_unread: int = MAX_UNREAD) -> None:
        self._max_unread = max_unread
        self._watchers: list[Callable[[Event], None]] = []
        self._readers: list[_Reader] = []
        self._is_dismissed = False

    def watch(self, watcher: Callable[[Event], None]) -> Callable[[], None]:
        """Call somebody with every event; call what is returned to stop."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    async def events(self) -> AsyncIterator[Event]:
        """Every event from now on, until there will be no more.

        Raises:
            EventBufferOverflow: Too many came that were not read.
        """
        if self._is_dismissed:
            return
        reader = _Reader(self._max_unread)
        self._readers.append(reader)
        try:
            while (event := await reader.next()) is not None:
                yield event
        finally:
            self._readers.remove(reader)

    def publish(self, event: Event) -> None:
        """An event for everybody."""
        for watcher in self._watchers:
            try:
                watcher(event)
            except Exception:  # the others, and what is decided by this event, do not depend on it
                _log.exception("a function that watches a session failed")
        for reader in self._readers:
            reader.publish(event)

    def close(self) -> None:
        """There will be no more events."""
        self._is_dismissed = True
        for reader in self._readers:
            reader.close()
