"""Errors of evaluations, each with a message for a person."""

from __future__ import annotations

from collections.abc import Sequence

from duologue.errors import DuologueError


class EvalError(DuologueError):
    """An evaluation cannot start or continue."""


class SuiteError(EvalError):
    """A suite cannot be used.

    Attributes:
        problems: One line for each mistake: file, case, field and what is wrong.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class RecordError(EvalError):
    """A file of a run is missing, damaged, or of a newer version."""


class GraderError(EvalError):
    """A grader could not decide: it failed, took too long, or returned something else than a grade."""
