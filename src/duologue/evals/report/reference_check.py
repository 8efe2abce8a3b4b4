"""Check that the references of a suite pass their own graders; no agent is started."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from duologue.evals.exceptions import GraderError
from duologue.evals.graders.grading import grade_trial
from duologue.evals.graders.interface import GraderInput
from duologue.evals.graders.programs import run_solution
from duologue.evals.record.result import Grades
from duologue.evals.run.checkout import Checkout, write_files
from duologue.evals.run.scratch import Scratch
from duologue.evals.suite.case import Case


class ReferenceResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `eval validate-refs`.

    Attributes:
        id: Id of the case.
        input: The prompt, or the prompts.
        reference: The reference answer.
        passed: All required graders pass it; `pass` in JSON. None if one could not decide.
        score: Its score.
        reasoning: What the graders say.
        unsolved: Whether the workspace without the solution passes as well, which means that the graders check
            nothing; None if the case has no solution.
    """

    id: str
    input: str | list[str]
    reference: str | None
    passed: bool | None = field(name="pass")
    score: float | None = None
    reasoning: str = ""
    unsolved: bool | None = None

    @property
    def is_valid(self) -> bool:
        """The reference passes, and without it the graders do not."""
        return self.passed is True and self.unsolved is not True


async def check_references(cases: Sequence[Case]) -> AsyncIterator[ReferenceResult]:
    """Grade the reference answer and the solution of each case that has one; yield each result.

    The workspace is made as for a trial, with the files of the solution in it. If there is a solution, the workspace
    without it, and an empty answer, are graded as well: they must not pass.
    """
    for case in cases:
        if case.graders and (case.reference is not None or _is_solvable(case)):
            yield await _check(case)


async def _check(case: Case) -> ReferenceResult:
    prompts = [turn.text for turn in case.turns]
    shown = prompts[0] if len(prompts) == 1 else prompts
    try:
        grades = await _grade(case, shown, is_solved=True)
    except GraderError as error:
        return ReferenceResult(id=case.id, input=shown, reference=case.reference, passed=None, reasoning=str(error))
    unsolved: bool | None = None
    if _is_solvable(case):
        unsolved = (await _grade(case, shown, is_solved=False)).passed is True
    reasons = [f"{grade.name}: {grade.error or grade.reasoning}" for grade in grades.grades if not grade.passed]
    if unsolved:
        reasons.append("the graders also pass the workspace without the solution")
    return ReferenceResult(
        id=case.id,
        input=shown,
        reference=case.reference,
        passed=grades.passed,
        score=grades.score,
        reasoning="; ".join(reasons),
        unsolved=unsolved,
    )


def _is_solvable(case: Case) -> bool:
    return bool(case.solution) or case.solution_command is not None


async def _grade(case: Case, shown: str | list[str], *, is_solved: bool) -> Grades:
    """Grade a workspace with or without the solution.

    Raises:
        GraderError: The command that solves the case failed.
    """
    root = Path(tempfile.mkdtemp(prefix="duologue-reference-"))
    try:
        scratch = Scratch(root)
        scratch.workspace.mkdir()
        checkout = Checkout(case, scratch)
        await asyncio.to_thread(checkout.make)
        if is_solved:
            await asyncio.to_thread(write_files, case, case.solution, scratch.workspace)
        if is_solved and case.solution_command is not None:
            await run_solution(case, scratch.workspace, root)
        patch = await asyncio.to_thread(checkout.patch)
        trial = GraderInput(
            id=case.id,
            input=shown,
            output=(case.reference or "") if is_solved else "",
            hint=case.hint,
            reference=case.reference,
            metadata=case.metadata,
            cwd=str(scratch.workspace),
            patch=patch.decode("utf-8", "replace"),
        )
        return await grade_trial(trial, case)
    finally:
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)
