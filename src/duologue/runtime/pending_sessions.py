"""Sessions whose id one end knows and the other end does not know yet.

The response to `session/new` or `session/fork` announces a session id. The peer's notifications about that session may
arrive earlier: they are buffered until every such request of ours is answered. Our own notifications about it must
leave after our response: they are buffered until every such request of the peer is answered. There are no timers; the
connection bounds the buffered bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PendingSessions(Generic[T]):
    """Buffers items (`T`) of one direction until their session is announced, then passes them to `deliver`."""

    def __init__(self, deliver: Callable[[str, T], None]) -> None:
        self._deliver = deliver
        self._buffered: dict[str, list[T]] = {}
        self._openings = 0
        self.is_waiting = False
        """A session is about to be announced: while that is so, check `must_wait` before each notification."""
        self.known: set[str] = set()
        """Sessions that both ends know. A request of another one calls `request_started` and `request_finished`."""
        self._in_use: dict[str, int] = {}

    def must_wait(self, session_id: str) -> bool:
        """Return True if this session may be the one that is about to be announced."""
        return self.is_waiting and session_id not in self.known and session_id not in self._in_use

    def defer(self, session_id: str, item: T) -> None:
        """Buffer an item until the session is announced, or no opening request is left that could announce it."""
        self._buffered.setdefault(session_id, []).append(item)

    def opening_started(self) -> None:
        """Note that a request that opens a session has started."""
        self._openings += 1
        self.is_waiting = True

    def opening_finished(self, session_id: str | None) -> None:
        """Note that a request that opens a session was answered, with its session or (`None`) without one."""
        self._openings -= 1
        self.is_waiting = self._openings > 0
        if session_id is not None:
            self.known.add(session_id)
            self._release(session_id)
        if not self.is_waiting:
            for waiting in list(self._buffered):
                self._release(waiting)

    def request_started(self, session_id: str) -> None:
        """Mark the session as known while a request for it is in flight, and release what is buffered for it."""
        if self._buffered:
            self._release(session_id)
        self._in_use[session_id] = self._in_use.get(session_id, 0) + 1

    def request_finished(self, session_id: str, *, is_success: bool) -> None:
        """Note that a request for this session was answered; after a success both ends know the session."""
        still_in_use = self._in_use[session_id] - 1
        if still_in_use:
            self._in_use[session_id] = still_in_use
        else:
            del self._in_use[session_id]
        if is_success:
            self.known.add(session_id)

    def _release(self, session_id: str) -> None:
        for item in self._buffered.pop(session_id, ()):
            self._deliver(session_id, item)
