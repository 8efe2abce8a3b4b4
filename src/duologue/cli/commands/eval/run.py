"""`duologue eval run`: run the trials of a suite, show the progress, and say what came out."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from duologue.cli.commands.eval.run_output import RunOutput
from duologue.cli.console.interrupts import run_until_interrupted
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.evals.engines.address import open_engine
from duologue.evals.engines.interface import Engine, EngineError
from duologue.evals.exceptions import EvalError
from duologue.evals.record.key import directory_name
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.credentials import CredentialFile
from duologue.evals.run.options import RunLimits, TrialOptions
from duologue.evals.run.suite_run import RunEnd, run_suite
from duologue.evals.run.watched_trial import TrialWatch
from duologue.evals.suite.loader import load_suite
from duologue.evals.suite.suite import Suite
from duologue.recording.redaction import MASK


def run(arguments: argparse.Namespace) -> int:
    """Run the trials; return the exit code."""
    from duologue.evals.report.thresholds import parse_threshold

    try:
        thresholds = [parse_threshold(text) for text in arguments.fail_under]
    except ValueError as error:
        raise UsageError(f"--fail-under {error}") from None
    engine = engine_of(arguments)
    suite = load_suite(Path(arguments.suite))
    directory = run_directory(arguments, suite)
    output = RunOutput(arguments, directory)
    try:
        try:
            running = run_trials(arguments, suite, directory, engine, output)
            end = run_until_interrupted(running, output.say_cancelling)
        finally:
            output.close()
    except KeyboardInterrupt:
        output.say_interrupted(resume_command(arguments, directory), limits_of(arguments))
        return ExitCode.INTERRUPTED
    unmet = output.write_end(end, thresholds)
    if not end.is_complete:
        output.say_incomplete(end, resume_command(arguments, directory), limits_of(arguments))
    if unmet:
        return ExitCode.BELOW_THRESHOLD
    return ExitCode.OK if end.is_complete else ExitCode.INCOMPLETE


async def run_trials(
    arguments: argparse.Namespace, suite: Suite, directory: Path, engine: Engine, output: RunOutput
) -> RunEnd:
    """Run the trials, which clients can watch if the arguments ask for it."""
    engine.notice = output.say_notice
    async with attached(arguments, output) as watch:
        return await run_suite(
            suite,
            agents_of(arguments, directory),
            directory,
            trials=arguments.trials,
            cases=arguments.case,
            seed=arguments.seed,
            retry_missing=arguments.retry_missing,
            options=options_of(arguments),
            engine=engine,
            observer=output.observe,
            watch=watch,
        )


@asynccontextmanager
async def attached(arguments: argparse.Namespace, output: RunOutput) -> AsyncGenerator[TrialWatch | None]:
    """Serve the trials that run, if the arguments ask for it, and print where.

    Raises:
        UsageError: An extra is not installed.
    """
    if not (arguments.attach or arguments.attach_control):
        yield None
        return
    from duologue.evals.run.attach_server import serve_trials

    watch = TrialWatch()
    async with AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serve_trials(watch, may_control=arguments.attach_control))
        except ImportError as error:
            raise UsageError(
                f"--attach needs {error.name}; install the extra: pip install 'duologue[remote]'"
            ) from None
        output.say_attached(url)
        yield watch


def engine_of(arguments: argparse.Namespace) -> Engine:
    """Return the engine that the arguments name.

    Raises:
        UsageError: There is no such engine, its extra is not installed, or its trials cannot be watched.
    """
    token = None if arguments.engine_token is None else Path(arguments.engine_token)
    try:
        engine = open_engine(arguments.engine, token_file=token, timeout=arguments.engine_timeout)
    except EngineError as error:
        raise UsageError(f"--engine: {error}") from None
    if (arguments.attach or arguments.attach_control) and not engine.is_local:
        raise UsageError(
            f"--attach: received --engine {arguments.engine}, expected local: trials on a cluster cannot be watched; "
            "leave out one of the two"
        )
    return engine


def options_of(arguments: argparse.Namespace) -> TrialOptions:
    """Return the options of the run that the arguments ask for.

    Raises:
        UsageError: A credential file cannot be used.
    """
    cost, currency = arguments.budget or (None, "USD")
    try:
        files = tuple(CredentialFile.parse(text) for text in arguments.credential)
    except EvalError as error:
        raise UsageError(f"--credential: {error}") from None
    return TrialOptions(
        jobs=arguments.jobs,
        limits=RunLimits(cost=cost, currency=currency, seconds=arguments.time_limit, prompts=arguments.prompt_limit),
        retries=arguments.retries,
        sandbox=arguments.sandbox,
        env=tuple(arguments.env),
        credentials=files,
        reports_cost=frozenset(arguments.reports_cost),
        protocol_versions=(1, 2) if arguments.v2 else (1,),
        login=arguments.login,
    )


def agents_of(arguments: argparse.Namespace, directory: Path) -> list[str]:
    """Return the agents that the arguments name; those of the run that is continued, if they name none."""
    named = [*arguments.agents, *([shlex.join(arguments.command_line)] if arguments.command_line else [])]
    if named or arguments.resume is None:
        return named or ["builtin"]
    manifest = RunDirectory.open(directory).manifest
    given = msgspec.convert(manifest.options.get("agents", []), list[str])
    if len(given) != len(manifest.agents) or any(MASK in each for each in given):
        raise UsageError(f"name the agents of {directory} again with `--agent`: their commands have secrets")
    return given


def run_directory(arguments: argparse.Namespace, suite: Suite) -> Path:
    """Return the directory of the run.

    Raises:
        UsageError: There is a run in the new directory, or none in that to be continued.
    """
    if arguments.retry_missing and arguments.resume is None:
        raise UsageError("`--retry-missing` needs `--resume DIR`")
    if arguments.resume is not None:
        if arguments.output is not None:
            raise UsageError("give either `-o DIR` for a new run or `--resume DIR` for an earlier one, not both")
        directory = Path(arguments.resume)
        RunDirectory.open(directory, suite_digest=suite.digest)
        return directory
    name = f"{directory_name(suite.name)}-{datetime.now():%Y%m%d-%H%M%S}"
    directory = Path(arguments.output or Path("runs") / name)
    if (directory / "run.json").exists():
        raise UsageError(f"{directory} has a run already; `--resume {directory}` continues it")
    with suppress(FileNotFoundError):
        # A run that was killed before it began has left these.
        others = {each.name for each in directory.iterdir() if not each.name.startswith((".run.json", ".suite.json"))}
        if others - {"trials", "attempts", "failed", "suite.json"}:
            raise UsageError(f"{directory} is not empty; choose another directory")
    return directory


def resume_command(arguments: argparse.Namespace, directory: Path) -> str:
    """Return the command that continues the run."""
    words = ["duologue", "eval", "run", arguments.suite, "--resume", str(directory)]
    if arguments.jobs is not None:
        words += ["-j", str(arguments.jobs)]
    if arguments.engine != "local":
        words += ["--engine", arguments.engine]
    if arguments.engine_token is not None:
        words += ["--engine-token", arguments.engine_token]
    for name in arguments.env:
        words += ["--env", name]
    for file in arguments.credential:
        words += ["--credential", file]
    if arguments.sandbox != "auto":
        words += ["--sandbox", arguments.sandbox]
    if arguments.retries != TrialOptions().retries:
        words += ["--retries", str(arguments.retries)]
    if arguments.login is not None:
        words += ["--login", arguments.login]
    for name in ("v2", "attach", "attach_control"):
        if getattr(arguments, name):
            words.append(f"--{name.replace('_', '-')}")
    return shlex.join(words)


def limits_of(arguments: argparse.Namespace) -> list[str]:
    """Return the options for limits that were given, which `resume_command` leaves out: they may have been reached."""
    given = {
        "--budget": arguments.budget,
        "--time-limit": arguments.time_limit,
        "--prompt-limit": arguments.prompt_limit,
        "--reports-cost": arguments.reports_cost,
    }
    return [name for name, value in given.items() if value]
