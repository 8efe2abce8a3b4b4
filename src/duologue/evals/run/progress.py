"""The progress of a run: what a program shows while trials run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct, field

from duologue.evals.record.key import TrialKey
from duologue.evals.record.outcomes import TrialOutcome
from duologue.evals.record.result import Grades, TrialResult, final_outcome

Stop: TypeAlias = Literal["", "cost", "time", "prompts", "unknown_cost", "engine"]


class TrialEvent(Struct, frozen=True, kw_only=True):
    """Something happened to a trial.

    Attributes:
        kind: `started`, `retried` (the attempt failed and another one follows), `finished`, or `given_up` (no further
            trial of this agent is started).
        key: The trial.
        result: Its result, of the attempt for `retried`.
        grades: Its grades.
        text: More, for people.
    """

    kind: Literal["started", "retried", "finished", "given_up"]
    key: TrialKey
    result: TrialResult | None = None
    grades: Grades | None = None
    text: str = ""

    @property
    def outcome(self) -> TrialOutcome | None:
        """The outcome after grading."""
        return None if self.result is None else final_outcome(self.result, self.grades)

    @property
    def verdict(self) -> Literal["passed", "failed", "ran", "missing", ""]:
        """The result of a finished trial; `ran` if its case has no graders."""
        outcome = self.outcome
        if outcome is None:
            return ""
        if not outcome.rule.counts:
            return "missing"
        if self.grades is None or self.grades.passed is None:
            return "ran"
        return "passed" if self.grades.passed else "failed"


class RunProgress(Struct, kw_only=True):
    """The state of a run.

    Attributes:
        total: Number of trials.
        done: Trials with a record, those of earlier processes included.
        running: Trials that run, and when each was started.
        passed: Trials of this process that passed.
        failed: Trials of this process that failed.
        missing: Trials that do not count, those of earlier processes included.
        cost: Cost of all trials, as far as it was reported, failed attempts and simulated users included.
        currency: Currency of the cost.
        prompts: Prompts of all trials.
        finished: Trials that this process has finished.
        started: When this process began (monotonic clock).
        stop: The limit that was reached; `engine` if the engine could not go on.
    """

    total: int
    done: int = 0
    running: dict[TrialKey, float] = field(default_factory=dict[TrialKey, float])
    passed: int = 0
    failed: int = 0
    missing: int = 0
    cost: float = 0.0
    currency: str = "USD"
    has_cost: bool = False
    prompts: int = 0
    finished: int = 0
    started: float = field(default_factory=time.monotonic)
    stop: Stop = ""

    @property
    def seconds(self) -> float:
        """Seconds since this process began."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all trials are done, at the speed so far; None before the first one."""
        if not self.finished:
            return None
        return self.seconds / self.finished * (self.total - self.done)

    def add_use(self, result: TrialResult) -> None:
        """Add what an attempt has used."""
        usage = result.metrics.usage
        self.prompts += result.metrics.prompts
        if usage.cost is not None and usage.currency in (None, self.currency):
            self.cost += usage.cost
            self.has_cost = True

    def add(self, event: TrialEvent) -> None:
        """Count a finished trial."""
        verdict = event.verdict
        self.done += 1
        self.finished += 1
        self.passed += verdict == "passed"
        self.failed += verdict == "failed"
        self.missing += verdict == "missing"


Observer: TypeAlias = Callable[[TrialEvent, RunProgress], None]
"""Called with each event of a run, and the state after it."""
