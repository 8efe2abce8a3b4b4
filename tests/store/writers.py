"""Processes that write to a store until they are killed.

Starting Python takes longer than what is tested, so one process is started and forks a writer on request. It says on
its standard output what its writers do: `pid N`, `ready`, `ack N`, `done`, `gone`, each line with the writer's number.
"""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from duologue.conversation.updates import MessageChunk
from duologue.errors import ResourceNotFound
from duologue.store.sqlite.store import SqliteStore
from tests.store.messages import info, numbered

__all__ = ["Writer", "Writers"]

WAIT_SECONDS = 60.0
"""Seconds that a test waits for a line before it fails."""


class Writer:
    """One process that writes."""

    def __init__(self, writers: Writers, number: int) -> None:
        self.pid = 0
        self.lines: list[str] = []
        self._writers = writers
        self._number = number

    def wait_for(self, word: str) -> str:
        """Until the writer has said a line that begins so, which is new since the last call."""
        return self._writers.wait_for(self._number, word)

    def acknowledged(self) -> int:
        """Return the last number whose commit succeeded."""
        self._writers.listen(0)
        return max((int(line.split()[1]) for line in self.lines if line.startswith("ack")), default=0)

    def listen(self, seconds: float) -> None:
        """Go on hearing what it says for so long."""
        self._writers.listen(seconds)

    def kill(self) -> None:
        """End it by SIGKILL, and hear what it said before."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait_for("gone")


class Writers:
    """The process that forks them."""

    def __init__(self) -> None:
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.writers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
        )
        self._started: list[Writer] = []
        self._received = b""
        self._unread: list[tuple[int, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=WAIT_SECONDS)

    def start(self, directory: Path, session_id: str, *, holds: bool = False, commits: int = 10**9) -> Writer:
        """Start a writer that commits this many times, or only locks the session."""
        writer = Writer(self, len(self._started))
        self._started.append(writer)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{directory}\t{session_id}\t{0 if holds else commits}\n".encode())
        self._process.stdin.flush()
        writer.pid = int(writer.wait_for("pid").split()[1])
        return writer

    def wait_for(self, number: int, word: str) -> str:
        while True:
            for index, (writer, line) in enumerate(self._unread):
                if writer == number and line.startswith(word):
                    del self._unread[index]
                    return line
            if not self.listen(WAIT_SECONDS):
                raise TimeoutError(f"writer {number} never said {word!r}, but {self._started[number].lines}")

    def listen(self, seconds: float) -> bool:
        """Take what is there, or what comes within so many seconds."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if not select.select([descriptor], [], [], seconds)[0]:
            return False
        self._received += os.read(descriptor, 1 << 16)
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            writer, _, text = line.decode().partition(" ")
            self._started[int(writer)].lines.append(text)
            self._unread.append((int(writer), text))
        return bool(lines)


async def write(directory: Path, session_id: str, commits: int, report: Callable[[str], None]) -> None:
    """Go on where the session stands, with as many events in each commit as chance has it."""
    async with SqliteStore(directory) as store:
        try:
            log = await store.open(session_id)
        except ResourceNotFound:
            log = await store.create(info(session_id))
        number = 0
        async for update in store.replay(session_id):
            assert isinstance(update, MessageChunk)
            number = int(update.message_id or 0)
        report("ready")
        if commits == 0:
            await asyncio.Event().wait()
        for _ in range(commits):
            for _ in range(random.randint(1, 4)):
                number += 1
                log.append(numbered(number))
            log.save_state("number", str(number).encode())
            await log.commit()
            report(f"ack {number}")
    report("done")


def main() -> None:
    """Fork a writer for each line that comes in, and see them all to their end."""
    writers: dict[int, tuple[int, int]] = {}
    orders = sys.stdin.fileno()
    count = 0
    while True:
        for descriptor in select.select([orders, *writers], [], [])[0]:
            if descriptor != orders:
                number, pid = writers.pop(descriptor)
                os.close(descriptor)
                os.waitpid(pid, 0)
                _report(number, "gone")
                continue
            order = os.read(orders, 4096)
            if not order:
                for _, pid in writers.values():
                    os.kill(pid, signal.SIGKILL)
                return
            for line in order.decode().splitlines():
                descriptor, pid = _fork(count, line)
                writers[descriptor] = count, pid
                _report(count, f"pid {pid}")
                count += 1


def _fork(number: int, line: str) -> tuple[int, int]:
    """Start a writer; yield it with a descriptor that reaches its end when the writer ends."""
    end, held = os.pipe()
    pid = os.fork()
    if pid:
        os.close(held)
        return end, pid
    try:
        random.seed()
        directory, session_id, commits = line.split("\t")
        asyncio.run(write(Path(directory), session_id, int(commits), lambda text: _report(number, text)))
    except Exception as error:
        _report(number, f"failed {error!r}")
    finally:
        os._exit(0)


def _report(number: int, text: str) -> None:
    # One write, so that the lines of several processes do not mix.
    os.write(1, f"{number} {text}\n".encode())


if __name__ == "__main__":
    main()
