"""Run the trials of a run directory that have no record: several at once, with retries, until a limit is reached."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress

from duologue.evals.engines.interface import Engine, EngineError
from duologue.evals.engines.record_archive import store_report
from duologue.evals.engines.task import AttemptReport, ProbeReport, TrialTask
from duologue.evals.exceptions import RecordError
from duologue.evals.record.attempt import InterruptedAttempt
from duologue.evals.record.key import TrialKey
from duologue.evals.record.result import Grades, TrialResult
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.run.options import LONGEST_BACKOFF, TrialOptions
from duologue.evals.run.progress import Observer, RunProgress, TrialEvent
from duologue.evals.run.scratch import finish, remove_linked
from duologue.evals.run.targets import EvalAgent
from duologue.evals.run.watched_trial import TrialWatch
from duologue.evals.suite.case import Case
from duologue.usage.amounts import SessionUsage

SLOT_SECONDS = 1.0
"""Time between two looks at the number of slots, which grows and shrinks with a cluster."""


class Scheduler:
    """Runs what is pending.

    Attributes:
        progress: The state.
        given_up: Why no further trial of an agent is started, by its label.
        problem: Why the engine could not go on.
    """

    def __init__(
        self,
        run: RunDirectory,
        cases: Mapping[str, Case],
        agents: Mapping[str, EvalAgent],
        options: TrialOptions,
        engine: Engine,
        *,
        observer: Observer = lambda event, progress: None,
        watch: TrialWatch | None = None,
    ) -> None:
        self._run = run
        self._watch = watch
        self._cases = cases
        self._agents = agents
        self._options = options
        self._engine = engine
        self._observer = observer
        self._random = random.Random(run.manifest.seed)  # spreads retries
        self._missing_in_a_row: Counter[str] = Counter()
        self._pending: deque[TrialKey] = deque()
        self._waiting: dict[TrialKey, asyncio.Future[AttemptReport]] = {}
        self._slot_freed = asyncio.Event()
        self.given_up: dict[str, str] = {}
        self.problem = ""
        self.progress = RunProgress(total=len(run.manifest.trial_keys()), currency=options.limits.currency)

    async def run(self) -> None:
        """Run all trials without a record; if this is cancelled, those that run are cancelled and leave no record."""
        await finish(self._prepare)
        async with asyncio.TaskGroup() as readers:
            reader = readers.create_task(self._read())
            async with asyncio.TaskGroup() as trials:
                while self._pending and not self._is_limit_reached():
                    if len(self.progress.running) >= (self._options.jobs or self._engine.slots):
                        await self._wait_for_slot()
                        continue
                    key = self._pending.popleft()
                    if key.agent not in self.given_up and not self._is_taken(key):
                        self.progress.running[key] = time.monotonic()
                        trials.create_task(self._trial(key))
            reader.cancel()
        await finish(self._clear)

    def _prepare(self) -> None:
        """Remove what a killed process left, and count what was done before."""
        self._clear()
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

    def _clear(self) -> None:
        for interrupted in self._run.interrupted():
            clear_interrupted(interrupted)

    def _is_taken(self, key: TrialKey) -> bool:
        # On a cluster there may be thousands of attempts to look at; a worker looks for the record instead.
        return self._run.has_record(key) or (self._engine.is_local and key in self._run.running())

    async def _wait_for_slot(self) -> None:
        self._slot_freed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(SLOT_SECONDS):
                await self._slot_freed.wait()

    async def _read(self) -> None:
        """Give each report to the trial that waits for it."""
        try:
            async for report in self._engine.results():
                if isinstance(report, ProbeReport):
                    continue
                waiting = self._waiting.pop(report.key, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(report)
        except EngineError as error:
            self.problem = str(error)
            self.progress.stop = "engine"
            for waiting in self._waiting.values():
                waiting.cancel()
            self._slot_freed.set()

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
            self._slot_freed.set()

    async def _attempt(self, key: TrialKey) -> bool:
        """Run one attempt; return False if another one shall follow."""
        number = self._run.failed_attempts(key) + 1
        task = TrialTask(
            key=key,
            run=self._run,
            case=self._cases[key.case],
            agent=self._agents[key.agent],
            options=self._options,
            seed=self._run.manifest.seed,
            watch=self._watch,
            number=number,
            is_last=number > self._options.retries,
        )
        report = await self._report_of(task)
        if report is None:
            return True
        if not report.is_stored:
            report = await finish(store_report, self._run, report)
        self.progress.add_use(report.result)
        self._add_user_cost(report.user_usage)
        self._check_cost(key, report.result)
        if not report.is_final:
            self._notify(TrialEvent(kind="retried", key=key, result=report.result))
            return False
        self._count(key, report.result, report.grades)
        return True

    async def _report_of(self, task: TrialTask) -> AttemptReport | None:
        """Return the report of an attempt; None if the engine could not go on."""
        waiting: asyncio.Future[AttemptReport] = asyncio.get_running_loop().create_future()
        self._waiting[task.key] = waiting
        try:
            self._engine.submit(task)
            return await waiting
        except asyncio.CancelledError:
            if self.progress.stop == "engine" and waiting.cancelled():
                return None
            self._engine.cancel(task)
            raise
        finally:
            self._waiting.pop(task.key, None)

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

    def _add_user_cost(self, usage: SessionUsage) -> None:
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
