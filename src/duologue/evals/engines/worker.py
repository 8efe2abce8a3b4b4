"""The function that workers of a cluster call: bytes in, bytes out. A process that can be ended does the work."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import msgspec
from msgspec import Struct

MOST_REPORT_BYTES = 256 << 20
"""Length of the longest report."""
END_SECONDS = 10.0
"""Time between SIGTERM, after which a trial removes its directories, and SIGKILL."""
LATE = "late"
STOPPED = "stopped"


class _Header(Struct):
    """The fields of a message that are read here."""

    id: str
    seconds: float


class WorkerReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a worker.

    Attributes:
        format: Version of the format.
        worker: Its host and its process.
        problem: Why there is no report: the process of the task ended, was `late`, or was `stopped`.
        detail: The same, for people.
        report: The report, as JSON.
    """

    format: int = 1
    worker: str
    problem: str = ""
    detail: str = ""
    report: msgspec.Raw = msgspec.Raw(b"null")


class TaskProcess:
    """A process that carries out one task after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "duologue.evals.engines.trial_host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._ending = threading.Lock()
        self.why_ended = ""

    def call(self, message: bytes, seconds: float) -> bytes:
        """Return the answer to a message; empty if the process ended, or was ended because it took too long."""
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        watch = threading.Timer(seconds, self.end, [LATE])
        watch.daemon = True
        watch.start()
        try:
            self._process.stdin.write(message + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline(MOST_REPORT_BYTES)
        except OSError:
            answer = b""
        finally:
            watch.cancel()
        if not answer.endswith(b"\n"):
            self.close()
            return b""
        return answer[:-1]

    def end(self, why: str) -> None:
        """End the process, which cancels what it runs; return when it has ended."""
        with self._ending:
            if self._process.poll() is None:
                self.why_ended = self.why_ended or why
                self._process.terminate()
                try:
                    self._process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()

    def close(self) -> None:
        """End the process and close its pipes; only the thread that calls it may do so."""
        self.end("")
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    @property
    def status(self) -> int | None:
        """Its exit status."""
        return self._process.poll()


_lock = threading.Lock()
_idle: list[TaskProcess] = []
_busy: dict[str, TaskProcess] = {}


def run_task(message: bytes) -> bytes:
    """Carry out the task of a message; return a `WorkerReply` as JSON."""
    header = msgspec.json.decode(message, type=_Header)
    with _lock:
        process = _idle.pop() if _idle else TaskProcess()
        _busy[header.id] = process
    try:
        answer = process.call(message, header.seconds)
    except BaseException:
        # Ray cancels a task by an exception in its thread.
        process.end(STOPPED)
        process.close()
        raise
    finally:
        with _lock:
            _busy.pop(header.id, None)
    worker = worker_name()
    if answer:
        with _lock:
            _idle.append(process)
        return msgspec.json.encode(WorkerReply(worker=worker, report=msgspec.Raw(answer)))
    problem = process.why_ended or "ended"
    details = {
        LATE: f"it did not end within {header.seconds:g} s",
        STOPPED: "it was cancelled",
        "ended": f"the process that ran it ended with status {process.status}",
    }
    return msgspec.json.encode(WorkerReply(worker=worker, problem=problem, detail=details[problem]))


def worker_name() -> str:
    """Return the name of this worker: its address in a Dask cluster, or its host and process."""
    dask = sys.modules.get("distributed")
    if dask is not None:
        with suppress(ValueError):
            return str(dask.get_worker().address)
    return f"{socket.gethostname()}, process {os.getpid()}"


def stop_tasks(ids: list[str]) -> int:
    """End the processes of tasks that run in this worker; return how many there were."""
    with _lock:
        found = [process for number in ids if (process := _busy.get(number)) is not None]
    for process in found:
        process.end(STOPPED)
    return len(found)
