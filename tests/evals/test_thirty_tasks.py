"""The thirty tasks of the examples: their solutions pass, and a scripted agent gets the same results each time."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duologue.client.target import Target
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.report.eval_report import make_report
from duologue.evals.report.reference_check import check_references
from duologue.evals.report.run_summary import read_run
from duologue.evals.run.checkout import write_files
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.suite_run import run_suite
from duologue.evals.suite.loader import load_suite
from duologue.evals.suite.suite import Suite
from tests.cli.program import duologue

EXAMPLES = Path(__file__).parents[2] / "examples" / "evals"

pytestmark = pytest.mark.timeout(280)


def scripted_agent(skip: int = 0) -> Target:
    """Return the scripted agent of the examples, in this process."""
    spec = importlib.util.spec_from_file_location("scripted_agent", EXAMPLES / "scripted_agent.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    agent: Target = module.ScriptedAgent(skip)
    return agent


def tasks(*tags: str) -> Suite:
    """Return the thirty tasks, or those with one of these tags."""
    suite = load_suite(EXAMPLES / "suite.toml")
    return msgspec.structs.replace(suite, cases=suite.select(tags=frozenset(tags)))


async def run(path: Path, agents: dict[str, Target], suite: Suite) -> Path:
    """Run tasks and return the directory of the run."""
    end = await run_suite(suite, agents, path, seed=7, options=TrialOptions(jobs=2, sandbox="none"))

    assert end.is_complete
    return path


def results(path: Path) -> dict[str, Any]:
    """Return what happened in each trial, without times and without the random names of directories."""
    found: dict[str, Any] = {}
    for record in RunDirectory.open(path).records():
        result, grades = record.result(), record.grades()
        assert grades is not None
        steps = [msgspec.to_builtins(step) | {"t": 0, "seconds": 0} for step in record.trajectory()]
        text = re.sub(r"duologue-trial-[0-9a-f]{16}", "trial", msgspec.json.encode(steps).decode())
        verdicts = [(grade.name, grade.passed, grade.score) for grade in grades.grades]
        found[f"{result.key.agent} {result.key.case}"] = (result.output, record.patch(), text, verdicts)
    return found


@pytest.mark.fault("TRI-09")
async def test_a_scripted_agent_solves_all_tasks_in_the_same_way_twice(tmp_path: Path) -> None:
    first = await run(tmp_path / "first", {"scripted": scripted_agent()}, tasks())
    second = await run(tmp_path / "second", {"scripted": scripted_agent()}, tasks())

    assert [trial.passed for trial in read_run(first).trials()] == [True] * 30
    assert results(first) == results(second)


async def test_a_lazy_agent_is_shown_to_be_worse(tmp_path: Path) -> None:
    agents = {"scripted": scripted_agent(), "lazy": scripted_agent(skip=2)}
    path = await run(tmp_path / "run", agents, tasks("fix", "write"))

    (found,) = make_report([read_run(path)]).comparisons
    assert (found.first, found.second, found.verdict) == ("scripted", "lazy", "first_better")
    assert (found.difference, found.test) == (0.5, "mcnemar")
    assert found.adjusted_p < 0.05


def test_the_scripted_agent_is_a_program_that_can_be_evaluated(tmp_path: Path) -> None:
    program = shlex.join([sys.executable, str(EXAMPLES / "scripted_agent.py"), "--skip", "2"])
    words = ["--agent", f"scripted={program}", "--case", "fix-range-sum", "--case", "fix-mutable-default", "-o", "run"]
    ended = duologue(tmp_path, "eval", "run", str(EXAMPLES / "suite.toml"), *words)

    assert ended.returncode == 0, ended.stderr
    found = {trial.case: trial.passed for trial in read_run(tmp_path / "run").trials()}
    assert found == {"fix-range-sum": True, "fix-mutable-default": False}


async def test_solutions_pass_and_nothing_passes_without_them() -> None:
    # `eval validate-refs` takes all thirty; one kind is enough to see that the suite is checked as it should be.
    found = [each async for each in check_references(tasks("fix").cases)]

    assert len(found) == 8
    assert [each.id for each in found if not each.is_valid] == []


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit(0)", "the program ended the check (0)"),
        ("import os; os._exit(0)", "the program ended the check (0)"),
        ("import os; sum_between = lambda a, b: os._exit(0)", "the program ended the check (0)"),
        ("import atexit, os; atexit.register(os._exit, 0)", "the program ended the check (0)"),
        ("import sys; sys.exit = print\ndef sum_between(a, b): return 0", "is 0, expected 6"),
        ("def sum_between(a, b): raise SystemExit", "the program ended the check (None)"),
        ("import signal; signal.raise_signal(signal.SIGALRM)", "it did not end within 45 s"),
        ("def sum_between(a, b): return 0", "is 0, expected 6"),
    ],
)
def test_a_program_that_ends_its_check_or_waits_has_failed(tmp_path: Path, program: str, reason: str) -> None:
    (tmp_path / "ranges.py").write_text(program)
    ended = check("fix-range-sum", tmp_path)

    assert ended.returncode == 1
    assert reason in ended.stderr


def test_no_check_passes_a_program_that_ends_it_as_if_all_were_well(tmp_path: Path) -> None:
    cases = tasks().cases
    passed: list[str] = []
    for case in cases:
        workspace = tmp_path / case.id
        workspace.mkdir()
        write_files(case, case.files, workspace)
        for file in case.solution:
            ending = {".py": "import os; os._exit(0)", ".sh": "exit 0"}.get(Path(file.path).suffix)
            if ending is not None:
                (workspace / file.path).write_text(f"{ending}\n")
        passed += [case.id] if check(case.id, workspace).returncode == 0 else []

    assert len(cases) == 30
    assert passed == []


def check(case: str, workspace: Path) -> subprocess.CompletedProcess[str]:
    """Run the check of a task in a workspace."""
    command = [sys.executable, str(EXAMPLES / "checks" / "checks.py"), case]
    return subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False, timeout=120)
