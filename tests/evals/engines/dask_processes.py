"""A scheduler and workers of Dask on loopback, each a process that can be killed and replaced.

One process imports Dask once and makes the others by `fork`: a replaced worker is there after a moment, and so is the
cluster of another test.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[3]


class ForkServer:
    """The process that makes the others.

    Args:
        prefix: Words before its command.
    """

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        # What Dask writes of lost workers is expected here.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - `close` ends it
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.evals.engines.dask_processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
        )

    def ask(self, **request: Any) -> str:
        """Return the answer to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(request)}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer, f"no answer to {request}: {self._errors()}"
        return answer

    def _errors(self) -> str:
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")[-4000:]

    def close(self) -> None:
        """End it with all that it has made."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()


_common: list[ForkServer] = []


def common_server() -> ForkServer:
    """Return the server that all tests of this process share."""
    if not _common:
        _common.append(ForkServer())
    return _common[0]


def close_common_server() -> None:
    """End it, if it was used."""
    while _common:
        _common.pop().close()


class DaskProcesses:
    """A cluster; its processes end with the `with` block.

    Args:
        folder: Directory for temporary files.
        workers: Number of workers.
        env: Variables of all processes.
        prefix: Words before the command of the processes; they get a server of their own.
        protocol: `tcp` or `tls`.

    Attributes:
        address: Address of the scheduler.
        workers: Process ids of the workers that were started, and not killed.
    """

    def __init__(
        self,
        folder: Path,
        workers: int,
        *,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        protocol: str = "tcp",
    ) -> None:
        self._first = workers
        self._env = {"TMPDIR": str(folder), **(env or {})}
        self._prefix = prefix
        self._protocol = protocol
        self.workers: list[int] = []
        self.address = ""

    def __enter__(self) -> Self:
        self._server = ForkServer(self._prefix) if self._prefix else common_server()
        self.scheduler, self.address = self._start_scheduler(0)
        for _ in range(self._first):
            self.start_worker()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end_workers()
        self.kill_scheduler()
        if self._prefix:
            self._server.close()

    def start_worker(self, **env: str) -> int:
        """Start another worker with further variables; return its process id."""
        pid = int(self._server.ask(start="worker", address=self.address, env={**self._env, **env}))
        self.workers.append(pid)
        return pid

    def kill_worker(self, pid: int) -> None:
        """Kill a worker."""
        self.workers.remove(pid)
        self._server.ask(kill=pid)

    def kill_scheduler(self) -> None:
        """Kill the scheduler; its workers end by themselves."""
        self._server.ask(kill=self.scheduler)

    def restart_scheduler(self) -> None:
        """Start a scheduler where the one before was."""
        self.scheduler, address = self._start_scheduler(int(self.address.rpartition(":")[2]))
        assert address == self.address

    def end_workers(self) -> None:
        """Kill all workers."""
        for pid in list(self.workers):
            self.kill_worker(pid)

    def _start_scheduler(self, port: int) -> tuple[int, str]:
        answer = self._server.ask(start="scheduler", port=port, protocol=self._protocol, env=self._env)
        pid, address = answer.split()
        return int(pid), address


# --- the process that makes the others


def main() -> None:
    """Do what the lines of stdin say, until it ends."""
    importlib.import_module("distributed")
    children: set[int] = set()
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        answer = _kill(request["kill"], children) if "kill" in request else _start(request, children)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    for pid in list(children):
        _kill(pid, children)


def _kill(pid: int, children: set[int]) -> str:
    if pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        children.discard(pid)
    return "killed"


def _start(request: dict[str, Any], children: set[int]) -> str:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        # Its own: to close ours here would move the position of both.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        try:
            asyncio.run(_serve(request, writer))
        finally:
            os._exit(0)
    os.close(writer)
    children.add(pid)
    with os.fdopen(reader) as output:
        return f"{pid} {output.readline()}".strip()


async def _serve(request: dict[str, Any], writer: int) -> None:
    from dask import config
    from distributed import Scheduler, Worker

    os.environ.update(request["env"])
    tempfile.tempdir = None
    refresh: Any = config.refresh  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    refresh()
    if request["start"] == "scheduler":
        port, protocol = request["port"], request["protocol"]
        server: Any = Scheduler(host="127.0.0.1", port=port, protocol=protocol, dashboard=False)
    else:
        server = Worker(request["address"], nthreads=1, host="127.0.0.1", dashboard=False)
    async with server:
        address = server.address if request["start"] == "scheduler" else ""
        os.write(writer, f"{address}\n".encode())
        os.close(writer)
        await server.finished()


if __name__ == "__main__":
    main()
