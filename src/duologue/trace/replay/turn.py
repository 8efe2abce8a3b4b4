"""An exchange of a recording that is being played to a client."""

from __future__ import annotations

from collections import Counter
from typing import Any

from duologue.trace.frames import TracedFrame
from duologue.trace.identity import IdTranslator
from duologue.trace.replay.script import Exchange


class PlayedTurn:
    """The position in an exchange that is being played.

    Args:
        exchange: The exchange.
        live_id: Id of the client's request; None if it needs no response.
        ids: Translates recorded ids into those of this connection.
        now: When the client's message arrived.
        session: Session of the client's message.

    Attributes:
        answered: Numbers of recorded requests of the agent that the client has answered.
        notified: Notifications about this turn that no step has waited for yet, by method.
        open_requests: Ids of the requests that were sent for it.
        is_answered: True if the client's request was answered.
    """

    def __init__(self, exchange: Exchange, live_id: Any, ids: IdTranslator, now: float, session: str = "") -> None:
        self.exchange = exchange
        self.live_id = live_id
        self.ids = ids
        self.session = session
        self.answered: set[int] = set()
        self.notified: Counter[str] = Counter()
        self.open_requests: set[int] = set()
        self.is_answered = False
        self._steps = exchange.steps
        self._position = 0
        self._since = now
        """Time at which the step before was done."""
        self._recorded = 0.0 if exchange.request is None else exchange.request.t
        """Time of the step before in the recording."""

    @property
    def step(self) -> TracedFrame | None:
        """The next step; None at the end."""
        return self._steps[self._position] if self._position < len(self._steps) else None

    def seconds_until(self, step: TracedFrame, now: float, speed: float | None, longest: float) -> float:
        """Return the seconds until a step of the agent is due."""
        if speed is None:
            return 0.0
        pause = min(max(0.0, step.t - self._recorded) / speed, longest)
        return self._since + pause - now

    def seconds_to_wait(self, step: TracedFrame, now: float, timeout: float) -> float:
        """Return the seconds to wait for a message of the client: 0 if it came, less if it is overdue."""
        if step.answers in self.answered if step.answers is not None else self.notified[step.method] > 0:
            return 0.0
        rest = self._since + timeout - now
        return rest if rest > 0 else -1.0

    def done(self, now: float) -> None:
        """Go on to the step after the next."""
        step = self._steps[self._position]
        self._recorded, self._since = step.t, now
        self._position += 1
        if step.dir == "to_agent" and step.answers is None:
            self.notified[step.method] -= 1

    def skip_to(self, method: str, now: float) -> bool:
        """Go on after the next recorded notification of the client with this method; return False if there is none.

        Of what was recorded before it, only the response to the client's request is still sent.
        """
        for position in range(self._position, len(self._steps)):
            step = self._steps[position]
            if step.dir == "to_agent" and step.kind == "notification" and step.method == method:
                skipped = self._steps[self._position : position]
                never_sent = {each.number for each in skipped}
                rest = [each for each in self._steps[position + 1 :] if each.answers not in never_sent]
                self._steps = [*(each for each in skipped if each is self.exchange.response), *rest]
                self._position, self._recorded, self._since = 0, step.t, now
                return True
        return False
