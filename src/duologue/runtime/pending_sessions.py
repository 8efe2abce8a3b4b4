"""Sessions that one end knows and the other has not heard of yet.

The answer to `session/new` or `session/fork` introduces a session id. Notifications about it may arrive before that
answer: they are kept until every such request of ours is answered. Notifications of ours about it must leave after
our answer: they are kept until every such request of the peer is answered. No timers; only bytes are bounded, by the
connection that counts what is kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["PendingSessions"]

T = TypeVar("T")


class PendingSessions(Generic[T]):
    """One direction: what waits (`T`) for a session to be introduced, and `deliver`, which sends it on its way."""

    def __init__(self, deliver: Callable[[str, T], None]) -> None:
        self._deliver = deliver
        self._held: dict[str, list[T]] = {}
        self._openings = 0
        self.is_waiting = False
        """A session is about to be introduced: from here on every notification has to ask `must_wait`."""
        self._known: set[str] = set()
        self._named: dict[str, int] = {}

    def must_wait(self, session_id: str) -> bool:
        """Whether this session may be the one that is about to be introduced."""
        return self.is_waiting and session_id not in self._known and session_id not in self._named

    def hold(self, session_id: str, item: T) -> None:
        """Keep it until the session is introduced, or cannot be any more."""
        self._held.setdefault(session_id, []).append(item)

    def opening_started(self) -> None:
        """A request that will introduce a session is on its way."""
        self._openings += 1
        self.is_waiting = True

    def opening_finished(self, session_id: str | None) -> None:
        """That request was answered, with a session or (`None`) without one."""
        self._openings -= 1
        self.is_waiting = self._openings > 0
        if session_id is not None:
            self._known.add(session_id)
            self._release(session_id)
        if not self.is_waiting:
            for waiting in list(self._held):
                self._release(waiting)

    def request_started(self, session_id: str) -> None:
        """A request about this session runs: whoever sent it knows the session, and need not be kept waiting."""
        if self._held:
            self._release(session_id)
        self._named[session_id] = self._named.get(session_id, 0) + 1

    def request_finished(self, session_id: str, *, is_known: bool, is_over: bool = False) -> None:
        """That request was answered; `is_known`: successfully; `is_over`: and now the session is no more."""
        still_named = self._named[session_id] - 1
        if still_named:
            self._named[session_id] = still_named
        else:
            del self._named[session_id]
        if is_over:
            self._known.discard(session_id)
        elif is_known:
            self._known.add(session_id)

    def _release(self, session_id: str) -> None:
        for item in self._held.pop(session_id, ()):
            self._deliver(session_id, item)
