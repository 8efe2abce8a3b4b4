"""`duologue eval compare`, as a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import duologue
from tests.evals.golden_files import assert_golden
from tests.evals.run_builder import build_run

CASES = [f"case-{number}" for number in range(10)]


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """Return the paths of two runs, the second of which is worse."""
    before = {"one": dict.fromkeys(CASES, "PPP") | {"case-9": "PF-"}}
    after = {"one": dict.fromkeys(CASES, "PFF") | {"case-9": "PPP"}}
    build_run(tmp_path, before, name="before")
    build_run(tmp_path, after, name="after")
    return ["before", "after"]


def test_two_runs_are_compared_case_by_case(tmp_path: Path, runs: list[str]) -> None:
    ended = duologue(tmp_path, "eval", "compare", *runs)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert_golden("compare.txt", ended.stdout)


def test_a_comparison_as_markdown_and_as_json(tmp_path: Path, runs: list[str]) -> None:
    markdown = duologue(tmp_path, "eval", "compare", "--markdown", *runs)
    found = json.loads(duologue(tmp_path, "eval", "compare", "--json", *runs).stdout)

    assert_golden("compare.md", markdown.stdout)
    assert found["format"] == 1
    assert found["comparisons"][0]["result"]["verdict"] == "first_better"
    assert len(found["comparisons"][0]["cases"]) == 10


def test_a_second_run_that_is_worse_can_fail_a_build(tmp_path: Path, runs: list[str]) -> None:
    worse = duologue(tmp_path, "eval", "compare", "--fail-if-worse", *runs)
    better = duologue(tmp_path, "eval", "compare", "--fail-if-worse", *reversed(runs))

    assert (worse.returncode, better.returncode) == (1, 0)


def test_an_unknown_agent_is_an_error_of_the_command_line(tmp_path: Path, runs: list[str]) -> None:
    ended = duologue(tmp_path, "eval", "compare", *runs, "--agent", "two")

    assert ended.returncode == 2
    assert "no run has an agent 'two'; the agents are one" in ended.stderr
