"""`duologue daemon`: the process that keeps agents started, and runs prompts in the background."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import BinaryIO

import msgspec

import duologue
from duologue.cli.console.safe_output import SafeOutput, safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.daemon.client import DaemonClient
from duologue.daemon.jobs import JobRecord, output_file, stored_jobs
from duologue.daemon.messages import LOGIN_NEEDED, DaemonReply, DaemonRequest
from duologue.daemon.runtime_directory import RuntimeDirectory
from duologue.daemon.server import DaemonLimits, DaemonServer
from duologue.errors import StartError
from duologue.sanitize import escape_line

JSON_FORMAT = 1
"""Version of the lines of `status --json`; a new field is no new version."""

POLL_SECONDS = 0.2
"""Time between two looks at a job that is waited for."""


def daemon(arguments: argparse.Namespace) -> int:
    """Run one action; return the exit code."""
    _check(arguments)
    match arguments.action:
        case "start" if arguments.foreground:
            return asyncio.run(_serve(arguments.idle_timeout))
        case "start":
            reply = asyncio.run(DaemonClient(duologue.__version__).start())
            sys.stderr.write(f"the daemon is running, pid {reply.pid}\n")
        case "stop":
            is_running = asyncio.run(_stop())
            sys.stderr.write("the daemon has been stopped\n" if is_running else "no daemon is running\n")
        case "cancel":
            _known_job(arguments.job)
            request = DaemonRequest(version=duologue.__version__, action="cancel", job=arguments.job)
            if asyncio.run(DaemonClient(duologue.__version__).request(request)) is None:
                raise UsageError(f"the job {arguments.job} does not run")
        case "output":
            return asyncio.run(_output(arguments))
        case "wait":
            return asyncio.run(_wait(arguments))
        case "job":
            return _run_job()
        case _:
            return _status(arguments)
    return ExitCode.OK


def _check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that do not fit the action."""
    action = arguments.action
    if action in ("cancel", "output", "wait") and arguments.job is None:
        raise UsageError(f"daemon {action} needs the id of a job; `duologue daemon status` lists them")
    if action in ("start", "stop") and arguments.job is not None:
        raise UsageError(f"daemon {action} accepts no job")
    if arguments.follow and action != "output":
        raise UsageError("`--follow` is for `daemon output JOB`")
    if arguments.timeout is not None and action != "wait" and not arguments.follow:
        raise UsageError("`--timeout` is for `daemon wait JOB` and `daemon output JOB --follow`")


async def _serve(idle_seconds: float) -> ExitCode:
    """Be the daemon until it is stopped or idle."""
    server = DaemonServer(RuntimeDirectory(), duologue.__version__, DaemonLimits(idle_seconds=idle_seconds))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    if not await server.run(lambda: None):
        sys.stderr.write("a daemon is running already\n")
    return ExitCode.OK


async def _stop() -> bool:
    """Stop the daemon, and wait until it has ended; return False if none was running."""
    client = DaemonClient(duologue.__version__)
    if await client.request(DaemonRequest(version=duologue.__version__, action="stop")) is None:
        return False
    try:
        async with asyncio.timeout(30.0):
            while client.is_running():  # noqa: ASYNC110  # the end of another process is not reported
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise StartError("the daemon does not end") from None
    return True


def _known_job(job_id: str) -> JobRecord:
    record = next((record for record in stored_jobs() if record.id == job_id), None)
    if record is None:
        raise UsageError(f"no job {job_id!r}; `duologue daemon status` lists them")
    return record


def _current(record: JobRecord, reply: DaemonReply | None) -> JobRecord:
    """Return the job as it is now: one that the daemon does not run has ended since, or is lost."""
    if record.state != "running" or (reply is not None and record.id in reply.jobs):
        return record
    record = _known_job(record.id)
    return msgspec.structs.replace(record, state="lost") if record.state == "running" else record


async def _until_ended(arguments: argparse.Namespace, on_poll: Callable[[], None] = lambda: None) -> JobRecord | None:
    """Wait until a job has ended, and return it; None if that takes too long."""
    client = DaemonClient(duologue.__version__)
    try:
        async with asyncio.timeout(arguments.timeout):
            while (record := _current(_known_job(arguments.job), await client.status())).state == "running":
                on_poll()
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        sys.stderr.write(f"duologue: the job {arguments.job} still runs after {arguments.timeout:g} s\n")
        return None
    return record


async def _wait(arguments: argparse.Namespace) -> int:
    """Wait for a job; return its exit code."""
    record = await _until_ended(arguments)
    if record is None:
        return ExitCode.TIMEOUT
    if record.state == "cancelled":
        return ExitCode.INTERRUPTED
    if record.exit_code is None:
        sys.stderr.write(f"duologue: the job {record.id} is {record.state}: the daemon ended before it\n")
        return ExitCode.AGENT_ERROR
    return record.exit_code if record.exit_code >= 0 else 128 - record.exit_code


async def _output(arguments: argparse.Namespace) -> ExitCode:
    """Print what a job has printed; with `--follow`, go on until it ends."""
    _known_job(arguments.job)
    with ExitStack() as stack:
        copies: list[tuple[BinaryIO, SafeOutput]] = []
        out, err = output_file(arguments.job), output_file(arguments.job, "err")
        for path, stream in ((out, safe(sys.stdout, is_exact=True)), (err, safe(sys.stderr))):
            with suppress(FileNotFoundError):  # it could not be started
                copies.append((stack.enter_context(path.open("rb")), stream))

        def copy() -> None:
            for file, stream in copies:
                while data := file.read(1 << 16):
                    stream.write_bytes(data)
                stream.flush()

        is_ended = not arguments.follow or await _until_ended(arguments, copy) is not None
        copy()
    return ExitCode.OK if is_ended else ExitCode.TIMEOUT


def _status(arguments: argparse.Namespace) -> ExitCode:
    """Show the daemon and its jobs, or one job."""
    records = stored_jobs() if arguments.job is None else [_known_job(arguments.job)]
    try:
        reply = asyncio.run(DaemonClient(duologue.__version__).status())
    except StartError as error:
        sys.stderr.write(f"duologue: {error}\n")
        reply = None
    jobs = [_current(record, reply) for record in records]
    if arguments.job is None:
        _show_daemon(reply, arguments.json)
    for record in jobs:
        _show_job(record, arguments.json)
    return ExitCode.AGENT_ERROR if arguments.job is None and reply is None else ExitCode.OK


def _show_daemon(reply: DaemonReply | None, is_json: bool) -> None:
    if is_json:
        fields = (
            {}
            if reply is None
            else {name: getattr(reply, name) for name in ("version", "pid", "clients", "warm", "without_session")}
        )
        line = {"format": JSON_FORMAT, "daemon": "stopped" if reply is None else "running", **fields}
        safe(sys.stdout, is_exact=True).write_json(line)
    elif reply is None:
        sys.stdout.write("no daemon is running\n")
    else:
        counts = ((reply.clients, "agent"), (len(reply.jobs), "job"))
        agents, jobs = (f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)
        used = f"{agents} in use, {reply.warm} ready, {jobs} running"
        sys.stdout.write(f"pid {reply.pid}, version {reply.version}, running for {reply.seconds:.0f} s: {used}\n")
        if reply.without_session:
            sys.stdout.write(f"{reply.without_session} of the ready agents: {LOGIN_NEEDED}\n")


def _show_job(record: JobRecord, is_json: bool) -> None:
    files = {"output": str(output_file(record.id)), "errors": str(output_file(record.id, "err"))}
    if is_json:
        line = {"format": JSON_FORMAT, **msgspec.structs.asdict(record), **files}
        safe(sys.stdout, is_exact=True).write_json(line)
        return
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.began))
    code = "" if record.exit_code is None else f" with code {record.exit_code}"
    sys.stdout.write(f"{record.id}  {began}  {record.state}{code}  {escape_line(record.title)}  {files['output']}\n")


def _run_job() -> int:
    """Run the prompt that the daemon passes on stdin."""
    from duologue.cli.commands.run import run_prompt

    given = msgspec.json.decode(sys.stdin.buffer.read())
    return run_prompt(argparse.Namespace(**given["arguments"]), given["prompt"])
