"""The result of a trial: its outcome, its metrics, and the output of its graders."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from duologue.evals.record.key import TrialKey
from duologue.evals.record.manifest import RECORD_FORMAT
from duologue.evals.record.outcomes import OutcomeRule, TrialOutcome
from duologue.usage.amounts import SessionUsage

Score = Annotated[float, Meta(ge=0, le=1)]


class TrialMetrics(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of a trial; `None` where the agent reported nothing.

    Attributes:
        seconds: From the first prompt to the end of the last turn.
        first_update: Seconds from the first prompt to the first update.
        tool_seconds: Seconds in which at least one tool call was running.
        permission_seconds: Seconds in which the agent waited for a permission.
        prompts: Number of prompts.
        tool_calls: Number of tool calls by kind.
        failed_tool_calls: How many of them failed.
        repeated_tool_calls: How many repeated the one before them: same kind, title and input.
        permissions_asked: Number of permission requests.
        permissions_denied: How many of them were not allowed.
        context_peak: Largest number of tokens in the context.
        compactions: Number of compactions.
        usage: Tokens and cost with their provenance.
    """

    seconds: float | None = None
    first_update: float | None = None
    tool_seconds: float = 0.0
    permission_seconds: float = 0.0
    prompts: int = 0
    tool_calls: dict[str, int] = {}
    failed_tool_calls: int = 0
    repeated_tool_calls: int = 0
    permissions_asked: int = 0
    permissions_denied: int = 0
    context_peak: int | None = None
    compactions: int = 0
    usage: SessionUsage = SessionUsage()


class TrialResult(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """`result.json`: how the agent's part of a trial ended. It is the last file that is written.

    Attributes:
        format: Version of the format.
        key: The trial.
        outcome: How it ended.
        ended: When, in UTC (ISO 8601).
        attempts: Number of attempts, this one included.
        stop_reasons: Stop reason of each turn.
        output: Text of the agent's messages in the last turn.
        metrics: Its figures.
        writes: Files that were written outside of the workspace, as far as they are known.
        left_processes: Command lines of processes that the agent left behind; they were ended.
    """

    format: int = RECORD_FORMAT
    key: TrialKey
    outcome: TrialOutcome
    ended: str = ""
    attempts: Annotated[int, Meta(ge=1)] = 1
    stop_reasons: list[str] = field(default_factory=list[str])
    output: str = ""
    metrics: TrialMetrics = TrialMetrics()
    writes: list[str] = field(default_factory=list[str])
    left_processes: list[str] = field(default_factory=list[str])


class GraderOutput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The output of a grader: `{"pass": true, "score": 1.0}`, and more if it likes.

    Attributes:
        passed: It passes; `pass` in JSON.
        score: From 0 to 1; 1 or 0 by `passed` if it is missing.
        reasoning: Why, for people.
        outcome: Anything else that it found.
    """

    passed: bool = field(name="pass")
    score: Score | None = None
    reasoning: str = ""
    outcome: dict[str, Any] = {}


class Grade(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The output of one grader of a case.

    Attributes:
        name: Name of the grader.
        type: Type of the grader.
        passed: It passes; `pass` in JSON. None if it could not decide.
        score: From 0 to 1; None if it could not decide.
        reasoning: Why, for people.
        outcome: Anything else that it found.
        weight: Its part of the score.
        required: The trial passes only if it passes.
        seconds: How long it took.
        error: Why it could not decide.
    """

    name: str
    type: str
    passed: bool | None = field(name="pass", default=None)
    score: Score | None = None
    reasoning: str = ""
    outcome: dict[str, Any] = {}
    weight: float = 1.0
    required: bool = True
    seconds: float = 0.0
    error: str = ""


class Grades(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """`grades.json`: the output of all graders of a trial. It is replaced as a whole when a trial is graded again.

    Attributes:
        format: Version of the format.
        graded: When, in UTC (ISO 8601).
        graders_digest: SHA-256 of the graders of the case and of their files.
        passed: All required graders passed; `pass` in JSON. None if one of them could not decide, or there are none.
        score: Weighted mean of the scores; None if a grader could not decide, or there are none.
        grades: The output of each grader.
    """

    format: int = RECORD_FORMAT
    graded: str = ""
    graders_digest: str = ""
    passed: bool | None = field(name="pass", default=None)
    score: Score | None = None
    grades: list[Grade] = field(default_factory=list[Grade])

    @property
    def errors(self) -> list[str]:
        """Why graders could not decide, one line for each."""
        return [f"{grade.name}: {grade.error}" for grade in self.grades if grade.error]


def final_outcome(result: TrialResult, grades: Grades | None) -> TrialOutcome:
    """Return the outcome of a trial after grading: that of its result, or `verifier_failed` if a grader failed.

    A grader that could not decide does not matter for a trial that failed another one, which is required.
    """
    rule: OutcomeRule = result.outcome.rule
    if rule.counts and grades is not None and grades.errors and grades.passed is not False:
        return TrialOutcome(kind="verifier_failed", reason="grader", detail="\n".join(grades.errors))
    return result.outcome
