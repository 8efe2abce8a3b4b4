"""Graders that run a program: a Python function, an executable with JSON in and out, or a test command.

Each runs in a process of its own with a time limit, and everything it started is gone when it has ended.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from duologue.errors import StartError
from duologue.evals.exceptions import GraderError, RecordError
from duologue.evals.graders.interface import GradingContext
from duologue.evals.record.result import GraderOutput
from duologue.evals.record.versioned_file import read_bounded
from duologue.evals.suite.case import Case
from duologue.evals.suite.grader_specs import CommandGrader, ExecutableGrader, FunctionGrader
from duologue.local.commands import RunningCommand
from duologue.transports.process.command import check_program, reaped
from duologue.transports.process.environment import safe

MAX_OUTPUT_BYTES = 16 << 20
"""Size of the largest output of a grader."""
MAX_REWARD_BYTES = 1 << 20
SHOWN_CHARACTERS = 2000
"""End of the output of a test command that becomes its reasoning."""

_REDIRECTED = 'in=$1 out=$2; shift 2; exec "$@" <"$in" >"$out"'


async def grade_function(spec: FunctionGrader, context: GradingContext) -> GraderOutput:
    """Grade with a Python function.

    Raises:
        GraderError: It failed, took too long, or returned no grade.
    """
    host = [sys.executable, "-m", "duologue.evals.graders.function_host", spec.function]
    timeout = spec.timeout or context.case.timeouts.grade
    return await _run_with_json(host, context, timeout=timeout, env=_chosen(os.environ))


async def grade_executable(spec: ExecutableGrader, context: GradingContext) -> GraderOutput:
    """Grade with a program that reads a trial as JSON and prints a grade as JSON.

    Raises:
        GraderError: It failed, took too long, or printed no grade.
    """
    timeout = spec.timeout or context.case.timeouts.grade
    return await _run_with_json(spec.command, context, timeout=timeout, env=_chosen(spec.env))


async def grade_command(spec: CommandGrader, context: GradingContext) -> GraderOutput:
    """Grade with a test command in a copy of the workspace.

    Raises:
        GraderError: It could not be started, took too long, was killed, or wrote no reward where one is expected.
    """
    if context.workspace is None:
        raise GraderError("the workspace of the trial was not saved, so that no command can be run in it")
    directories = await asyncio.to_thread(_prepare, spec, context)
    command = [_filled(word, directories) for word in spec.command]
    code, output = await _run(
        command,
        cwd=directories["workspace"],
        timeout=spec.timeout or context.case.timeouts.grade,
        env={**context.case.variables, **spec.variables, **_chosen(spec.env)},
    )
    shown = output.strip()[-SHOWN_CHARACTERS:]
    if spec.reward_files:
        reward = _reward(spec, directories["logs"], shown)
        return GraderOutput(passed=reward >= spec.pass_at, score=reward, reasoning=shown)
    return GraderOutput(passed=code == 0, score=1.0 if code == 0 else 0.0, reasoning=shown, outcome={"exit_code": code})


async def run_solution(case: Case, workspace: Path, scratch: Path) -> None:
    """Run the command that solves a case, in a workspace; its files are in another directory.

    Raises:
        GraderError: It could not be started, took too long, was killed, or failed.
    """
    spec = case.solution_command
    assert spec is not None, "checked by the caller"
    directories = {"workspace": workspace, "solution": scratch / "solution"}
    for name in ("tests", "logs"):
        directories[name] = scratch / name
        directories[name].mkdir()
    await asyncio.to_thread(_copy_files, Path(case.directory) / spec.files, "solution", spec.paths, directories)
    code, output = await _run(
        [_filled(word, directories) for word in spec.command],
        cwd=workspace,
        timeout=spec.timeout or case.timeouts.turn,
        env={**case.variables, **spec.variables, **_chosen(spec.env)},
    )
    if code != 0:
        raise GraderError(f"the solution ended with exit code {code}: {output.strip()[-SHOWN_CHARACTERS:]}")


def read_output(content: bytes) -> GraderOutput:
    """Return the grade that a program printed; one without a score has 1 or 0.

    Raises:
        GraderError: It printed something else.
    """
    try:
        output = msgspec.json.decode(content, type=GraderOutput)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        shown = content[:200].decode("utf-8", "replace")
        raise GraderError(f'it printed no grade such as {{"pass": true, "score": 1}} ({error}): {shown!r}') from None
    if output.score is None:
        return msgspec.structs.replace(output, score=1.0 if output.passed else 0.0)
    return output


async def _run_with_json(
    command: Sequence[str], context: GradingContext, *, timeout: float, env: Mapping[str, str]
) -> GraderOutput:
    return read_output(await run_host(command, msgspec.json.encode(context.trial), context, timeout=timeout, env=env))


async def run_host(
    command: Sequence[str], content: bytes, context: GradingContext, *, timeout: float, env: Mapping[str, str]
) -> bytes:
    """Run a program in the directory of the suite, with this content on stdin; return what it writes to stdout.

    Raises:
        GraderError: It failed, took too long, or wrote too much.
    """
    source, target = context.scratch / "input.json", context.scratch / "output.json"
    source.write_bytes(content)
    shell = ["/bin/sh", "-c", _REDIRECTED, "sh", str(source), str(target), *command]
    code, errors = await _run(shell, cwd=context.suite_directory, timeout=timeout, env=env)
    if code != 0:
        raise GraderError(f"it ended with exit code {code}: {errors.strip()[-SHOWN_CHARACTERS:]}")
    try:
        return read_bounded(target, MAX_OUTPUT_BYTES)
    except RecordError as error:
        raise GraderError(str(error)) from None


async def _run(command: Sequence[str], *, cwd: Path, timeout: float, env: Mapping[str, str]) -> tuple[int, str]:
    """Run a command; return its exit code and what it printed.

    Raises:
        GraderError: It could not be started, took too long, or was killed.
    """
    try:
        check_program(command, safe(env), cwd)
        async with await RunningCommand.start([*reaped(), *command], cwd=cwd, env=env) as running:
            try:
                async with asyncio.timeout(timeout):
                    ended = await running.wait()
            except TimeoutError:
                raise GraderError(f"it took longer than {timeout:g} s") from None
            output, _ = running.output()
    except StartError as error:
        raise GraderError(str(error)) from None
    if ended.exit_code is None:
        raise GraderError(f"it was killed by {ended.signal}: {output.strip()[-SHOWN_CHARACTERS:]}")
    return ended.exit_code, output


def _prepare(spec: CommandGrader, context: GradingContext) -> dict[str, Path]:
    """Make the directories of a test command: a copy of the workspace, the tests, and an empty one for logs."""
    directories = {name: context.scratch / name for name in ("workspace", "tests", "logs")}
    assert context.workspace is not None, "checked by the caller"
    shutil.copytree(context.workspace, directories["workspace"], symlinks=True, dirs_exist_ok=True)
    directories["tests"].mkdir(exist_ok=True)
    for name in spec.reward_files:
        (directories["logs"] / name).parent.mkdir(parents=True, exist_ok=True)
    directories["logs"].mkdir(exist_ok=True)
    if spec.tests is not None:
        _copy_files(context.suite_directory / spec.tests, "tests", spec.paths, directories)
    return directories


def _copy_files(source: Path, name: str, paths: Mapping[str, str], directories: Mapping[str, Path]) -> None:
    """Copy files of a suite to one of the directories, with absolute paths replaced."""
    shutil.copytree(source, directories[name], symlinks=True, dirs_exist_ok=True)
    replaced = {path: _filled(word, directories) for path, word in paths.items()}
    if replaced:
        _replace_paths(directories[name], replaced)


def _replace_paths(folder: Path, replaced: Mapping[str, str]) -> None:
    """Replace absolute paths in the text files below a directory."""
    names = "|".join(re.escape(path.rstrip("/")) for path in sorted(replaced, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w./~-])(?:{names})(?![\w.-])")
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_OUTPUT_BYTES:
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        changed = pattern.sub(lambda found: replaced.get(found[0], found[0]), text)
        if changed != text:
            path.write_bytes(changed.encode())


def _filled(word: str, directories: Mapping[str, Path]) -> str:
    for name, path in directories.items():
        word = word.replace(f"{{{name}}}", str(path))
    return word


def _reward(spec: CommandGrader, logs: Path, shown: str) -> float:
    """Return the reward that a test command wrote.

    Raises:
        GraderError: It wrote none, or something else than a number from 0 to 1.
    """
    path = next((logs / name for name in spec.reward_files if (logs / name).is_file()), None)
    if path is None:
        raise GraderError(f"it wrote none of {', '.join(spec.reward_files)}: {shown}")
    try:
        value: object = msgspec.json.decode(read_bounded(path, MAX_REWARD_BYTES))
    except (RecordError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise GraderError(f"{path.name} has no reward: {error}") from None
    if isinstance(value, dict):
        rewards = cast("dict[str, object]", value)
        # A file with several has the one that counts under this name; otherwise all count alike.
        numbers = [rewards["reward"]] if "reward" in rewards else list(rewards.values())
    else:
        numbers = [value]
    found = [float(each) for each in numbers if isinstance(each, int | float) and not isinstance(each, bool)]
    if not found or len(found) != len(numbers):
        raise GraderError(f"{path.name} has no reward: expected a number, or an object of numbers")
    reward = sum(found) / len(found)
    if not math.isfinite(reward) or not 0 <= reward <= 1:
        raise GraderError(f"{path.name} has the reward {reward:g}; expected one from 0 to 1")
    return reward


def _chosen(names: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
