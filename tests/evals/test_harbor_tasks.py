"""Task directories of Harbor: read in full where they need no container, and refused with the reason otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.report.reference_check import ReferenceResult, check_references
from duologue.evals.report.run_summary import read_run
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.suite_run import run_suite
from duologue.evals.suite.case import Case
from duologue.evals.suite.grader_specs import CommandGrader
from duologue.evals.suite.loader import load_suite
from tests.evals.test_suites import problems

EXAMPLES = Path(__file__).parents[2] / "examples" / "harbor_tasks"

HARBOR = """
schema_version = "1.4"
[task]
name = "org/hello"
keywords = ["trivial"]
[metadata]
difficulty = "easy"
[verifier]
timeout_sec = 120.0
[agent]
timeout_sec = 300.0
[environment]
cpus = 2
memory_mb = 2048
"""

STEPS = """
schema_version = "1.4"
multi_step_reward_strategy = "final"
[agent]
timeout_sec = 100.0
[[steps]]
name = "begin"
[[steps]]
name = "end"
agent = { timeout_sec = 50.0 }
verifier = { timeout_sec = 30.0, env = { WORD = "done" } }
"""


def harbor_task(folder: Path, toml: str = HARBOR, dockerfile: str = "FROM ubuntu:24.04\nWORKDIR /app\n") -> Path:
    """Make a task directory of Harbor."""
    for name in ("environment/data", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text(toml)
    (folder / "instruction.md").write_text("Write hello.txt.")
    (folder / "environment" / "Dockerfile").write_text(dockerfile)
    (folder / "environment" / "data.csv").write_text("1,2")
    (folder / "environment" / "data" / "run.sh").write_text("true")
    (folder / "tests" / "test.sh").write_text(
        'if [ "$(cat /app/hello.txt)" = "${WORD:-hello}" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
    )
    (folder / "solution" / "solve.sh").write_text("cp /solution/answer.txt /app/hello.txt\n")
    (folder / "solution" / "answer.txt").write_text("hello\n")
    return folder


def steps_task(folder: Path, toml: str = STEPS) -> Path:
    """Make a task directory with two steps; the tests are those of the last one."""
    harbor_task(folder, toml)
    for name in ("begin", "end"):
        (folder / "steps" / name).mkdir(parents=True)
        (folder / "steps" / name / "instruction.md").write_text(f"Now {name}.")
    (folder / "instruction.md").unlink()
    (folder / "steps" / "begin" / "workdir").mkdir()
    (folder / "steps" / "begin" / "workdir" / "notes.txt").write_text("a note")
    return folder


def case_of(folder: Path) -> Case:
    """Return the only case of a suite."""
    (case,) = load_suite(folder).cases
    return case


def grader_of(case: Case) -> CommandGrader:
    """Return the only grader of a case."""
    (grader,) = case.graders
    assert isinstance(grader, CommandGrader)
    return grader


async def references(path: Path) -> list[ReferenceResult]:
    """Return the results of checking the solutions of a suite."""
    return [result async for result in check_references(load_suite(path).cases)]


def test_a_task_without_a_container_is_a_case(tmp_path: Path) -> None:
    harbor_task(tmp_path / "hello", dockerfile="FROM ubuntu\nWORKDIR /app\nCOPY data.csv \\\n  in/\n# done\n")
    harbor_task(tmp_path / "again")
    again, hello = load_suite(tmp_path).cases

    assert (again.id, hello.id, hello.turns[0].text) == ("again", "hello", "Write hello.txt.")
    assert (hello.timeouts.turn, hello.timeouts.grade, hello.tags) == (300, 120, ["trivial"])
    assert [(file.path, file.source) for file in hello.files] == [("in/data.csv", "environment/data.csv")]
    assert hello.metadata["resources"] == {"cpus": 2, "memory_mb": 2048}
    grader = grader_of(hello)
    assert (grader.command, grader.tests) == (["bash", "{tests}/test.sh"], "tests")
    assert grader.paths == {"/logs": "{logs}", "/tests": "{tests}", "/app": "{workspace}"}


@pytest.mark.parametrize(
    ("dockerfile", "files"),
    [
        ("COPY . .", ["data/run.sh", "data.csv"]),
        ("COPY data /app/x", ["x/run.sh"]),
        ("COPY *.csv data/ in/", ["in/data.csv", "in/run.sh"]),
        ('COPY ["data.csv", "a b.csv"]', ["a b.csv"]),
        ("COPY --chown=1000:1000 --chmod=755 data.csv tool", ["tool"]),
        ("ADD /data.csv ./", ["data.csv"]),
        ("COPY data.csv table\nUSER 1000\nVOLUME /x", ["table"]),
    ],
)
def test_files_that_a_dockerfile_copies_are_in_the_workspace(tmp_path: Path, dockerfile: str, files: list[str]) -> None:
    case = case_of(harbor_task(tmp_path / "task", dockerfile=f"FROM ubuntu\nWORKDIR /app\n{dockerfile}\n"))

    assert [file.path for file in case.files] == files
    assert [file.executable for file in case.files] == ["--chmod" in dockerfile] * len(files)


def test_variables_reach_the_agent_or_the_tests_and_secrets_stay_names(tmp_path: Path) -> None:
    toml = HARBOR.replace("[environment]", "[environment]\nworkdir = '/srv'") + (
        '[environment.env]\nMODE = "fast"\nAPI_KEY = "${API_KEY}"\nLEVEL = "${LEVEL:-3}"\n'
        '[verifier.env]\nWORD = "hi"\nJUDGE_KEY = "${JUDGE_KEY}"\n[solution.env]\nSPEED = "1"\n'
    )
    case = case_of(harbor_task(tmp_path / "task", toml, "FROM ubuntu\nENV A=1 B='two words'\nENV C three four\n"))
    grader, solution = grader_of(case), case.solution_command

    assert case.variables == {"A": "1", "B": "two words", "C": "three four", "MODE": "fast", "LEVEL": "3"}
    assert case.env == ["API_KEY"]
    assert (grader.variables, grader.env) == ({"WORD": "hi"}, ["JUDGE_KEY"])
    assert grader.paths["/srv"] == "{workspace}"
    assert solution is not None
    assert solution.variables == {"SPEED": "1"}


def test_steps_whose_last_reward_counts_are_prompts_of_one_session(tmp_path: Path) -> None:
    case = case_of(steps_task(tmp_path / "task"))

    assert [turn.text for turn in case.turns] == ["Now begin.", "Now end."]
    assert [(file.path, file.source) for file in case.files] == [("notes.txt", "steps/begin/workdir/notes.txt")]
    assert (case.timeouts.turn, case.timeouts.trial, case.timeouts.grade) == (100, 150, 30)
    assert (grader_of(case).tests, grader_of(case).variables) == ("tests", {"WORD": "done"})


@pytest.mark.parametrize(
    ("toml", "dockerfile", "problem"),
    [
        (HARBOR, "FROM ubuntu\nRUN apt-get install -y gcc\n", "Dockerfile: 'RUN apt-get install -y gcc' needs"),
        (HARBOR, "FROM ubuntu\nCOPY data.csv /etc/\n", "COPY to '/etc/', outside of /app, needs a container"),
        (HARBOR, "FROM ubuntu\nCOPY data.csv ../../etc/\n", "outside of /app, needs a container"),
        (HARBOR, "FROM ubuntu\nCOPY ../task.toml .\n", "leads out of the directory"),
        (HARBOR, "FROM ubuntu\nCOPY ../*.toml .\n", "leads out of the directory"),
        (HARBOR, "FROM ubuntu\nCOPY *.nothing .\n", "there is no '*.nothing'"),
        (HARBOR, "FROM a\nFROM b\n", "'FROM b' needs a container"),
        (HARBOR, "FROM a\nCOPY --from=b /x .\n", "'COPY --from=b /x .' needs a container"),
        (HARBOR, "FROM a\nADD https://example.com/x .\n", "needs a container"),
        (HARBOR, "FROM a\nENV PATH=/opt:$PATH\n", "'ENV PATH=/opt:$PATH' needs a container"),
        (HARBOR + 'docker_image = "x"', "FROM x", "environment.docker_image: the task needs a container; run it with"),
        (HARBOR + 'os = "Windows"', "FROM x", "environment.os: the task needs a container"),
        (HARBOR + 'network_mode = "no-network"', "FROM x", "environment.network_mode: the task needs a container"),
        (HARBOR + "allow_internet = false", "FROM x", "environment.allow_internet: the task needs a container"),
        (HARBOR + 'skills_dir = "/skills"', "FROM x", "environment.skills_dir: the task needs a container"),
        (HARBOR + 'env = { A = "${B}" }', "FROM x", "environment.env.A: '${B}' is not a value or ${A}"),
        (HARBOR + "workdir = '/srv'", "FROM x\nCOPY data.csv .", "environment.workdir: '/srv' is not where"),
        (HARBOR.replace("timeout_sec = 120.0", 'environment_mode = "separate"'), "FROM x", "verifier.environment_mode"),
        (HARBOR + '[[verifier.collect]]\ncommand = "x"', "FROM x", "verifier.collect: the task needs a container"),
        (HARBOR.replace("1.4", "2.0"), "FROM x", "schema_version 2.0 is newer than 1.4"),
        (HARBOR.replace("300.0", '"x"'), "FROM x", "agent.timeout_sec: Expected `float | null`, got `str`"),
        (HARBOR + '[[steps]]\nname = "../x"', "FROM x", "steps[0].name"),
    ],
)
def test_a_task_that_needs_more_is_refused_with_the_reason(
    tmp_path: Path, toml: str, dockerfile: str, problem: str
) -> None:
    (found,) = problems(harbor_task(tmp_path / "task", toml, dockerfile))

    assert "case 'task': " in found
    assert problem in found


@pytest.mark.parametrize(
    ("toml", "file", "problem"),
    [
        (STEPS.replace('"final"', '"mean"'), "", "multi_step_reward_strategy: something happens between the steps"),
        (STEPS + "min_reward = 0.5", "", "steps.end.min_reward: something happens between the steps"),
        (STEPS, "steps/end/workdir/x", "steps/end/workdir: something happens between the steps"),
        (STEPS, "steps/begin/workdir/setup.sh", "steps/begin/workdir/setup.sh: something happens"),
        (STEPS, "steps/end/tests/test.sh", "both tests/ and steps/end/tests/ exist"),
        (STEPS, "trajectory.json", "trajectory.json: the task needs a container"),
        (STEPS, "environment/compose.yaml", "environment/compose.yaml: the task needs a container"),
        (STEPS, "environment/.dockerignore", "environment/.dockerignore: the task needs a container"),
    ],
)
def test_a_file_that_only_harbor_uses_is_a_reason_as_well(tmp_path: Path, toml: str, file: str, problem: str) -> None:
    folder = steps_task(tmp_path / "task", toml)
    if file:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("true")
    (found,) = problems(folder)

    assert problem in found


async def test_a_solution_passes_the_tests_and_nothing_else_does(tmp_path: Path) -> None:
    harbor_task(tmp_path / "good")
    (harbor_task(tmp_path / "wrong") / "solution" / "answer.txt").write_text("goodbye")
    (harbor_task(tmp_path / "broken") / "solution" / "solve.sh").write_text("echo no; exit 3")
    (harbor_task(tmp_path / "idle") / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt")
    found = {result.id: result for result in await references(tmp_path)}

    assert {name: (result.is_valid, result.passed) for name, result in found.items()} == {
        "good": (True, True), "wrong": (False, False), "broken": (False, None), "idle": (False, True)
    }  # fmt: skip
    assert found["broken"].reasoning == "the solution ended with exit code 3: no"
    assert "also pass the workspace without the solution" in found["idle"].reasoning


async def test_the_tasks_of_the_examples_are_solved_by_their_solutions() -> None:
    found = await references(EXAMPLES)

    assert [(result.id, result.is_valid) for result in found] == [("count-words", True)]


AGENT = """
import os, pathlib
from duologue import Agent, Turn

agent = Agent("one")

@agent.on_prompt
async def answer(turn: Turn) -> None:
    if "end" in turn.text:
        pathlib.Path(turn.session.cwd, "hello.txt").write_text(os.environ["WORD_OF_AGENT"])
        assert os.environ["HOME"] != "/nowhere"

agent.run()
"""


async def test_an_agent_gets_the_variables_and_solves_both_steps(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    toml = f'{STEPS}[environment.env]\nWORD_OF_AGENT = "done"\nHOME = "/nowhere"\n'
    steps_task(tmp_path / "suite" / "steps", toml)
    harbor_task(tmp_path / "suite" / "other")
    options = TrialOptions(sandbox="none")
    agents = [f"one={sys.executable} {script}"]
    end = await run_suite(tmp_path / "suite", agents, tmp_path / "run", options=options)
    (found,) = read_run(end.directory).agents

    assert {case.case: case.passed for case in found.cases} == {"steps": 1, "other": 0}
    for record in RunDirectory.open(end.directory).records():
        assert record.result().outcome.kind == "completed"
