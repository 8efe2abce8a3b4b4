"""Grade a trial with all graders of its case. No agent is started: a record is all that is needed."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from duologue.evals.exceptions import GraderError
from duologue.evals.graders.assertions import grade_file, grade_json, grade_text
from duologue.evals.graders.interface import GraderInput, GradingContext, summarize
from duologue.evals.graders.judge import grade_by_judge
from duologue.evals.graders.predicates import grade_trajectory
from duologue.evals.graders.programs import grade_command, grade_executable, grade_function
from duologue.evals.record.result import Grade, GraderOutput, Grades
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.suite.case import Case
from duologue.evals.suite.conversion import FieldError
from duologue.evals.suite.digest import graders_digest
from duologue.evals.suite.grader_specs import (
    AnyGrader,
    CommandGrader,
    ExecutableGrader,
    FileGrader,
    FunctionGrader,
    JsonGrader,
    JudgeGrader,
    TextGrader,
    TrajectoryGrader,
)


async def grade_record(record: TrialRecord, case: Case, *, scratch: Path | None = None) -> Grades:
    """Return the grades of a finished trial; `record.write_grades` saves them.

    Args:
        record: The trial.
        case: Its case.
        scratch: Directory for the temporary files of graders; None: the one of the system.

    Raises:
        RecordError: The record is damaged.
    """
    return await grade_trial(trial_of(record, case), case, scratch=scratch)


def trial_of(record: TrialRecord, case: Case) -> GraderInput:
    """Return a finished trial as graders see it.

    Raises:
        RecordError: The record is damaged.
    """
    result = record.result()
    workspace = record.workspace_directory.absolute()  # graders have other working directories
    prompts = [turn.text for turn in case.turns]
    return GraderInput(
        id=case.id,
        trial=result.key.trial,
        agent=result.key.agent,
        input=prompts[0] if len(prompts) == 1 else prompts,
        output=result.output,
        hint=case.hint,
        reference=case.reference,
        trajectory=list(record.trajectory()),
        metadata=case.metadata,
        cwd=str(workspace) if workspace.is_dir() else "",
        patch=record.patch(),
        outcome=result.outcome.kind,
        stop_reasons=result.stop_reasons,
    )


async def grade_trial(trial: GraderInput, case: Case, *, scratch: Path | None = None) -> Grades:
    """Return the grades of a trial by all graders of its case, one after the other.

    Args:
        trial: The trial.
        case: Its case.
        scratch: Directory for the temporary files of graders; None: the one of the system.
    """
    grades = [await _grade(spec, number, trial, case, scratch) for number, spec in enumerate(case.graders, 1)]
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        digest = graders_digest(case)
    except FieldError:  # a file is missing, and its grader has said so
        digest = ""
    return summarize(grades, graded=now, graders_digest=digest)


async def _grade(spec: AnyGrader, number: int, trial: GraderInput, case: Case, parent: Path | None) -> Grade:
    tag = str(type(spec).__struct_config__.tag)
    grade = Grade(name=spec.name or f"{tag} {number}", type=tag, weight=spec.weight, required=spec.required)
    started = time.monotonic()
    try:
        scratch = _new_scratch(parent)
        try:
            context = GradingContext(case=case, trial=trial, suite_directory=Path(case.directory), scratch=scratch)
            output = await _output(spec, context)
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
    except (GraderError, OSError, RuntimeError) as error:
        return structs.replace(grade, error=str(error), seconds=round(time.monotonic() - started, 6))
    return structs.replace(
        grade,
        passed=output.passed,
        score=output.score if output.score is not None else float(output.passed),
        reasoning=output.reasoning,
        outcome=output.outcome,
        seconds=round(time.monotonic() - started, 6),
    )


def _new_scratch(parent: Path | None) -> Path:
    # Graders have other working directories.
    return Path(tempfile.mkdtemp(prefix="duologue-grade-", dir=parent)).absolute()


async def _output(spec: AnyGrader, context: GradingContext) -> GraderOutput:
    match spec:
        case FunctionGrader():
            return await grade_function(spec, context)
        case ExecutableGrader():
            return await grade_executable(spec, context)
        case CommandGrader():
            return await grade_command(spec, context)
        case FileGrader():
            return grade_file(spec, context)
        case TextGrader():
            return grade_text(spec, context.trial)
        case JsonGrader():
            return grade_json(spec, context)
        case TrajectoryGrader():
            return grade_trajectory(spec, context.trial)
        case JudgeGrader():
            return await grade_by_judge(spec, context)
