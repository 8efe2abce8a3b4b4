"""Graders: assertions, programs and predicates, each of which passes, fails, or says why it could not decide."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duologue.evals.graders.function_host import as_output
from duologue.evals.graders.grading import grade_record, grade_trial
from duologue.evals.graders.interface import GraderInput, summarize
from duologue.evals.record.result import Grade, GraderOutput, Grades
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trajectory import TrajectoryStep
from duologue.evals.suite.case import Case
from duologue.transports.process.process_tree import identify
from tests.evals.samples import run_manifest, small_suite, trial_result
from tests.evals.test_harbor_tasks import harbor_task


def case_of(folder: Path, *graders: dict[str, Any], **fields: Any) -> Case:
    """Return a case with these graders."""
    return msgspec.convert(
        {"id": "a", "prompts": ["p"], "graders": list(graders), "directory": str(folder), **fields}, Case
    )


async def grade(folder: Path, grader: dict[str, Any], **trial: Any) -> Grade:
    """Return the grade of a trial by one grader."""
    case = case_of(folder, grader)
    async with asyncio.timeout(60):
        grades = await grade_trial(GraderInput(id="a", input="p", **trial), case)
    assert len(grades.grades) == 1
    return grades.grades[0]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "notes.txt").write_text("first line\nsecond line\n")
    (folder / "data.json").write_text(
        json.dumps({"items": [{"name": "x", "size": 3}], "a/b": True, "empty": None, "flags": [True, {"on": False}]})
    )
    (folder / "out").symlink_to("/etc")
    return folder


# --- assertions


@pytest.mark.parametrize(
    ("grader", "passed"),
    [
        ({"equals": "Hello, world!"}, True),
        ({"equals": "Hello"}, False),
        ({"contains": ["Hello", "world"]}, True),
        ({"contains": ["Hello", "moon"]}, False),
        ({"lacks": ["moon"]}, True),
        ({"lacks": ["world"]}, False),
        ({"matches": "(?i)^hello"}, True),
        ({"matches": "^world"}, False),
        ({"of": "patch", "contains": ["+++ b/x"]}, True),
        ({"of": "last_message", "equals": "Done."}, True),
    ],
)
async def test_texts_of_a_trial(tmp_path: Path, grader: dict[str, Any], passed: bool) -> None:
    steps = [TrajectoryStep(type="message", number=1, t=0, text=text) for text in ("Hello", "Done.")]
    found = await grade(
        tmp_path, {"type": "text", **grader}, output="Hello, world!\n", patch="+++ b/x", trajectory=steps
    )

    assert (found.passed, found.score, found.error) == (passed, float(passed), "")
    assert bool(found.reasoning) != passed


@pytest.mark.parametrize(
    ("grader", "passed"),
    [
        ({"path": "notes.txt"}, True),
        ({"path": "missing.txt"}, False),
        ({"path": "missing.txt", "exists": False}, True),
        ({"path": "notes.txt", "exists": False}, False),
        ({"path": "notes.txt", "matches": "^second"}, True),
        ({"path": "notes.txt", "equals": "first line\nsecond line"}, True),
        ({"path": "notes.txt", "lacks": ["first"]}, False),
        ({"path": "."}, True),
        ({"path": ".", "contains": ["x"]}, False),
        ({"path": "out/passwd", "contains": ["root"]}, False),
    ],
)
async def test_files_of_the_workspace(workspace: Path, grader: dict[str, Any], passed: bool) -> None:
    found = await grade(workspace, {"type": "file", **grader}, cwd=str(workspace))

    assert (found.passed, found.error) == (passed, "")


@pytest.mark.parametrize("kind", ["file", "json"])
async def test_a_link_that_leads_to_itself_is_a_file_that_does_not_exist(workspace: Path, kind: str) -> None:
    (workspace / "loop").symlink_to("loop")
    found = await grade(workspace, {"type": kind, "path": "loop"}, cwd=str(workspace))
    below = await grade(workspace, {"type": kind, "path": "loop/x"}, cwd=str(workspace))

    assert (found.passed, found.reasoning, found.error) == (False, "loop does not exist", "")
    assert (below.passed, below.error) == (False, "")


@pytest.mark.parametrize(
    ("grader", "passed"),
    [
        ({"pointer": "/items/0/name", "equals": "x"}, True),
        ({"pointer": "/items/0/size", "equals": 3, "at_least": 3, "at_most": 3}, True),
        ({"pointer": "/items/0/size", "at_least": 4}, False),
        ({"pointer": "/items/0/size", "at_most": 2}, False),
        ({"pointer": "/items/0/name", "at_most": 2}, False),
        ({"pointer": "/items/1"}, False),
        ({"pointer": "/items/-1"}, False),
        ({"pointer": "/a~1b", "equals": True}, True),
        ({"pointer": "/a~1b", "equals": 1}, False),
        ({"pointer": "/empty", "equals": None}, True),
        ({"pointer": "/flags", "equals": [True, {"on": False}]}, True),
        ({"pointer": "/flags", "equals": [1, {"on": False}]}, False),
        ({"pointer": "/flags", "equals": [True, {"on": 0}]}, False),
        ({"pointer": "/flags", "equals": [True]}, False),
        ({"pointer": "/items/0/name", "matches": "^x$"}, True),
        ({"pointer": "/items/0/size", "matches": "3"}, False),
        ({"pointer": ""}, True),
    ],
)
async def test_values_in_json(workspace: Path, grader: dict[str, Any], passed: bool) -> None:
    found = await grade(workspace, {"type": "json", "path": "data.json", **grader}, cwd=str(workspace))

    assert (found.passed, found.error) == (passed, "")


@pytest.mark.parametrize(
    ("output", "passed"),
    [('{"ok": 1}', True), ('Here:\n```json\n{"ok": 1}\n```\nDone.', True), ("ok", False), ('{"ok": 2}', False)],
)
async def test_json_in_a_message(tmp_path: Path, output: str, passed: bool) -> None:
    assert (await grade(tmp_path, {"type": "json", "pointer": "/ok", "equals": 1}, output=output)).passed == passed


@pytest.mark.parametrize(
    "grader", [{"type": "file", "path": "x"}, {"type": "json", "path": "x"}, {"type": "command", "command": ["true"]}]
)
async def test_a_workspace_that_was_not_saved_cannot_be_graded(tmp_path: Path, grader: dict[str, Any]) -> None:
    found = await grade(tmp_path, grader)

    assert (found.passed, found.score) == (None, None)
    assert "the workspace of the trial was not saved" in found.error


# --- programs


CHECKS = """
import os
from helper import ANSWER
def check(trial):
    print("printed by the grader")
    return {"pass": trial.output == ANSWER, "score": 0.5, "reasoning": trial.hint, "outcome": {"cwd": os.getcwd()}}
def yes(trial): return True
def score(trial): return 0.25
def wrong(trial): return "yes"
def broken(trial): raise ZeroDivisionError("no answer")
def endless(trial):
    while True: pass
"""


@pytest.mark.parametrize(
    ("name", "passed", "score", "error"),
    [
        ("check", True, 0.5, ""),
        ("yes", True, 1.0, ""),
        ("score", False, 0.25, ""),
        ("wrong", None, None, "a grader returns True or False, a score, or a grade, not str"),
        ("broken", None, None, "ZeroDivisionError: no answer"),
        ("missing", None, None, "has no attribute 'missing'"),
        ("endless", None, None, "it took longer than 1 s"),
    ],
)
async def test_a_python_function_grades_a_trial(
    tmp_path: Path, name: str, passed: bool | None, score: float | None, error: str
) -> None:
    (tmp_path / "checks.py").write_text(CHECKS)
    (tmp_path / "helper.py").write_text("ANSWER = '42'")
    timeout = {"timeout": 1} if name == "endless" else {}
    found = await grade(tmp_path, {"type": "function", "function": f"checks.py:{name}", **timeout}, output="42")

    assert (found.passed, found.score) == (passed, score)
    assert error in found.error
    assert bool(found.error) == bool(error)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, (True, 1.0)),
        (False, (False, 0.0)),
        (1, (True, 1.0)),
        (0.5, (False, 0.5)),
        ({"pass": True}, (True, None)),
        (GraderOutput(passed=False), (False, None)),
    ],
)
def test_a_function_returns_a_grade_in_several_forms(value: object, expected: tuple[bool, float | None]) -> None:
    output = as_output(value)

    assert (output.passed, output.score) == expected


@pytest.mark.parametrize("value", [1.5, -1, {"score": 1}, {"pass": True, "score": 2}])
def test_a_function_that_returns_no_grade_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"a score is from 0 to 1|a grade has the fields"):
        as_output(value)


PROGRAM = """
import json, os, sys
trial = json.load(sys.stdin)
sys.stderr.write("some notes")
print(json.dumps({"pass": trial["output"] == "42" and len(trial["trajectory"]) == 1, "reasoning": trial["hint"],
                  "outcome": {"names": sorted(set(os.environ) & {"SECRET_OF_TEST", "OTHER_OF_TEST"})}}))
"""


async def test_an_executable_reads_and_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "s")
    monkeypatch.setenv("OTHER_OF_TEST", "o")
    (tmp_path / "grader.py").write_text(PROGRAM)
    step = TrajectoryStep(type="message", number=1, t=0, text="x")
    spec = {"type": "executable", "command": [sys.executable, "grader.py"], "env": ["OTHER_OF_TEST", "UNSET_OF_TEST"]}
    found = await grade(tmp_path, spec, output="42", trajectory=[step], hint="h")

    assert (found.passed, found.score, found.reasoning) == (True, 1.0, "h")
    assert found.outcome == {"names": ["OTHER_OF_TEST"]}


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo nothing; exit 3", "it ended with exit code 3"),
        ("echo broken >&2; exit 1", "broken"),
        ("echo yes", "it printed no grade"),
        ('echo \'{"pass": "yes"}\'', "it printed no grade"),
        ('echo \'{"pass": true, "score": 7}\'', "it printed no grade"),
        ("kill -9 $$", "it was killed by SIGKILL"),
        ("cat > /dev/null; while :; do :; done", "it took longer than 1 s"),
    ],
)
async def test_an_executable_that_fails_could_not_decide(tmp_path: Path, script: str, error: str) -> None:
    spec = {"type": "executable", "command": ["/bin/sh", "-c", script], "timeout": 1 if "while" in script else 60}
    found = await grade(tmp_path, spec)

    assert found.passed is None
    assert error in found.error


async def test_a_program_that_does_not_exist_could_not_decide(tmp_path: Path, workspace: Path) -> None:
    found = await grade(tmp_path, {"type": "executable", "command": ["./missing"]})
    command = await grade(tmp_path, {"type": "command", "command": ["./missing"]}, cwd=str(workspace))

    assert "exit code 12" in found.error
    assert "missing" in command.error
    assert (found.passed, command.passed) == (None, None)


@pytest.mark.parametrize(
    ("script", "passed"),
    [
        ("grep -q second notes.txt", True),
        ("grep -q third notes.txt", False),
        ("exit 5", False),
        ("exit 126", False),
        ("no-such-program-of-the-agent", False),
    ],
)
async def test_a_test_command_passes_by_its_exit_code(workspace: Path, script: str, passed: bool) -> None:
    found = await grade(workspace, {"type": "command", "command": ["sh", "-c", script]}, cwd=str(workspace))

    assert (found.passed, found.score, found.error) == (passed, float(passed), "")


async def test_a_test_command_works_in_a_copy_with_hidden_tests(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "test.sh").write_text("echo changed > notes.txt; test -f $1/test.sh; ls; pwd")
    spec = {"type": "command", "command": ["sh", "{tests}/test.sh", "{tests}"], "tests": "hidden"}
    found = await grade(tmp_path, spec, cwd=str(workspace))

    assert found.passed
    assert (workspace / "notes.txt").read_text().startswith("first")
    assert found.reasoning.splitlines()[-1].endswith("/workspace")
    assert found.reasoning.splitlines()[-1] != str(workspace)


@pytest.mark.parametrize(
    ("reward", "name", "passed", "score"),
    [
        ("1", "reward.txt", True, 1.0),
        ("0.5\n", "reward.txt", False, 0.5),
        ('{"reward": 1, "style": 0.1}', "reward.json", True, 1.0),
        ('{"a": 1, "b": 0.5}', "rewards.json", False, 0.75),
    ],
)
async def test_a_reward_file_has_the_score(
    tmp_path: Path, workspace: Path, reward: str, name: str, passed: bool, score: float
) -> None:
    script = f"printf '%s' '{reward}' > $0/verifier/{name}; exit 1"
    files = [f"verifier/{each}" for each in ("reward.txt", "reward.json", "rewards.json")]
    spec = {"type": "command", "command": ["sh", "-c", script, "{logs}"], "reward_files": files}
    found = await grade(tmp_path, spec, cwd=str(workspace))

    assert (found.passed, found.score, found.error) == (passed, score, "")


@pytest.mark.parametrize(
    ("reward", "error"),
    [("2", "the reward 2"), *((text, "has no reward") for text in ("", "x", "true", "{}", '{"a": "b"}', "NaN"))],
)
async def test_a_reward_that_is_no_number_from_0_to_1_could_not_decide(
    tmp_path: Path, workspace: Path, reward: str, error: str
) -> None:
    spec = {
        "type": "command",
        "command": ["sh", "-c", f"printf '%s' '{reward}' > $0/r", "{logs}"],
        "reward_files": ["r"],
    }
    found = await grade(tmp_path, spec, cwd=str(workspace))

    assert found.passed is None
    assert error in found.error


async def test_a_missing_reward_is_no_failure(tmp_path: Path, workspace: Path) -> None:
    spec = {"type": "command", "command": ["sh", "-c", "echo why"], "reward_files": ["r"]}
    found = await grade(tmp_path, spec, cwd=str(workspace))

    assert (found.passed, found.error) == (None, "it wrote none of r: why")


async def test_everything_that_a_grader_started_is_gone(tmp_path: Path, workspace: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; exit 0"
    await grade(tmp_path, {"type": "command", "command": ["sh", "-c", script]}, cwd=str(workspace))

    assert identify(int((tmp_path / "pid").read_text())) is None


async def test_the_tests_of_a_harbor_task_run_without_a_container(tmp_path: Path) -> None:
    from duologue.evals.suite.loader import load_suite

    task = harbor_task(tmp_path / "task")
    (task / "tests" / "test.sh").write_text(
        'if [ "$(cat /app/hello.txt)" = hi ] && [ -f /tests/test.sh ] && [ "$PWD" = /app ]\n'
        'then echo 1 > "/logs/verifier/reward.txt"; else echo 0 > /logs/verifier/reward.txt; fi\n'
    )
    (case,) = load_suite(task).cases
    workspace = tmp_path / "result"
    workspace.mkdir()
    scores: list[float | None] = []
    for text in ("ho", "hi"):
        (workspace / "hello.txt").write_text(text)
        async with asyncio.timeout(60):
            grades = await grade_trial(GraderInput(id="a", input="p", cwd=str(workspace)), case)
        scores.append(grades.score)

    assert scores == [0.0, 1.0]


# --- the grades of a trial


def test_a_trial_passes_if_all_required_graders_pass() -> None:
    def grade_with(passed: bool | None, *, required: bool = True, weight: float = 1.0) -> Grade:
        score = None if passed is None else float(passed)
        return Grade(name="x", type="text", passed=passed, score=score, required=required, weight=weight)

    def result(*grades: Grade) -> tuple[bool | None, float | None]:
        found = summarize(grades)
        return found.passed, found.score

    assert result() == (None, None)
    assert result(grade_with(True), grade_with(True)) == (True, 1.0)
    assert result(grade_with(True), grade_with(False)) == (False, 0.5)
    assert result(grade_with(True, weight=3), grade_with(False, required=False)) == (True, 0.75)
    assert result(grade_with(None), grade_with(True)) == (None, None)
    assert result(grade_with(None), grade_with(False)) == (False, None)
    assert result(grade_with(True), grade_with(None, required=False, weight=0)) == (True, 1.0)
    # Without required graders nothing decides.
    assert result(grade_with(False, required=False)) == (None, 0.0)
    assert result(grade_with(True, required=False)) == (None, 1.0)


async def test_a_record_is_graded_again_without_an_agent(tmp_path: Path) -> None:
    suite = small_suite(tmp_path / "suite")
    run = RunDirectory.create(tmp_path / "run", run_manifest(suite), suite)
    key = next(key for key in run.pending() if key.case == "edit")
    with run.begin(key) as attempt:
        attempt.workspace_directory.mkdir()
        (attempt.workspace_directory / "notes.txt").write_text("one")
        attempt.commit(trial_result(key))
    record = run.record(key)
    assert record is not None
    (case,) = [case for case in run.suite().cases if case.id == "edit"]
    first = await grade_record(record, case)
    record.write_grades(first)
    other = case_of(tmp_path, {"type": "text", "contains": ["nothing like it"]})
    record.write_grades(second := await grade_record(record, other))

    assert (first.passed, second.passed) == (True, False)
    assert first.graders_digest != second.graders_digest
    saved = record.grades()
    assert isinstance(saved, Grades)
    assert saved == second
