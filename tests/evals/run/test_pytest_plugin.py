"""Suites as tests, and tests that are run several times; every test here runs pytest in a directory elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.evals.run.suites import python_agent, write_suite

AGENT = python_agent("obedient_agent")

CASES = """
[[cases]]
id = "good"
prompts = ["say yes"]
graders = [{ type = "text", equals = "yes" }]
[[cases]]
id = "bad"
prompts = ["say no"]
graders = [{ type = "text", equals = "yes" }]
[[cases]]
id = "known"
prompts = ["say no"]
quarantine = "the agent cannot do this yet"
graders = [{ type = "text", equals = "yes" }]
"""

TRIALS = """
import pytest

made = []

@pytest.fixture
def thing():
    made.append("up")
    yield
    made.append("down")

@pytest.fixture(scope="module")
def shared():
    made.append("shared")
    yield

@pytest.mark.trials(5, at_least=4)
def test_passes_often_enough(trial, thing, shared):
    assert trial != 2

@pytest.mark.trials(3)
def test_has_to_pass_always(trial, shared):
    assert trial != 3

@pytest.mark.trials(2)
async def test_may_be_a_coroutine(trial):
    assert trial in (1, 2)

@pytest.mark.trials(2)
@pytest.mark.skip(reason="not now")
def test_may_be_skipped():
    raise AssertionError

def test_each_trial_had_fixtures_of_its_own(trial):
    assert (made.count("up"), made.count("down"), made.count("shared"), trial) == (5, 5, 1, 1)
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with this plugin only."""
    plugins = [
        "--disable-plugin-autoload",
        "-p",
        "duologue.evals.pytest_plugin",
        "-p",
        "asyncio",
        "-o",
        "asyncio_mode=auto",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    ]
    command = [sys.executable, "-m", "pytest", *plugins, "-rA", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_a_test_with_trials_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "test_trials.py").write_text(TRIALS)
    ended = run_pytest(tmp_path)

    assert "3 passed, 1 failed, 1 skipped" in ended.stdout or "1 failed, 3 passed, 1 skipped" in ended.stdout, (
        ended.stdout
    )
    assert "2 of 3 trials passed; 3 of 3 are required" in ended.stdout
    assert "PASSED test_trials.py::test_passes_often_enough" in ended.stdout
    assert "FAILED test_trials.py::test_has_to_pass_always" in ended.stdout


def test_a_marker_without_a_number_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_trials.py").write_text("import pytest\n@pytest.mark.trials()\ndef test_it(): pass\n")

    assert "needs a number of trials" in run_pytest(tmp_path).stderr


def test_a_suite_is_collected_if_an_agent_is_given(tmp_path: Path) -> None:
    write_suite(tmp_path, CASES)
    without = run_pytest(tmp_path)
    ended = run_pytest(tmp_path, "--eval-agent", f"it={AGENT}", "--eval-trials", "2", "--eval-runs", "kept")

    assert "collected 0 items" in without.stdout
    assert "1 failed, 1 passed, 1 xfailed" in ended.stdout, ended.stdout
    assert "PASSED suite.toml::good[it]" in ended.stdout
    assert "0 of 2 trials passed" in ended.stdout
    assert "trial 2 failed: text 1: the output is not 'yes'" in ended.stdout
    assert len(list((tmp_path / "kept").glob("*/run.json"))) == 3


def test_mistakes_of_a_suite_are_errors_of_the_collection(tmp_path: Path) -> None:
    write_suite(tmp_path, CASES.replace("equals", "equal"))
    ended = run_pytest(tmp_path, "--eval-agent", "builtin")

    assert "unknown field 'equal'; did you mean 'equals'?" in ended.stdout
