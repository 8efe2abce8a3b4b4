"""The conversation of a trial: its prompts, those of a simulated user, and the limits that end it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.errors import DuologueError, InvalidRequest
from duologue.evals.record.outcomes import TrialOutcome, outcome_of_error, outcome_of_stop
from duologue.evals.run.simulated_user import UserAgent
from duologue.evals.suite.case import Case, PromptTurn
from duologue.evals.suite.limits import Budget
from duologue.events import Event, ToolCall
from duologue.usage.amounts import SessionUsage

CANCELLED = "cancelled"
"""Stop reason of a turn that a watcher has cancelled."""


class Conversation:
    """Sends the prompts of a case, until they are answered or something ends the trial.

    Attributes:
        stop_reasons: Stop reason of each turn.
        output: Text of the agent's messages in the last turn.
        prompts: Number of prompts that were sent.
    """

    def __init__(self, session: ClientSession, case: Case, user: UserAgent | None = None) -> None:
        self.stop_reasons: list[str] = []
        self.output = ""
        self.prompts = 0
        self._session = session
        self._case = case
        self._user = user
        self._turn_now: ClientTurn | None = None
        self._changed_by_watcher = ""
        self._user_seconds = 0.0
        self._meter = BudgetMeter(case.budget)
        self._ends = re.compile(case.simulated_user.ends_with) if case.simulated_user is not None else None

    async def run(self) -> TrialOutcome:
        """Send all prompts; return the outcome."""
        return self._judged(await self._converse())

    async def _converse(self) -> TrialOutcome:
        timeouts = self._case.timeouts
        ends = asyncio.get_running_loop().time() + timeouts.trial
        async for turn in self._turns():
            if self._changed_by_watcher == CANCELLED:
                break
            # The time of the simulated user is not the agent's.
            left = ends + self._user_seconds - asyncio.get_running_loop().time()
            limit = self._case.budget.prompts
            if limit is not None and self.prompts >= limit:
                return TrialOutcome(
                    kind="agent_exhausted_budget", reason="prompts", detail=f"the case allows {limit} prompts"
                )
            if left <= 0:
                return TrialOutcome(
                    kind="agent_exhausted_budget", reason="timeout", detail=f"no time left of {timeouts.trial:g} s"
                )
            outcome = await self._turn(turn, min(timeouts.turn, left))
            if outcome.kind != "completed":
                return outcome
        return outcome_of_stop(self.stop_reasons[-1] if self.stop_reasons else CANCELLED)

    # --- changes by a watcher

    async def interrupt(self) -> None:
        """Cancel the running turn for a watcher; the trial ends and does not count."""
        self._changed_by_watcher = CANCELLED
        if self._turn_now is not None:
            await self._turn_now.cancel()

    async def say(self, text: str) -> None:
        """Send a watcher's text into the running turn; the trial goes on and does not count.

        Raises:
            DuologueError: There is no turn, or the agent does not take text in one.
        """
        if self._turn_now is None:
            raise InvalidRequest("no turn is running")
        result = await self._turn_now.steer(text)
        if result.outcome not in ("injected", "started_new_turn"):
            raise InvalidRequest(f"it answered {result.outcome}")
        self._changed_by_watcher = self._changed_by_watcher or "steered"

    def _judged(self, outcome: TrialOutcome) -> TrialOutcome:
        """Return the outcome; that of a trial which a watcher has changed is not the agent's own."""
        if not self._changed_by_watcher:
            return outcome
        detail = f"a watcher has {self._changed_by_watcher} the turn"
        return TrialOutcome(kind="cancelled", reason="attach", detail=detail)

    async def _turns(self) -> AsyncIterator[PromptTurn]:
        """Yield the prompts of the case, then those of the simulated user."""
        for turn in self._case.turns:
            yield turn
        user, simulated = self._user, self._case.simulated_user
        if user is None or simulated is None or self._ends is None:
            return
        for _ in range(simulated.max_prompts):
            asked = asyncio.get_running_loop().time()
            text = await user.reply(self.output)
            self._user_seconds += asyncio.get_running_loop().time() - asked
            if not text.strip() or self._ends.search(text):
                return
            yield PromptTurn(text=text)

    async def _turn(self, prompt: PromptTurn, seconds: float) -> TrialOutcome:
        directory = Path(self._case.directory)
        self.prompts += 1
        turn: ClientTurn | None = None
        try:
            turn = self._session.prompt(
                prompt.text,
                files=[directory / name for name in prompt.files],
                images=[directory / name for name in prompt.images],
                timeout=seconds,
            )
            self._turn_now = turn
            async with turn:
                async for event in turn:
                    if self._meter.is_exceeded_by(event, self._session.usage):
                        await turn.cancel()
        except DuologueError as error:
            return self._ended(turn, outcome_of_error(error))
        finally:
            self._turn_now = None
        if not self._meter.exceeded:
            self._meter.check(self._session.usage)
        if self._meter.exceeded:
            exceeded = TrialOutcome(
                kind="agent_exhausted_budget", reason=self._meter.exceeded, detail=self._meter.explanation
            )
            return self._ended(turn, exceeded)
        return self._ended(turn, _outcome_of(turn))

    def _ended(self, turn: ClientTurn | None, outcome: TrialOutcome) -> TrialOutcome:
        self.stop_reasons.append((turn.stop_reason if turn is not None else None) or "error")
        self.output = turn.text if turn is not None else ""
        return outcome


class BudgetMeter:
    """Compares what a trial has used with its budget.

    Attributes:
        exceeded: What was exceeded: `cost`, `tokens` or `tool_calls`; empty if nothing was.
        explanation: The same in words.
    """

    def __init__(self, budget: Budget) -> None:
        self.exceeded = ""
        self.explanation = ""
        self._budget = budget
        self._tool_calls: set[str] = set()

    def is_exceeded_by(self, event: Event, usage: SessionUsage) -> bool:
        """Count an event; return True if it exceeds the budget for the first time."""
        if self.exceeded:
            return False
        if isinstance(event, ToolCall):
            self._tool_calls.add(event.tool_call_id)
        self.check(usage)
        return bool(self.exceeded)

    def check(self, usage: SessionUsage) -> None:
        """Compare the usage of the session so far with the budget."""
        budget = self._budget
        tokens = usage.total if usage.total is not None else (usage.input or 0) + (usage.output or 0)
        is_currency = usage.currency in (None, budget.currency)
        for name, used, limit in (
            ("tool_calls", len(self._tool_calls), budget.tool_calls),
            ("tokens", tokens, budget.tokens),
            ("cost", (usage.cost or 0.0) if is_currency else 0.0, budget.cost),
        ):
            if limit is not None and used > limit:
                self.exceeded = name
                self.explanation = f"{used:g} of {limit:g} {name.replace('_', ' ')}"
                return


def _outcome_of(turn: ClientTurn) -> TrialOutcome:
    outcome = outcome_of_stop(turn.stop_reason, denied=bool(turn.denied))
    if outcome.kind == "cancelled":
        # We have not cancelled this turn: a cancelled run does not come here.
        return TrialOutcome(
            kind="unclassified",
            reason="cancelled",
            detail="the agent ended the turn as cancelled without being asked to",
        )
    if turn.denied:
        return TrialOutcome(kind=outcome.kind, reason=outcome.reason, detail=f"denied: {', '.join(turn.denied)}")
    return outcome
