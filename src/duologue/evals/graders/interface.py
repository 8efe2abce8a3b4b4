"""The interface of graders: what they get and return, and how the grades of a trial become its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, field

from duologue.evals.record.manifest import RECORD_FORMAT
from duologue.evals.record.result import Grade, GraderOutput, Grades
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.suite.case import Case

GraderFunction: TypeAlias = "Callable[[GraderInput], GraderOutput | bool | float | dict[str, Any]]"
"""A grader in Python: returns a grade, True or False, a score, or the fields of a grade."""


class GraderInput(Struct, frozen=True, kw_only=True):
    """A trial as a grader sees it; an executable gets it as JSON.

    Attributes:
        format: Version of the format.
        id: Id of the case.
        trial: Number of the trial.
        agent: Label of the agent.
        input: The prompt, or the prompts.
        output: Text of the agent's messages in the last turn.
        hint: What a good answer has.
        reference: A known good answer.
        trajectory: The steps of the trial.
        metadata: Metadata of the case.
        cwd: The workspace after the trial; empty if it was not saved.
        patch: What changed in the workspace.
        outcome: Kind of the outcome of the trial.
        stop_reasons: Stop reason of each turn.
    """

    format: int = RECORD_FORMAT
    id: str
    trial: int = 1
    agent: str = ""
    input: str | list[str]
    output: str = ""
    hint: str = ""
    reference: str | None = None
    trajectory: list[TrajectoryStep] = field(default_factory=list[TrajectoryStep])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    cwd: str = ""
    patch: str = ""
    outcome: str = "completed"
    stop_reasons: list[str] = field(default_factory=list[str])

    @property
    def last_message(self) -> str:
        """Text of the agent's last message; the whole output if there are no steps."""
        messages = [step.text for step in self.trajectory if step.type == "message"]
        return messages[-1] if messages else self.output


class GradingContext(Struct, frozen=True, kw_only=True):
    """The files and the trial that a grader works with.

    Attributes:
        case: The case.
        trial: The trial.
        suite_directory: Directory that the files of the case are relative to.
        scratch: Empty directory that a grader may use, and that is removed afterwards.
    """

    case: Case
    trial: GraderInput
    suite_directory: Path
    scratch: Path

    @property
    def workspace(self) -> Path | None:
        """The workspace after the trial; None if it was not saved."""
        return Path(self.trial.cwd) if self.trial.cwd else None


def summarize(grades: Sequence[Grade], *, graded: str = "", graders_digest: str = "") -> Grades:
    """Return the grades of a trial: it passes if all required graders pass, and its score is the weighted mean.

    A grader that could not decide leaves both undecided, unless a required one has failed already. Without required
    graders a trial neither passes nor fails.
    """
    required = [grade.passed for grade in grades if grade.required]
    passed: bool | None = None
    if False in required:
        passed = False
    elif required and None not in required:
        passed = True
    scored = [grade for grade in grades if grade.weight > 0]
    score: float | None = None
    if scored and all(grade.score is not None for grade in scored):
        total = sum(grade.weight for grade in scored)
        score = min(1.0, sum((grade.score or 0.0) * grade.weight for grade in scored) / total)
    return Grades(graded=graded, graders_digest=graders_digest, passed=passed, score=score, grades=list(grades))
