"""Grade a finished run again; no agent that was evaluated is started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from duologue.evals.exceptions import EvalError, RecordError
from duologue.evals.graders.grading import grade_record
from duologue.evals.record.key import TrialKey
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.suite.case import Case
from duologue.evals.suite.suite import Suite

REGRADE_FORMAT = 1


class RegradedTrial(Struct, frozen=True, kw_only=True):
    """A trial that was graded again.

    Attributes:
        case: Id of the case.
        agent: Label of the agent.
        trial: Number of the trial.
        before: Whether it passed before; None if it was undecided or not graded.
        after: Whether it passes now; None if a grader could not decide.
        errors: Why graders could not decide, or what is wrong with the record.
    """

    case: str
    agent: str
    trial: int
    before: bool | None
    after: bool | None
    errors: list[str]


class Regrade(Struct, frozen=True, kw_only=True):
    """The result of grading a run again; `eval grade --json` prints it.

    Attributes:
        format: Version of the format.
        graded: Number of trials that were graded.
        skipped: Number of records that are not graded, by the kind of their outcome or for lack of graders.
        changed: Trials whose result is another one now.
        undecided: Trials for which a grader could not decide, and those whose record is damaged.
    """

    format: int = REGRADE_FORMAT
    graded: int
    skipped: int
    changed: list[RegradedTrial]
    undecided: list[RegradedTrial]


async def regrade_run(
    path: str | Path,
    *,
    suite: Suite | None = None,
    jobs: int = 1,
    on_trial: Callable[[RegradedTrial], None] = lambda _: None,
) -> Regrade:
    """Grade the records of a run again, and replace their grades.

    Args:
        path: Directory of the run.
        suite: Where the graders come from; those of the run if it is None.
        jobs: Number of trials that are graded at the same time.
        on_trial: Is called with each trial.

    Raises:
        RecordError: It is not the directory of a run.
        EvalError: The suite lacks a case of the run.
    """
    run = RunDirectory.open(Path(path))
    cases = {case.id: case for case in (suite or run.suite()).cases}
    if missing := [name for name in run.manifest.cases if name not in cases]:
        raise EvalError(f"the suite has no case {missing[0]!r}, which the run {path} has")
    limit = asyncio.Semaphore(jobs)
    found: list[RegradedTrial | None] = []
    damaged: list[RegradedTrial] = []

    async def grade(key: TrialKey) -> None:
        async with limit:
            try:
                trial = await _regrade(run, key, cases)
            except RecordError as error:
                damaged.append(_damaged(key, error))
                return
        found.append(trial)
        if trial is not None:
            on_trial(trial)

    keys = [key for key in run.manifest.trial_keys() if run.has_record(key)]
    async with asyncio.TaskGroup() as group:
        for key in keys:
            group.create_task(grade(key))
    trials = sorted((each for each in found if each), key=_order)
    return Regrade(
        graded=len(trials),
        skipped=found.count(None),
        changed=[each for each in trials if each.before != each.after],
        undecided=sorted([*(each for each in trials if each.errors), *damaged], key=_order),
    )


def _order(trial: RegradedTrial) -> tuple[str, str, int]:
    return trial.agent, trial.case, trial.trial


def _damaged(key: TrialKey, error: RecordError) -> RegradedTrial:
    return RegradedTrial(case=key.case, agent=key.agent, trial=key.trial, before=None, after=None, errors=[str(error)])


async def _regrade(run: RunDirectory, key: TrialKey, cases: Mapping[str, Case]) -> RegradedTrial | None:
    """Grade one record; None if it is not to be graded."""
    record = run.record(key)
    assert record is not None, "the caller has seen it"
    case = cases[key.case]
    if not record.result().outcome.rule.grade or not case.graders:
        return None
    before = record.grades()
    after = await grade_record(record, case)
    record.write_grades(after)
    return RegradedTrial(
        case=key.case,
        agent=key.agent,
        trial=key.trial,
        before=None if before is None else before.passed,
        after=after.passed,
        errors=after.errors,
    )
