"""A turn in which nothing happens: told once, and given up if nothing happens for as long again.

Not every pause is a silence. An agent whose tool call is open, whose command runs in a terminal of ours, who waits for
an answer of ours or for us to read on, has been heard of.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from duologue.client.services.terminals import Terminals
from duologue.errors import TurnStalled
from duologue.events import StallDetected

if TYPE_CHECKING:
    from duologue.client.turn import ClientTurn

__all__ = ["ActivityTracker", "Watchdog"]


class ActivityTracker:
    """When each session was last heard of, and whether it waits for us."""

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._waiting: Counter[str | None] = Counter()

    def touch(self, session_id: str) -> None:
        """The agent has said something about this session."""
        self._heard[session_id] = monotonic()

    @contextmanager
    def suspended(self, session_id: str | None) -> Generator[None]:
        """While the agent waits for an answer of ours; without a session, any may be meant."""
        self._waiting[session_id] += 1
        try:
            yield
        finally:
            self._waiting[session_id] -= 1
            for each in self._heard if session_id is None else (session_id,):
                self.touch(each)

    def last(self, session_id: str) -> float:
        """When it was last heard of; now, while it waits for us."""
        if self._waiting[session_id] or self._waiting[None]:
            self.touch(session_id)
        return self._heard.setdefault(session_id, monotonic())

    def forget(self, session_id: str) -> None:
        """The session is over."""
        self._heard.pop(session_id, None)


class Watchdog:
    """Watches the turns of one agent.

    Args:
        seconds: How long a silence is told after, and once more as long given up after.
        signs: When each session was last heard of.
        terminals: What runs for the agent.
    """

    def __init__(self, seconds: float, signs: ActivityTracker, terminals: Terminals | None) -> None:
        self._seconds = seconds
        self._signs = signs
        self._terminals = terminals

    async def watch(self, turn: ClientTurn) -> None:
        """Until it has to be given up; whoever ends the turn ends this, too."""
        self._signs.touch(turn.session.id)
        told_since: float | None = None
        while True:
            last = self._last_sign(turn)
            is_told = last == told_since
            rest = last + self._seconds * (2 if is_told else 1) - monotonic()
            if rest > 0:
                await asyncio.sleep(rest)
            elif not is_told:
                told_since = last
                turn.session._publish(StallDetected(seconds=self._seconds))
            else:
                silence = 2 * self._seconds
                await turn._fail(TurnStalled(f"no sign of life for {silence:g} s; the turn was cancelled"))
                return

    def _last_sign(self, turn: ClientTurn) -> float:
        session_id = turn.session.id
        has_command = self._terminals is not None and self._terminals.has_running(session_id)
        is_paused = turn.session.agent.connection.is_paused
        if has_command or is_paused or any(not call.is_over for call in turn.tool_calls):
            self._signs.touch(session_id)
        return self._signs.last(session_id)
