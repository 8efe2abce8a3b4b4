"""The process of a worker that carries out tasks: one line of JSON in, one line out, until its input ends.

    python -m duologue.evals.engines.trial_host

Each worker starts one for each task at the same time, and keeps it for the next one. It can be ended at any moment
without harm to the worker: when its input ends, or at SIGTERM, it cancels what runs and removes its directories.
What is printed in it goes to stderr.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from duologue.evals.engines.execution import TaskExecution, stored_report
from duologue.evals.engines.message import (
    MOST_MESSAGE_BYTES,
    Message,
    ProbeMessage,
    TrialMessage,
    decode_message,
    encode,
    trial_options,
)
from duologue.evals.engines.record_archive import pack
from duologue.evals.engines.task import AttemptReport, ProbeTask, Report, TrialTask, failure
from duologue.evals.exceptions import EvalError, RecordError
from duologue.evals.record.manifest import RunManifest
from duologue.evals.record.run_directory import RunDirectory
from duologue.evals.run.scheduler import clear_interrupted
from duologue.evals.run.scratch import finish
from duologue.evals.run.targets import EvalAgent, eval_agents
from duologue.evals.suite.case import Case
from duologue.evals.suite.conversion import FieldError
from duologue.evals.suite.digest import case_digest
from duologue.private_files import make_private_directory

STORE_PREFIX = "duologue-worker-"
STORE_SECONDS = 3600.0
"""Age at which a worker forgets the records of a run whose directory it does not see."""


class TrialHost:
    """Carries out messages."""

    def __init__(self) -> None:
        self._execution = TaskExecution()
        self._shared: dict[str, RunDirectory] = {}
        self._checked: dict[str, Case] = {}

    async def answer(self, content: bytes) -> bytes:
        """Carry out the task of a message; return the report of it, whatever happens."""
        message = decode_message(content)
        agent = eval_agents({message.agent.label: message.agent.target})[0]
        if isinstance(message, ProbeMessage):
            task = ProbeTask(
                agent=agent,
                options=trial_options(message.options),
                env=message.env,
                is_started=message.is_started,
            )
            return encode(await self._execution.run(task))
        return encode(await self._trial(message, agent))

    async def _trial(self, message: TrialMessage, agent: EvalAgent) -> Report:
        shared = await finish(self._shared_run, message)
        run: RunDirectory = await finish(own_run, message) if shared is None else shared
        task = TrialTask(
            key=message.key,
            run=run,
            case=message.case,
            agent=agent,
            options=trial_options(message.options),
            seed=message.seed,
            number=message.number,
            is_last=message.is_last,
        )
        report: Report | None = await finish(stored_report, task)
        if report is None:
            await finish(clear_attempts, run, task)
            try:
                task = structs.replace(task, case=await finish(self._case, message))
                report = await self._execution.run(task)
            except EvalError as error:
                return failure(task, type(error).__name__, str(error))
        assert isinstance(report, AttemptReport), "it is the report of a trial"
        return report if shared is not None else await finish(_with_files, run, report)

    def _shared_run(self, message: TrialMessage) -> RunDirectory | None:
        """Return the directory of the run, if this machine sees it."""
        if message.run_path not in self._shared:
            try:
                run = RunDirectory.open(Path(message.run_path))
            except (RecordError, OSError):
                return None
            if run.manifest.id != message.run_id or not os.access(run.path, os.W_OK):
                return None
            self._shared[message.run_path] = run
        return self._shared[message.run_path]

    def _case(self, message: TrialMessage) -> Case:
        """Return the case with its files: those of the suite, if this machine sees them, or those of the message.

        Raises:
            EvalError: There are neither.
        """
        if message.case_digest not in self._checked:
            if len(self._checked) >= 256:
                self._checked.clear()
            case = message.case
            if not _has_files(case, message.case_digest):
                case = _write_files(message)
            self._checked[message.case_digest] = case
        return self._checked[message.case_digest]


def _has_files(case: Case, digest: str) -> bool:
    try:
        return case_digest(case) == digest
    except (FieldError, OSError):
        return False


def _write_files(message: TrialMessage) -> Case:
    case = message.case
    if message.files is None:
        raise EvalError(
            f"the files of the case {case.id!r} are not in {case.directory} here, and are too large to be sent: put "
            "the suite on a path that the workers see"
        )
    directory = Path(tempfile.mkdtemp(prefix="suite-", dir=_own_directory(message.run_id)))
    for name, file in message.files.items():
        path = directory / name
        if not path.resolve().is_relative_to(directory):
            raise EvalError(f"the file {name!r} of the case {case.id!r} leads out of the suite")
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            path.symlink_to(file.link)
            continue
        path.write_bytes(file.content)
        path.chmod(0o700 if file.is_executable else 0o600)
    # The source of a workspace does not travel; it may lie outside of the suite.
    workspace = case.workspace
    source = None if workspace.source is None else Path(case.directory, workspace.source)
    written = structs.replace(case, directory=str(directory))
    if not _has_files(written, message.case_digest):
        raise EvalError(f"the files of the case {case.id!r} are not those of the run: its suite was changed")
    if source is None:
        return written
    if not source.is_dir():
        raise EvalError(f"there is no directory {source} for the workspace here: put it on a path that the workers see")
    return structs.replace(written, workspace=structs.replace(workspace, source=str(source)))


# --- the store of a worker that does not see the run directory


def _own_directory(run_id: str) -> Path:
    path = Path(tempfile.gettempdir()).resolve() / f"{STORE_PREFIX}{os.getuid()}-{run_id}"
    make_private_directory(path)
    if path.lstat().st_uid != os.getuid() or path.is_symlink():
        raise EvalError(f"{path} belongs to another user; set TMPDIR of the worker to a directory of its own")
    return path


def own_run(message: TrialMessage) -> RunDirectory:
    """Return the directory with the records of this worker, for a run whose directory it does not see."""
    forget_old_runs()
    path = _own_directory(message.run_id)
    for name in ("trials", "attempts", "failed"):
        make_private_directory(path / name)
    os.utime(path)
    return RunDirectory(path, _manifest(message))


def _manifest(message: TrialMessage) -> RunManifest:
    return RunManifest(
        id=message.run_id, started="", suite="", suite_digest=message.key.suite, cases=[], agents=[], trials=1
    )


def forget_old_runs() -> None:
    """Remove the records of runs that have not been continued here for an hour."""
    for path in Path(tempfile.gettempdir()).glob(f"{STORE_PREFIX}{os.getuid()}-*"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > STORE_SECONDS and path.lstat().st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)


def clear_attempts(run: RunDirectory, task: TrialTask) -> None:
    """Remove attempts at a trial whose processes are gone, with their directories."""
    for interrupted in run.interrupted():
        with suppress(RecordError, OSError):
            if interrupted.key == task.key:
                clear_interrupted(interrupted)


def _with_files(run: RunDirectory, report: AttemptReport) -> AttemptReport:
    """Return a report with its files, for a run directory that this machine does not see."""
    base = run.path / "trials" / report.key.directory
    if not report.is_final:
        failed = run.path / "failed" / report.key.directory
        base = max(failed.parent.glob(f"{failed.name}-*"), key=lambda path: path.stat().st_mtime_ns)
    report = structs.replace(report, is_stored=False, files=pack(base))
    if not report.is_final:
        shutil.rmtree(base, ignore_errors=True)
    return report


# --- the process


async def serve(host: TrialHost, output: BinaryIO) -> None:
    """Carry out the messages of stdin until it ends, or until SIGTERM; what runs then is cancelled."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_MESSAGE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def work() -> None:
        while True:
            output.write(await _answer(host, await lines.get()) + b"\n")
            output.flush()

    async with asyncio.TaskGroup() as group:
        worker = group.create_task(work())
        loop.add_signal_handler(signal.SIGTERM, reader.feed_eof)
        while line := await reader.readline():
            lines.put_nowait(line)
        worker.cancel()


async def _answer(host: TrialHost, line: bytes) -> bytes:
    try:
        return await host.answer(line)
    except Exception as error:  # whatever a task provoked: it costs this task, not the worker
        message = _readable(line)
        return encode(_unfit(message, error))


def _readable(line: bytes) -> Message | None:
    try:
        return decode_message(line)
    except EvalError:
        return None


def _unfit(message: Message | None, error: Exception) -> Report:
    """Return the report of a task that could not even be begun."""
    if message is None:
        raise error
    agent = EvalAgent(label=message.agent.label, target="")
    options = trial_options(message.options)
    if isinstance(message, ProbeMessage):
        return failure(ProbeTask(agent=agent, options=options), type(error).__name__, str(error))
    task = TrialTask(
        key=message.key,
        run=RunDirectory(Path(message.run_path), _manifest(message)),
        case=message.case,
        agent=agent,
        options=options,
        number=message.number,
        is_last=message.is_last,
    )
    return failure(task, type(error).__name__, str(error))


def main() -> None:
    """Serve stdin and stdout."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(descriptor, "wb") as output, suppress(BrokenPipeError, KeyboardInterrupt):
        asyncio.run(serve(TrialHost(), output))


if __name__ == "__main__":
    main()
