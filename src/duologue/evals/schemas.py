"""JSON schemas of the files and messages of evaluations, made from their classes."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from duologue.evals.graders.interface import GraderInput
from duologue.evals.record.manifest import RunManifest, TrialManifest
from duologue.evals.record.result import GraderOutput, Grades, TrialResult
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.suite.case import Case
from duologue.evals.suite.prompt_cases import PromptCase
from duologue.evals.suite.suite import SuiteFile
from duologue.suggestion import suggestion

DIALECT = "https://json-schema.org/draft/2020-12/schema"

SCHEMAS: dict[str, type[Struct]] = {
    "suite": SuiteFile,
    "case": Case,
    "prompt-case": PromptCase,
    "run": RunManifest,
    "manifest": TrialManifest,
    "result": TrialResult,
    "trajectory-step": TrajectoryStep,
    "grades": Grades,
    "grader-input": GraderInput,
    "grader-output": GraderOutput,
}
"""The formats by name, and the class of each."""


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a format.

    Args:
        name: Name of the format, one of `SCHEMAS`.

    Raises:
        ValueError: There is no such format.
    """
    if name not in SCHEMAS:
        raise ValueError(f"unknown format {name!r}{suggestion(name, SCHEMAS)}; the formats are {', '.join(SCHEMAS)}")
    return {"$schema": DIALECT, **msgspec.json.schema(SCHEMAS[name])}
