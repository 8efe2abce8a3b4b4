"""Read task directories of Harbor as far as they need no container.

    task.toml  instruction.md  environment/Dockerfile  tests/test.sh  solution/solve.sh  steps/NAME/

The instruction becomes the prompt, `tests/test.sh` the grader, `solution/solve.sh` the solution, and the files that the
Dockerfile copies the workspace. A task whose environment needs more than that is refused with the reason: it is for
Harbor itself.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from duologue.evals.record.key import directory_name
from duologue.evals.suite.case import Case, PromptTurn, SolutionCommand, WorkspaceFile
from duologue.evals.suite.conversion import FieldError, convert
from duologue.evals.suite.dockerfile import read_dockerfile
from duologue.evals.suite.grader_specs import CommandGrader
from duologue.evals.suite.limits import Timeouts
from duologue.evals.suite.source_files import files_below, inside, read_text

NEWEST = (1, 4)
"""Newest version of the format that is known."""

REWARD_FILES = ["verifier/reward.txt", "verifier/reward.json", "verifier/rewards.json"]
"""Files below `/logs` that tests write."""

_CONTAINER_FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")

_TEMPLATE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^{}]*))?\}")
"""A variable of the caller's environment, with the value if there is none."""

PositiveSeconds = Annotated[float, Meta(gt=0)]


class _Environment(Struct, frozen=True):
    docker_image: str | None = None
    os: str = "linux"
    workdir: str | None = None
    mcp_servers: list[Any] = []
    healthcheck: dict[str, Any] | None = None
    gpus: int | None = None
    tpu: dict[str, Any] | None = None
    skills_dir: str | None = None
    env: dict[str, str] = {}
    network_mode: str | None = None
    allow_internet: bool | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None


class _Agent(Struct, frozen=True):
    timeout_sec: PositiveSeconds | None = None
    network_mode: str | None = None


class _Verifier(Struct, frozen=True):
    timeout_sec: PositiveSeconds | None = None
    env: dict[str, str] = {}
    network_mode: str | None = None
    environment_mode: str | None = None
    environment: dict[str, Any] | None = None
    collect: list[Any] = []


class _Solution(Struct, frozen=True):
    env: dict[str, str] = {}


class _Step(Struct, frozen=True):
    name: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}\Z")]
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    min_reward: Any = None
    healthcheck: dict[str, Any] | None = None


class _Name(Struct, frozen=True):
    name: str = ""
    description: str = ""
    keywords: list[str] = []


class _Task(Struct):
    """The part of `task.toml` that is read; the rest has no effect on a local directory."""

    version: str | None = None
    schema_version: str | None = None
    task: _Name = _Name()
    metadata: dict[str, Any] = {}
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    environment: _Environment = _Environment()
    solution: _Solution = _Solution()
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: list[_Step] = []


def is_harbor_task(directory: Path) -> bool:
    """Return True if a directory is a task of Harbor."""
    return (directory / "task.toml").is_file()


def read_harbor_task(directory: Path) -> Case:
    """Return a task as a case.

    Raises:
        FieldError: A file is missing or does not fit, or the task needs a container.
    """
    try:
        task = convert(tomllib.loads(read_text(directory / "task.toml")), _Task)
    except tomllib.TOMLDecodeError as error:
        raise FieldError(f"task.toml is not TOML: {error}") from None
    _check_version(task.schema_version or task.version or "1.0")
    _check_environment(task, directory)
    root = directory.resolve()
    image = read_dockerfile(root)
    workdir = task.environment.workdir or image.workdir
    if workdir != image.workdir and image.files:
        raise FieldError(
            f"environment.workdir: {workdir!r} is not where the Dockerfile copies files to; run the task with Harbor"
        )
    paths = {"/logs": "{logs}", "/tests": "{tests}", workdir: "{workspace}"}
    variables, names = _variables(task.environment.env, "environment.env")
    tags = [*task.task.keywords, *(tag for tag in task.metadata.get("tags", ()) if isinstance(tag, str))]
    resources = {
        name: value for name in ("cpus", "memory_mb", "storage_mb") if (value := getattr(task.environment, name))
    }
    return Case(
        id=directory_name(directory.name),
        prompts=_prompts(task, root),
        description=task.task.description,
        files=[*image.files, *_staged_files(task, root)],
        graders=[_grader(task, root, paths)],
        solution_command=_solution(task, root, paths),
        variables={**image.variables, **variables},
        env=names,
        tags=list(dict.fromkeys(tags)),
        metadata={
            **task.metadata,
            **({"name": task.task.name} if task.task.name else {}),
            **({"resources": resources} if resources else {}),
        },
        timeouts=_timeouts(task),
        directory=str(root),
    )


# --- the parts of a case


def _prompts(task: _Task, root: Path) -> list[str | PromptTurn]:
    """Return the instructions: one for each step."""
    folders = [f"steps/{step.name}" for step in task.steps] or ["."]
    return [read_text(inside(root, f"{folder}/instruction.md", "instruction")) for folder in folders]


def _staged_files(task: _Task, root: Path) -> list[WorkspaceFile]:
    """Return the files that are put into the workspace before the first step."""
    folder = root / "steps" / task.steps[0].name / "workdir" if task.steps else None
    if folder is None or not folder.is_dir():
        return []
    return [
        WorkspaceFile(
            path=file.relative_to(folder).as_posix(),
            source=file.relative_to(root).as_posix(),
            executable=bool(file.stat().st_mode & 0o100),
        )
        for file in files_below(folder)
    ]


def _grader(task: _Task, root: Path, paths: dict[str, str]) -> CommandGrader:
    """Return the tests; with steps, those of the last one, whose reward is that of the task."""
    folder, env = "tests", task.verifier.env
    if task.steps:
        own = f"steps/{task.steps[-1].name}/tests"
        if (root / own).is_dir():
            if (root / "tests").is_dir():
                raise FieldError(f"tests: both tests/ and {own}/ exist, which only Harbor merges; run the task with it")
            folder = own
        env = {**env, **task.steps[-1].verifier.env}
    variables, names = _variables(env, "verifier.env")
    return CommandGrader(
        name="tests",
        command=["bash", f"{{tests}}/{inside(root, f'{folder}/test.sh', 'tests').name}"],
        tests=folder,
        reward_files=REWARD_FILES,
        paths=paths,
        variables=variables,
        env=names,
    )


def _solution(task: _Task, root: Path, paths: dict[str, str]) -> SolutionCommand | None:
    """Return the script that solves the task; None if there is none, or one for each step."""
    if not (root / "solution" / "solve.sh").is_file():
        return None
    variables, names = _variables(task.solution.env, "solution.env")
    return SolutionCommand(
        command=["bash", "{solution}/solve.sh"],
        files="solution",
        paths={**paths, "/solution": "{solution}"},
        variables=variables,
        env=names,
    )


def _timeouts(task: _Task) -> Timeouts:
    default = Timeouts()
    turns = [step.agent.timeout_sec or task.agent.timeout_sec or default.turn for step in task.steps]
    turns = turns or [task.agent.timeout_sec or default.turn]
    last = task.steps[-1].verifier.timeout_sec if task.steps else None
    return Timeouts(turn=max(turns), trial=sum(turns), grade=last or task.verifier.timeout_sec or default.grade)


def _variables(values: dict[str, str], field: str) -> tuple[dict[str, str], list[str]]:
    """Return variables with their values, and the names of those that come from the caller's environment.

    Raises:
        FieldError: A value is made from another variable.
    """
    variables, names = dict[str, str](), list[str]()
    for name, value in values.items():
        found = _TEMPLATE.fullmatch(value)
        if found is None and "${" not in value:
            variables[name] = value
        elif found is None or found[1] != name:
            raise FieldError(f"{field}.{name}: {value!r} is not a value or ${{{name}}}; run the task with Harbor")
        elif found[2] is None:
            names.append(name)
        else:
            variables[name] = found[2]
    return variables, names


# --- checks


def _check_version(version: str) -> None:
    found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", version)
    if found is None:
        raise FieldError(f"task.toml: schema_version: {version!r} is not a version")
    if (int(found[1]), int(found[2])) > NEWEST:
        raise FieldError(
            f"task.toml: schema_version {version} is newer than {NEWEST[0]}.{NEWEST[1]}, the newest known one"
        )


def _check_environment(task: _Task, directory: Path) -> None:
    """Check that a local directory can replace the container.

    Raises:
        FieldError: It cannot.
    """
    environment = task.environment
    verifiers = {"verifier": task.verifier, **{f"steps.{step.name}.verifier": step.verifier for step in task.steps}}
    agents = {"agent": task.agent, **{f"steps.{step.name}.agent": step.agent for step in task.steps}}
    needs: dict[str, object] = {
        "environment.docker_image": environment.docker_image,
        "environment.os": environment.os.lower() != "linux",
        "environment.mcp_servers": environment.mcp_servers,
        "environment.healthcheck": environment.healthcheck,
        "environment.gpus": environment.gpus,
        "environment.tpu": environment.tpu,
        "environment.skills_dir": environment.skills_dir,
        "environment.allow_internet": environment.allow_internet is False,
        **{f"environment/{name}": (directory / "environment" / name).exists() for name in _CONTAINER_FILES},
        "trajectory.json": (directory / "trajectory.json").exists(),
    }
    networks = {"environment": environment.network_mode}
    networks |= {name: agent.network_mode for name, agent in agents.items()}
    networks |= {name: verifier.network_mode for name, verifier in verifiers.items()}
    for name, mode in networks.items():
        needs[f"{name}.network_mode"] = mode not in (None, "public")
    for name, verifier in verifiers.items():
        needs[f"{name}.environment_mode"] = verifier.environment_mode not in (None, "shared")
        needs[f"{name}.environment"] = verifier.environment is not None
        needs[f"{name}.collect"] = verifier.collect
    for name, value in needs.items():
        if value:
            raise FieldError(f"{name}: the task needs a container; run it with Harbor")
    _check_steps(task, directory)


def _check_steps(task: _Task, directory: Path) -> None:
    """Check that the steps of a task can be the prompts of one session, graded at its end.

    Raises:
        FieldError: They cannot.
    """
    if not task.steps:
        return
    needs = {"multi_step_reward_strategy": task.multi_step_reward_strategy != "final"}
    for number, step in enumerate(task.steps):
        folder = directory / "steps" / step.name
        needs[f"steps.{step.name}.min_reward"] = step.min_reward is not None
        needs[f"steps.{step.name}.healthcheck"] = step.healthcheck is not None
        needs[f"steps/{step.name}/workdir"] = number > 0 and (folder / "workdir").exists()
        needs[f"steps/{step.name}/workdir/setup.sh"] = (folder / "workdir" / "setup.sh").exists()
        needs[f"steps/{step.name}/trajectory.json"] = (folder / "trajectory.json").exists()
    for name, value in needs.items():
        if value:
            raise FieldError(f"{name}: something happens between the steps; run the task with Harbor")
