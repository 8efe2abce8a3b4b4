"""Run the trials of a run directory that have no record: several at once, with retries, until a limit is reached."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress

from duologue.evals.exceptions import RecordError
from duologue.evals.record.attempt import InterruptedAttempt
from duologue.evals.record.key import TrialKey
from duologue.evals.record.result import Grades, TrialResult
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.run.credentials import Credentials
from duologue.evals.run.options import LONGEST_BACKOFF, TrialOptions
from duologue.evals.run.progress import Observer, RunProgress, TrialEvent
from duologue.evals.run.scratch import finish, remove_linked
from duologue.evals.run.targets import EvalAgent
from duologue.evals.run.trial import TrialPlan, TrialRun, grade_attempt
from duologue.evals.run.watched_trial import TrialWatch
from duologue.evals.suite.case import Case


class Scheduler:
    """Runs what is pending.

    Attributes:
        progress: The state.
        given_up: Why no further trial of an agent is started, by its label.
    """

    def __init__(
        self,
        run: RunDirectory,
        cases: Mapping[str, Case],
        agents: Mapping[str, EvalAgent],
        options: TrialOptions,
        credentials: Credentials,
        *,
        is_confined: bool = False,
        observer: Observer = lambda event, progress: None,
        watch: TrialWatch | None = None,
    ) -> None:
        self._run = run
        self._watch = watch
        self._cases = cases
        self._agents = agents
        self._options = options
        self._credentials = credentials
        self._is_confined = is_confined
        self._observer = observer
        self._random = random.Random(run.manifest.seed)  # spreads retries
        self._missing_in_a_row: Counter[str] = Counter()
        self.given_up: dict[str, str] = {}
        self._pending: deque[TrialKey] = deque()
        self.progress = RunProgress(total=len(run.manifest.trial_keys()), currency=options.limits.currency)

    async def run(self) -> None:
        """Run all trials without a record; if this is cancelled, those that run are cancelled and leave no record."""
        await finish(self._prepare)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._options.jobs, max(1, len(self._pending)))):
                group.create_task(self._work())

    def _prepare(self) -> None:
        """Remove what a killed process left, and count what was done before."""
        for interrupted in self._run.interrupted():
            clear_interrupted(interrupted)
        self._pending.extend(self._run.pending())
        self.progress.done = self.progress.total - len(self._pending)
        for record in self._run.records():
            result = record.result()
            self.progress.add_use(result)
            event = TrialEvent(kind="finished", key=result.key, result=result, grades=record.grades())
            self.progress.missing += event.verdict == "missing"
        for folder in (self._run.path / "failed").glob("*/*/*"):
            with suppress(RecordError):  # an attempt that a full disk cut off has no result
                self.progress.add_use(TrialRecord(folder).result())

    async def _work(self) -> None:
        """Run one trial after the other."""
        while self._pending:
            if self._is_limit_reached():
                return
            key = self._pending.popleft()
            is_taken = self._run.has_record(key) or key in self._run.running()
            if key.agent not in self.given_up and not is_taken:
                await self._trial(key)

    def _is_limit_reached(self) -> bool:
        limits, progress = self._options.limits, self.progress
        if progress.stop:
            return True
        if limits.cost is not None and progress.cost >= limits.cost:
            progress.stop = "cost"
        elif limits.seconds is not None and progress.seconds >= limits.seconds:
            progress.stop = "time"
        elif limits.prompts is not None and progress.prompts >= limits.prompts:
            progress.stop = "prompts"
        return bool(progress.stop)

    # --- one trial

    async def _trial(self, key: TrialKey) -> None:
        self.progress.running[key] = time.monotonic()
        try:
            self._notify(TrialEvent(kind="started", key=key))
            while not await self._attempt(key):
                number = self._run.failed_attempts(key)
                pause = min(LONGEST_BACKOFF, self._options.backoff * 2 ** (number - 1))
                await asyncio.sleep(pause * self._random.uniform(0.5, 1.0))
                if self._is_limit_reached() or key.agent in self.given_up:
                    return
        finally:
            self.progress.running.pop(key, None)

    async def _attempt(self, key: TrialKey) -> bool:
        """Run one attempt; return False if another one shall follow."""
        number = self._run.failed_attempts(key) + 1
        case = self._cases[key.case]
        plan = TrialPlan(
            case=case,
            agent=self._agents[key.agent],
            options=self._options,
            credentials=self._credentials,
            seed=self._run.manifest.seed,
            is_confined=self._is_confined,
            watch=self._watch,
        )
        with self._run.begin(key) as attempt:
            trial = TrialRun(attempt, plan, number)
            result = await trial.run()
            self.progress.add_use(result)
            self._add_user_cost(trial)
            self._check_cost(key, result)
            if result.outcome.rule.retry == "trial" and number <= self._options.retries:
                await finish(attempt.set_aside, result)
                self._notify(TrialEvent(kind="retried", key=key, result=result))
                return False
            grades = await grade_attempt(attempt, result, case)
            if await finish(attempt.commit, result, grades):
                self._count(key, result, grades)
        return True

    def _count(self, key: TrialKey, result: TrialResult, grades: Grades | None) -> None:
        event = TrialEvent(kind="finished", key=key, result=result, grades=grades)
        self.progress.running.pop(key, None)
        self.progress.add(event)
        self._notify(event)
        is_missing = event.verdict == "missing" and result.outcome.kind != "permission_denied"
        self._missing_in_a_row[key.agent] = self._missing_in_a_row[key.agent] + 1 if is_missing else 0
        is_login = result.outcome.kind == "auth_required"
        if is_login or self._missing_in_a_row[key.agent] >= self._options.give_up_after:
            number = self._missing_in_a_row[key.agent]
            why = "it requires a login" if is_login else f"{number} trials in a row are missing"
            self.given_up[key.agent] = f"{why}: {result.outcome.detail.partition(chr(10))[0]}"
            self._notify(TrialEvent(kind="given_up", key=key, result=result, text=self.given_up[key.agent]))

    def _add_user_cost(self, trial: TrialRun) -> None:
        usage = trial.user_usage
        if usage.cost is not None and usage.currency in (None, self.progress.currency):
            self.progress.cost += usage.cost

    def _check_cost(self, key: TrialKey, result: TrialResult) -> None:
        """Stop a run whose only limit is its cost, if an agent does not report it after all."""
        limits, usage = self._options.limits, result.metrics.usage
        is_alone = limits.cost is not None and limits.seconds is None and limits.prompts is None
        is_known = usage.cost is not None and usage.currency in (None, limits.currency)
        if is_alone and not is_known and result.metrics.prompts and result.outcome.rule.counts:
            self.progress.stop = "unknown_cost"
            self.given_up.setdefault(key.agent, f"it reported no cost in {limits.currency}")

    def _notify(self, event: TrialEvent) -> None:
        self._observer(event, self.progress)


def clear_interrupted(interrupted: InterruptedAttempt) -> None:
    """Remove an attempt whose process is gone, with its directories."""
    remove_linked(interrupted.directory)
    interrupted.remove()
