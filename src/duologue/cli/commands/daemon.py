"""`duologue daemon`: the process that keeps agents started, and runs prompts in the background."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time

import msgspec

import duologue
from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.daemon.client import DaemonClient
from duologue.daemon.jobs import JobRecord, output_file, stored_jobs
from duologue.daemon.messages import DaemonReply, DaemonRequest
from duologue.daemon.runtime_directory import RuntimeDirectory
from duologue.daemon.server import DaemonLimits, DaemonServer
from duologue.errors import StartError
from duologue.sanitize import escape_line

JSON_FORMAT = 1
"""Version of the lines of `status --json`; a new field is no new version."""


def daemon(arguments: argparse.Namespace) -> int:
    """Run one action; return the exit code."""
    if (arguments.job is None) if arguments.action == "cancel" else (arguments.job and arguments.action != "status"):
        needs = "needs the id of a job" if arguments.job is None else "accepts no job"
        raise UsageError(f"daemon {arguments.action} {needs}")
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
        case "job":
            return _run_job()
        case _:
            return _status(arguments)
    return ExitCode.OK


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


def _status(arguments: argparse.Namespace) -> ExitCode:
    """Show the daemon and its jobs, or one job."""
    records = stored_jobs() if arguments.job is None else [_known_job(arguments.job)]
    try:
        reply = asyncio.run(DaemonClient(duologue.__version__).status())
    except StartError as error:
        sys.stderr.write(f"duologue: {error}\n")
        reply = None
    running = [] if reply is None else reply.jobs
    jobs = [
        msgspec.structs.replace(record, state="lost")
        if record.state == "running" and record.id not in running
        else record
        for record in records
    ]
    if arguments.job is None:
        _show_daemon(reply, arguments.json)
    for record in jobs:
        _show_job(record, arguments.json)
    return ExitCode.AGENT_ERROR if arguments.job is None and reply is None else ExitCode.OK


def _show_daemon(reply: DaemonReply | None, is_json: bool) -> None:
    if is_json:
        fields = {} if reply is None else {name: getattr(reply, name) for name in ("version", "pid", "clients", "warm")}
        line = {"format": JSON_FORMAT, "daemon": "stopped" if reply is None else "running", **fields}
        safe(sys.stdout, is_exact=True).write_json(line)
    elif reply is None:
        sys.stdout.write("no daemon is running\n")
    else:
        used = f"{reply.clients} agents in use, {reply.warm} ready, {len(reply.jobs)} jobs running"
        sys.stdout.write(f"pid {reply.pid}, version {reply.version}, running for {reply.seconds:.0f} s: {used}\n")


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
