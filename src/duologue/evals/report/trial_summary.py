"""The summary of one trial: whether it counts, and with which result."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from duologue.evals.exceptions import RecordError
from duologue.evals.record.key import TrialKey
from duologue.evals.record.outcomes import OutcomeKind
from duologue.evals.record.result import Grade, TrialMetrics, final_outcome
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trial_record import TrialRecord

MissingReason: TypeAlias = OutcomeKind | Literal["not_run", "record_damaged", "not_graded", "no_graders"]
"""Why a trial does not count: the kind of its outcome, or what its record lacks."""

MISSING_WORDS: dict[str, str] = {
    "not_run": "has not been run, or was interrupted",
    "record_damaged": "has a record that cannot be read",
    "not_graded": "has not been graded",
    "no_graders": "belongs to a case without required graders",
}
"""Meaning of the reasons that are no outcomes; `OUTCOMES` explains the others."""


class TrialSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One trial of a run, as a report sees it.

    Attributes:
        case: Id of the case.
        agent: Label of the agent.
        trial: Number of the trial, from 1.
        passed: It passes; None if it is missing.
        score: Its score from 0 to 1; None if it is missing.
        missing: Why it does not count; None if it counts.
        outcome: Kind of the outcome after grading; None if there is no record.
        reason: A word for the cause of the outcome, such as the stop reason.
        detail: What happened, for people.
        attempts: Number of attempts.
        ended: When it ended, in UTC (ISO 8601).
        stop_reasons: Stop reason of each turn.
        metrics: Its figures.
        grades: The output of each grader.
        writes: Files that were written outside of the workspace, as far as they are known.
        left_processes: Command lines of processes that were left behind; they were ended.
        is_watched: No other file outside of the workspace can have been written; None if that is not known.
        directory: Directory of its record, relative to the run; empty if there is none.
    """

    case: str
    agent: str
    trial: int
    passed: bool | None = None
    score: float | None = None
    missing: MissingReason | None = None
    outcome: OutcomeKind | None = None
    reason: str = ""
    detail: str = ""
    attempts: int = 0
    ended: str = ""
    stop_reasons: list[str] = []
    metrics: TrialMetrics = TrialMetrics()
    grades: list[Grade] = []
    writes: list[str] = []
    left_processes: list[str] = []
    is_watched: bool | None = None
    directory: str = ""


def read_trial(run: RunDirectory, key: TrialKey) -> TrialSummary:
    """Return the summary of a trial; one whose record is absent or damaged is missing."""
    summary = TrialSummary(case=key.case, agent=key.agent, trial=key.trial, missing="not_run")
    try:
        record = run.record(key)
        if record is None:
            return summary
        result, grades = record.result(), record.grades()
    except RecordError as error:
        return TrialSummary(
            case=key.case, agent=key.agent, trial=key.trial, missing="record_damaged", detail=str(error)
        )
    outcome = final_outcome(result, grades)
    missing: MissingReason | None = None
    if not outcome.rule.counts:
        missing = outcome.kind
    elif grades is None:
        missing = "not_graded"
    elif grades.passed is None:
        missing = "no_graders"
    passed = None if missing or grades is None else grades.passed
    score = None if grades is None else grades.score
    return TrialSummary(
        case=key.case,
        agent=key.agent,
        trial=key.trial,
        passed=passed,
        score=None if passed is None else float(passed) if score is None else score,
        missing=missing,
        outcome=outcome.kind,
        reason=outcome.reason,
        detail=outcome.detail,
        attempts=result.attempts,
        ended=result.ended,
        stop_reasons=result.stop_reasons,
        metrics=result.metrics,
        grades=[] if grades is None else grades.grades,
        writes=result.writes,
        left_processes=result.left_processes,
        is_watched=_is_watched(record),
        directory=str(record.directory.relative_to(run.path)),
    )


def _is_watched(record: TrialRecord) -> bool | None:
    try:
        return record.manifest().workspace.is_watched
    except RecordError:  # the result counts all the same
        return None
