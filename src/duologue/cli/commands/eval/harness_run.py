"""Run the prompts of an acp-harness file: what `capture` and `trials` share."""

from __future__ import annotations

import argparse
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import msgspec
from msgspec import structs

from duologue.cli.console.interrupts import run_until_interrupted, terminated_like_interrupted
from duologue.cli.console.safe_output import Style, say
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.evals.exceptions import EvalError
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.record.trial_record import TrialRecord
from duologue.evals.run.credentials import CredentialFile
from duologue.evals.run.harness_lines import prompt_case_id
from duologue.evals.run.options import TrialOptions
from duologue.evals.run.progress import RunProgress, TrialEvent
from duologue.evals.run.suite_run import run_suite
from duologue.evals.suite.case import Case, WorkspaceSource
from duologue.evals.suite.digest import suite_digest
from duologue.evals.suite.grader_specs import ExecutableGrader
from duologue.evals.suite.limits import Timeouts
from duologue.evals.suite.loader import load_suite
from duologue.evals.suite.suite import Suite
from duologue.private_files import FILE_MODE
from duologue.sanitize import escape_line

LineMaker: TypeAlias = Callable[[list[TrialRecord], Case], dict[str, Any]]
"""Returns the line of a prompt whose trials have all ended."""


def run_prompts(arguments: argparse.Namespace, trials: int, make_line: LineMaker) -> int:
    """Run each prompt so often, and write a line for it as soon as its trials have ended; return the exit code."""
    agents = [*arguments.agents, *([shlex.join(arguments.command_line)] if arguments.command_line else [])]
    if len(agents) > 1:
        raise UsageError("give one agent: with `--agent`, or as a command after `--`")
    with (
        terminated_like_interrupted(),
        _prompts_file(arguments.prompts) as path,
        tempfile.TemporaryDirectory(prefix="duologue-run-") as folder,
    ):
        _check_paths(arguments)
        suite, options = _with_options(load_suite(path), arguments), _options(arguments)
        directory = Path(arguments.run or Path(folder) / "run")
        if (directory / "run.json").exists():
            raise UsageError(f"--run {directory}: it has a run already; choose another directory")
        with _output(arguments) as out:
            writer = _LineWriter(suite, directory, trials, make_line, out, arguments)
            running = run_suite(
                suite,
                agents or ["builtin"],
                directory,
                trials=trials,
                options=options,
                observer=writer.observe,
            )
            end = run_until_interrupted(running, _say_cancelling)
    return ExitCode.OK if end.is_complete else ExitCode.INCOMPLETE


def _say_cancelling() -> None:
    say("cancelling the trials that run; press Ctrl-C again to end at once\n", Style.YELLOW)


class _LineWriter:
    """Writes the line of each prompt when its last trial has ended.

    What the file has is removed when the first trial starts: nothing is lost if none can.
    """

    def __init__(
        self,
        suite: Suite,
        directory: Path,
        trials: int,
        make_line: LineMaker,
        out: TextIO,
        arguments: argparse.Namespace,
    ) -> None:
        self._cases = {case.id: case for case in suite.cases}
        self._directory = directory
        self._left = dict.fromkeys(self._cases, trials)
        self._make_line = make_line
        self._out = out
        self._is_shown: bool = arguments.progress
        self._replaces = arguments.output is not None and not arguments.append

    def observe(self, event: TrialEvent, progress: RunProgress) -> None:
        """Count a finished trial."""
        if self._replaces:
            self._replaces = False
            if stat.S_ISREG(os.fstat(self._out.fileno()).st_mode):
                self._out.truncate(0)
        if event.kind != "finished":
            return
        case = event.key.case
        self._left[case] -= 1
        if self._is_shown:
            sys.stderr.write(f"[{progress.done}/{progress.total}] {escape_line(case)}: {event.verdict}\n")
        if self._left[case] == 0:
            run = RunDirectory.open(self._directory)
            keys = [key for key in run.manifest.trial_keys() if key.case == case]
            records = [record for key in keys if (record := run.record(key)) is not None]
            line = msgspec.json.encode(self._make_line(records, self._cases[case]))
            self._out.write(line.decode() + "\n")
            self._out.flush()


def _check_paths(arguments: argparse.Namespace) -> None:
    if arguments.cwd is not None and not Path(arguments.cwd).is_dir():
        raise UsageError(f"--cwd {arguments.cwd}: expected a directory")
    if arguments.output is None or arguments.prompts == "-":
        return
    with suppress(FileNotFoundError):
        if Path(arguments.prompts).samefile(arguments.output):
            raise UsageError(f"-o {arguments.output}: it is the file of prompts; choose another file")


def _options(arguments: argparse.Namespace) -> TrialOptions:
    try:
        files = tuple(CredentialFile.parse(text) for text in arguments.credential)
    except EvalError as error:
        raise UsageError(f"--credential: {error}") from None
    return TrialOptions(
        jobs=arguments.jobs,
        sandbox=arguments.sandbox,
        env=tuple(arguments.env),
        credentials=files,
        protocol_versions=(1, 2) if arguments.v2 else (1,),
        login=arguments.login,
    )


def _with_options(suite: Suite, arguments: argparse.Namespace) -> Suite:
    """Return the prompts with the grader, the directory and the time of the command line."""
    done = _ids_in(arguments.output) if arguments.append and arguments.output else set[str]()
    seconds = arguments.timeout / 1000
    usual = Timeouts()
    cases: list[Case] = []
    for case in suite.cases:
        if prompt_case_id(case) in done:
            continue
        turn = seconds if case.timeouts == usual else case.timeouts.turn
        timeouts = structs.replace(case.timeouts, turn=turn, trial=max(usual.trial, turn * len(case.prompts)))
        graders = [*case.graders]
        if arguments.grader is not None:
            graders.append(ExecutableGrader(command=[str(_executable(arguments.grader))], env=list(arguments.env)))
        workspace = case.workspace
        if arguments.cwd is not None:
            workspace = WorkspaceSource(source=str(Path(arguments.cwd).resolve()))
        cases.append(
            structs.replace(case, timeouts=timeouts, graders=graders, workspace=workspace, on_ask=arguments.on_ask)
        )
    if not cases:
        raise UsageError("there is no prompt to send" + (": the output has them all already" if done else ""))
    return structs.replace(suite, cases=tuple(cases), digest=suite_digest(cases))


def _executable(name: str) -> Path:
    path = Path(name).resolve()
    if not os.access(path, os.X_OK) or not path.is_file():
        raise UsageError(f"-g {name}: expected an executable file (chmod +x) that reads and prints JSON")
    return path


def _ids_in(name: str) -> set[str]:
    found: set[str] = set()
    with suppress(FileNotFoundError), Path(name).open("rb") as file:
        for line in file:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                found.add(msgspec.json.decode(line, type=_Id).id)
    return found


class _Id(msgspec.Struct):
    id: str


@contextmanager
def _prompts_file(name: str) -> Generator[Path]:
    """Yield the file of prompts; stdin is copied to one."""
    if name != "-":
        yield Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="duologue-prompts-") as folder:
        path = Path(folder) / "prompts.jsonl"
        path.write_bytes(sys.stdin.buffer.read())
        yield path


@contextmanager
def _output(arguments: argparse.Namespace) -> Generator[TextIO]:
    if arguments.output is None:
        yield sys.stdout
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if arguments.append else 0)
    try:
        descriptor = os.open(arguments.output, flags, FILE_MODE)
    except OSError as error:
        raise UsageError(f"-o {arguments.output}: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yield file
