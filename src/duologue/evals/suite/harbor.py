"""Read task directories of Harbor as far as they need no container.

    task.toml  instruction.md  environment/Dockerfile  tests/test.sh  solution/solve.sh

The instruction becomes the prompt, `tests/test.sh` the grader, and the files that the Dockerfile copies the workspace.
A task whose environment needs more than copied files is refused with the reason: it is for Harbor itself.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from msgspec import Meta, Struct

from duologue.evals.record.key import directory_name
from duologue.evals.suite.case import Case, WorkspaceFile
from duologue.evals.suite.conversion import FieldError, convert
from duologue.evals.suite.grader_specs import CommandGrader
from duologue.evals.suite.limits import Timeouts
from duologue.evals.suite.source_files import files_below, inside, read_text

NEWEST = (1, 4)
"""Newest version of the format that is known."""

WORKDIR = "/app"
"""Directory of the agent if the Dockerfile names none."""

_NO_EFFECT = ("FROM", "LABEL", "MAINTAINER", "CMD", "ENTRYPOINT", "EXPOSE", "STOPSIGNAL")
"""Instructions of a Dockerfile that a local directory can do without."""
_CONTAINER_FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")

PositiveSeconds = Annotated[float, Meta(gt=0)]


class _TimedPart(Struct, frozen=True):
    timeout_sec: PositiveSeconds | None = None
    user: str | int | None = None


class _Environment(Struct, frozen=True):
    docker_image: str | None = None
    mcp_servers: list[Any] = []
    healthcheck: dict[str, Any] | None = None
    gpus: int = 0
    env: dict[str, str] = {}


class _Name(Struct, frozen=True):
    name: str = ""
    description: str = ""
    keywords: list[str] = []


class _Task(Struct):
    """The part of `task.toml` that is read; the rest is for Harbor."""

    version: str | None = None
    schema_version: str | None = None
    task: _Name = _Name()
    metadata: dict[str, Any] = {}
    agent: _TimedPart = _TimedPart()
    verifier: _TimedPart = _TimedPart()
    environment: _Environment = _Environment()
    steps: list[Any] = []


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
    workdir, files = _read_dockerfile(root)
    tests = inside(root, "tests/test.sh", "tests")
    turn, grade = task.agent.timeout_sec or Timeouts().turn, task.verifier.timeout_sec or Timeouts().grade
    tags = [*task.task.keywords, *(tag for tag in task.metadata.get("tags", ()) if isinstance(tag, str))]
    return Case(
        id=directory_name(directory.name),
        prompts=[read_text(inside(root, "instruction.md", "instruction"))],
        description=task.task.description,
        files=files,
        graders=[
            CommandGrader(
                name="tests",
                command=["bash", f"{{tests}}/{tests.name}"],
                tests="tests",
                reward_files=["verifier/reward.txt", "verifier/reward.json", "verifier/rewards.json"],
                paths={"/logs": "{logs}", "/tests": "{tests}", workdir: "{workspace}"},
            )
        ],
        tags=list(dict.fromkeys(tags)),
        metadata={**task.metadata, **({"name": task.task.name} if task.task.name else {})},
        timeouts=Timeouts(turn=turn, trial=turn, grade=grade),
        directory=str(root),
    )


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
    needs = {
        "environment.docker_image": environment.docker_image,
        "environment.mcp_servers": environment.mcp_servers,
        "environment.healthcheck": environment.healthcheck,
        "environment.gpus": environment.gpus,
        "environment.env": environment.env,
        "steps": task.steps,
        **{f"environment/{name}": (directory / "environment" / name).exists() for name in _CONTAINER_FILES},
    }
    for name, value in needs.items():
        if value:
            raise FieldError(f"{name}: the task needs a container; run it with Harbor")


def _read_dockerfile(root: Path) -> tuple[str, list[WorkspaceFile]]:
    """Return the working directory of a Dockerfile, and the files that it copies there.

    Raises:
        FieldError: It does more than copy files.
    """
    dockerfile = root / "environment" / "Dockerfile"
    workdir, files = WORKDIR, list[WorkspaceFile]()
    if not dockerfile.exists():
        return workdir, files
    text = re.sub(r"\\\r?\n", " ", read_text(dockerfile))
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        match name.upper():
            case "WORKDIR":
                workdir = str(PurePosixPath(workdir, rest.strip()))
            case "COPY" if "--" not in rest:
                files += _copied(rest, workdir, root)
            case name if name in _NO_EFFECT:
                pass
            case _:
                raise FieldError(f"environment/Dockerfile: {line[:200]!r} needs a container; run the task with Harbor")
    return workdir, files


def _copied(arguments: str, workdir: str, root: Path) -> list[WorkspaceFile]:
    *sources, target = shlex.split(arguments) or [""]
    directory = PurePosixPath(workdir, target)
    if not directory.is_relative_to(workdir):
        raise FieldError(f"environment/Dockerfile: COPY to {target!r}, outside of {workdir}, needs a container")
    base = root / "environment"
    found: list[WorkspaceFile] = []
    for source in sources:
        path = inside(base, source, "environment/Dockerfile: COPY")
        is_folder = path.is_dir()
        for file in files_below(path):
            if file.name == "Dockerfile" and file.parent == base:
                continue
            if is_folder:
                inner = directory / file.relative_to(path).as_posix()
            else:
                inner = directory / file.name if target.endswith(("/", ".")) or len(sources) > 1 else directory
            found.append(
                WorkspaceFile(
                    path=str(inner.relative_to(workdir)),
                    source=file.relative_to(root).as_posix(),
                    executable=bool(file.stat().st_mode & 0o100),
                )
            )
    return found
