"""Commands that the daemon runs in the background; their state and output are kept in files of the user.

A job ends with the daemon. Its files outlive it: `ID.json` with the state, `ID.out` and `ID.err` with the output.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from duologue.daemon.messages import CallerCommand
from duologue.errors import StartError
from duologue.private_files import FILE_MODE, make_private_directory, user_directory
from duologue.runtime.tasks import TaskScope
from duologue.transports.process.child import Child
from duologue.transports.stdio.fd_streams import open_reader

MAX_JOBS = 16
"""Jobs that run at the same time."""

MAX_STORED_JOBS = 100
"""Jobs whose files are kept; those of the oldest ones that have ended are removed."""

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Bytes of each of the two outputs that are kept."""

JOB_SECONDS = 24 * 3600.0
"""Time after which a job is cancelled."""

CANCEL_SECONDS = 15.0
"""Time for a cancelled job to end its turn and to exit."""


class JobRecord(Struct, frozen=True, kw_only=True):
    """State of a job, as it is stored.

    Attributes:
        id: Its id.
        title: Its description: the agent, but not the prompt.
        cwd: Its working directory.
        state: `running`, `ended`, `cancelled`; `lost` if the daemon was killed before it ended.
        began: When it began, in seconds since 1970.
        ended: When it ended.
        exit_code: Its exit code, or minus the number of the signal that ended it.
    """

    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{12}\Z")]
    title: str
    cwd: str
    state: Literal["running", "ended", "cancelled", "lost"]
    began: float
    ended: float | None = None
    exit_code: int | None = None


def jobs_directory() -> Path:
    """Return the directory of the files of all jobs."""
    return user_directory("XDG_DATA_HOME", ".local/share") / "jobs"


def output_file(job_id: str, name: Literal["out", "err"] = "out") -> Path:
    """Return the file with the output of a job."""
    return jobs_directory() / f"{job_id}.{name}"


def stored_jobs() -> list[JobRecord]:
    """Return the jobs whose files are kept, oldest first; ignore files that are not valid."""
    found: list[JobRecord] = []
    for path in jobs_directory().glob("*.json"):
        with suppress(OSError, msgspec.MsgspecError):
            record = msgspec.json.decode(path.read_bytes(), type=JobRecord)
            if f"{record.id}.json" == path.name:
                found.append(record)
    return sorted(found, key=lambda record: record.began)


def _store(record: JobRecord) -> None:
    directory = jobs_directory()
    partial = directory / f"{record.id}.{os.getpid()}.partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(record))
    partial.replace(directory / f"{record.id}.json")


class _Output(asyncio.Protocol):
    """Writes output to a file up to a limit, and drops the rest."""

    def __init__(self, path: Path) -> None:
        self.gone = asyncio.Event()
        self._left = MAX_OUTPUT_BYTES
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)

    def data_received(self, data: bytes) -> None:
        try:
            self._left -= os.write(self._file, data[: self._left])
        except OSError:  # the disk is full
            self._left = 0

    def connection_lost(self, exc: Exception | None) -> None:
        os.close(self._file)
        self.gone.set()


class _Running(Struct, eq=False):
    record: JobRecord
    child: Child
    outputs: list[tuple[asyncio.ReadTransport, _Output]]
    is_cancelled: bool = False


class Jobs:
    """The jobs of one daemon."""

    def __init__(self) -> None:
        self._running: dict[str, _Running] = {}
        self._tasks = TaskScope()

    @property
    def ids(self) -> list[str]:
        """Ids of the running jobs."""
        return list(self._running)

    async def start(self, caller: CallerCommand, text: str, title: str) -> str:
        """Start a command that reads `text` from stdin; return the id of the job.

        Raises:
            StartError: Too many jobs are running, or it cannot be started.
        """
        if len(self._running) >= MAX_JOBS:
            raise StartError(f"{MAX_JOBS} jobs are running; wait for one, or cancel one")
        try:
            make_private_directory(jobs_directory())
            self._remove_old()
            job_id = secrets.token_hex(6)
            record = JobRecord(id=job_id, title=title, cwd=caller.unpacked()[1], state="running", began=time.time())
            _store(record)
            running = await self._start(record, caller, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise StartError(f"cannot start the job: {error}") from None
        self._running[job_id] = running
        self._tasks.start(self._run(running))
        return job_id

    async def _start(self, record: JobRecord, caller: CallerCommand, text: bytes) -> _Running:
        command, cwd, env = caller.unpacked()
        outputs = [_Output(output_file(record.id, "out")), _Output(output_file(record.id, "err"))]
        pipes = [os.pipe(), os.pipe()]
        try:
            # A file, not a pipe: the text may be longer than a pipe holds, and the job is slow to start.
            source = os.memfd_create("input") if hasattr(os, "memfd_create") else _temporary_file()
            try:
                os.write(source, text)
                os.lseek(source, 0, os.SEEK_SET)
                stdout, stderr = pipes[0][1], pipes[1][1]
                child = Child(command, stdin=source, stdout=stdout, stderr=stderr, env=env, cwd=cwd)
            finally:
                os.close(source)
        except BaseException:
            for read_end, write_end in pipes:
                os.close(read_end)
                os.close(write_end)
            for output in outputs:
                output.connection_lost(None)
            raise
        readers: list[tuple[asyncio.ReadTransport, _Output]] = []
        for (read_end, write_end), output in zip(pipes, outputs, strict=True):
            os.close(write_end)
            readers.append((await open_reader(read_end, output), output))
        return _Running(record, child, readers)

    async def _run(self, running: _Running) -> None:
        """Wait for the end of a job, and store how it ended."""
        record, child = running.record, running.child
        try:
            async with asyncio.timeout(JOB_SECONDS):
                await child.exit()
        except TimeoutError:
            running.is_cancelled = True
            await self._interrupt(child)
        finally:
            await child.stop(lambda: None)
            for reader, output in running.outputs:
                with suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await output.gone.wait()
                reader.close()
            self._running.pop(record.id, None)
            state: Literal["cancelled", "ended"] = "cancelled" if running.is_cancelled else "ended"
            with suppress(OSError):
                _store(replace(record, state=state, ended=time.time(), exit_code=child.returncode))

    async def cancel(self, job_id: str) -> bool:
        """Cancel a job as Ctrl-C would, and wait until it has ended; return False if no job has the id."""
        running = self._running.get(job_id)
        if running is None:
            return False
        running.is_cancelled = True
        await self._interrupt(running.child)
        return True

    async def _interrupt(self, child: Child) -> None:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGINT)
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await child.exit()
        await child.stop(lambda: None)

    async def aclose(self) -> None:
        """Cancel all jobs."""
        await asyncio.gather(*(self.cancel(job_id) for job_id in self.ids))
        await self._tasks.settle()

    def _remove_old(self) -> None:
        ended = [record for record in stored_jobs() if record.id not in self._running]
        for record in ended[: max(0, len(ended) - MAX_STORED_JOBS)]:
            for kind in ("out", "err", "json"):
                with suppress(OSError):
                    (jobs_directory() / f"{record.id}.{kind}").unlink()


def _temporary_file() -> int:
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
