"""Stalled turns: report a turn without activity once, and cancel it after the same time again.

An open tool call, a running command in a terminal of this client, a request that the client has not answered, and input
that the client has not read count as activity.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from duologue.errors import TurnStalled
from duologue.events import StallDetected

if TYPE_CHECKING:
    from duologue.client.services.terminals import Terminals
    from duologue.client.turn import ClientTurn


class ActivityTracker:
    """Times of last activity of each session; an agent that waits for this client counts as active.

    Attributes:
        times: When each session was last active, by `time.monotonic`.
        is_used: The times are needed; until then text of the agent, most of what it sends, is not recorded.
    """

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self.is_used = False
        self._waiting: Counter[str | None] = Counter()

    def touch(self, session_id: str) -> None:
        """Record activity of this session."""
        self.times[session_id] = monotonic()

    @contextmanager
    def suspended(self, session_id: str | None) -> Generator[None]:
        """Count the agent as active while it waits for this client; without a session, in all of them."""
        self._waiting[session_id] += 1
        try:
            yield
        finally:
            self._waiting[session_id] -= 1
            for each in self.times if session_id is None else (session_id,):
                self.touch(each)

    def last(self, session_id: str) -> float:
        """Return when the session was last active; now, while its agent waits for this client."""
        if self._waiting[session_id] or self._waiting[None]:
            self.touch(session_id)
        return self.times.setdefault(session_id, monotonic())

    def forget(self, session_id: str) -> None:
        """Remove a closed session."""
        self.times.pop(session_id, None)


class Watchdog:
    """Detects stalled turns of one agent.

    Args:
        seconds: Time without activity after which a turn reports `StallDetected`, and after as much again is cancelled.
        activity: When each session was last active.
        terminals: Terminals of the agent.
    """

    def __init__(self, seconds: float, activity: ActivityTracker, terminals: Terminals | None) -> None:
        self._seconds = seconds
        self._activity = activity
        activity.is_used = True
        self._terminals = terminals

    async def watch(self, turn: ClientTurn) -> None:
        """Watch a turn until it is cancelled or this task is."""
        self._activity.touch(turn.session.id)
        reported_since: float | None = None
        while True:
            last = self._last_activity(turn)
            is_reported = last == reported_since
            rest = last + self._seconds * (2 if is_reported else 1) - monotonic()
            if rest > 0:
                await asyncio.sleep(rest)
            elif not is_reported:
                reported_since = last
                turn.session._publish(StallDetected(seconds=self._seconds))
            else:
                await turn._fail(self._stalled)
                return

    def _stalled(self) -> TurnStalled:
        return TurnStalled(f"no activity for {2 * self._seconds:g} s; the turn was cancelled")

    def _last_activity(self, turn: ClientTurn) -> float:
        session_id = turn.session.id
        has_command = self._terminals is not None and self._terminals.has_running(session_id)
        is_paused = turn.session.agent.connection.is_paused
        if has_command or is_paused or any(not call.is_over for call in turn.tool_calls):
            self._activity.touch(session_id)
        return self._activity.last(session_id)
