"""Those who want to know what happens in a session, whoever prompts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from duologue.events import Event

__all__ = ["Audience"]


class Audience:
    """The watchers of a session, who are called, and its readers, who come for the events when they like."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[Event], None]] = []
        self._readers: list[asyncio.Queue[Event | None]] = []
        self._is_dismissed = False

    def watch(self, watcher: Callable[[Event], None]) -> Callable[[], None]:
        """Call somebody with every event; call what is returned to stop."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    async def events(self) -> AsyncIterator[Event]:
        """Every event from now on, until there will be no more."""
        if self._is_dismissed:
            return
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._readers.append(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._readers.remove(queue)

    def tell(self, event: Event) -> None:
        """An event for everybody."""
        for watcher in self._watchers:
            watcher(event)
        for reader in self._readers:
            reader.put_nowait(event)

    def dismiss(self) -> None:
        """There will be no more events."""
        self._is_dismissed = True
        for reader in self._readers:
            reader.put_nowait(None)
