"""Schemas of the formats are valid, and accept what is read and written."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError, validate

from duologue.evals.graders.interface import GraderInput
from duologue.evals.record.key import TrialKey
from duologue.evals.record.result import GraderOutput, Grades
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.schemas import SCHEMAS, json_schema
from tests.evals.samples import SUITE, run_manifest, small_suite, trial_manifest, trial_result

KEY = TrialKey("0" * 64, "greet", 1, "one")


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(json_schema(name))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("manifest", trial_manifest(KEY)),
        ("result", trial_result(KEY)),
        ("grades", Grades(passed=True, score=0.5)),
        ("grader-input", GraderInput(id="a", input=["p", "q"])),
        ("grader-output", GraderOutput(passed=True)),
        ("trajectory-step", TrajectoryStep(type="tool_call", number=1, t=0.1, kind="read", input={"path": "x"})),
    ],
)
def test_every_file_that_is_written_fits_its_schema(name: str, value: Any) -> None:
    validate(json.loads(msgspec.json.encode(value)), json_schema(name))


def test_a_suite_and_a_run_fit_their_schemas(tmp_path: Path) -> None:
    suite = small_suite(tmp_path)

    validate(tomllib.loads(SUITE), json_schema("suite"))
    validate(json.loads(msgspec.json.encode(run_manifest(suite))), json_schema("run"))
    with pytest.raises(ValidationError, match="promts"):
        validate({"id": "a", "prompts": ["x"], "promts": []}, json_schema("case"))


def test_an_unknown_format_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"unknown format 'suites'; did you mean 'suite'\?; the formats are suite, case"
    ):
        json_schema("suites")
