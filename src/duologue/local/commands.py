"""Run commands on this machine: without a shell, supervised, and stopped with every process they started.

A command's stdin is empty, its stdout and stderr are one stream, and its environment holds a safe minimum plus given
variables, so no API key leaks. It ends when its own process ends, even if a background child keeps the output open;
`release()` stops that child too. If this process is killed, a guard stops them all (see `transports.process.child`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

if sys.platform != "win32":
    import pty as ptys
    import termios

from duologue.errors import CommandNotFound, StartError
from duologue.local.output_tail import OutputTail
from duologue.local.process_limit import ProcessLimit
from duologue.transports.process.child import Child, ShutdownTimeouts
from duologue.transports.process.environment import OWNER, owned_by, safe
from duologue.transports.process.process_tree import Process
from duologue.transports.stdio.fd_streams import open_reader, read_rest

OUTPUT_LIMIT = 1024 * 1024
"""Bytes of output that are kept."""
GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL."""
QUIET_SECONDS = 0.05
QUIET_ROUNDS = 20
"""How often a terminal is checked for more output after its command has ended, while a child keeps writing."""
MAX_PROCESSES = 1000
"""More than any build needs at once, fewer than a machine can bear."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommandExit:
    """How a command ended: with an exit code, or by a signal, named as in `SIGTERM`."""

    exit_code: int | None = None
    signal: str | None = None


class RunningCommand:
    """A running or ended command, made by `RunningCommand.start`; release it, or use it with `async with`.

    Attributes:
        argv: The program and its arguments.
    """

    def __init__(self, argv: Sequence[str], tail: OutputTail, *, is_pty: bool) -> None:
        self.argv = list(argv)
        self._tail = tail
        self._is_pty = is_pty
        self._child: Child | None = None
        self._process_limit: ProcessLimit | None = None
        self._reader: asyncio.ReadTransport | None = None
        self._ended = asyncio.Event()
        self._stopping = asyncio.Lock()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | Path,
        env: Mapping[str, str] | None = None,
        output_limit: int = OUTPUT_LIMIT,
        pty: bool = False,
        on_output: Callable[[bytes], None] | None = None,
        grace: float = GRACE_SECONDS,
        max_processes: int = MAX_PROCESSES,
    ) -> Self:
        """Start a command and return without waiting for its end.

        Args:
            argv: The program and its arguments; no shell interprets them.
            cwd: Its working directory.
            env: Variables added to the safe minimum.
            output_limit: Bytes of output to keep; older ones are dropped.
            pty: Connect its output to a terminal of 80 by 24 instead of a pipe.
            on_output: Called with each piece of output as it arrives.
            grace: Seconds between SIGTERM and SIGKILL.
            max_processes: Processes it may have at once; a command that has more is killed.

        Raises:
            CommandNotFound: The command does not exist, or is not executable.
            StartError: It could not be started for another reason.
        """
        if not argv or not argv[0]:
            raise CommandNotFound("the command is empty")
        command = cls(argv, OutputTail(output_limit, on_output), is_pty=pty)
        token = secrets.token_hex(16)
        timeouts = ShutdownTimeouts(after_close=0, after_terminate=grace)
        await command._launch(cwd, owned_by(token, _environment(env or {})), timeouts)
        command._process_limit = ProcessLimit(token, max_processes, command._stop_excess_processes)
        return command

    async def _launch(self, cwd: str | Path, env: Mapping[str, str], timeouts: ShutdownTimeouts) -> None:
        ours, theirs = _open_output(self.argv[0], is_pty=self._is_pty)
        try:
            self._child = Child(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                env=env,
                cwd=cwd,
                timeouts=timeouts,
                on_exit=self._exited,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        try:
            self._reader = await (_read_pty if self._is_pty else open_reader)(ours, self._tail)
        except BaseException:
            self._child.kill_now()
            raise
        if self._child.returncode is not None:
            self._exited()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.release()

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group and session."""
        return self._started.pid

    @property
    def exit(self) -> CommandExit | None:
        """How the command ended; None while it runs."""
        return self._status() if self._ended.is_set() else None

    @property
    def escaped(self) -> list[Process]:
        """Processes that survived even SIGKILL; known after `kill()` or `release()`."""
        return self._started.escaped

    def output(self) -> tuple[str, bool]:
        """Return the newest output, at most `output_limit` bytes of UTF-8, and whether older output was dropped."""
        return self._tail.text(is_final=self._ended.is_set())

    async def wait(self) -> CommandExit:
        """Wait until the command's process ends; any number of callers may wait, also after its release."""
        await self._ended.wait()
        return self._status()

    async def kill(self) -> None:
        """Stop the command and everything it started: SIGTERM, then SIGKILL. Output and exit status are kept."""
        async with self._stopping:
            if self._process_limit is not None:
                self._process_limit.close()
            try:
                await self._started.stop(lambda: None)
            finally:
                # If `stop` was cancelled, the exit callback was not called.
                self._exited()
            await self._ended.wait()

    async def release(self) -> None:
        """Stop the command as `kill()` does, and close its output. A second call does nothing."""
        try:
            await self.kill()
        finally:
            if self._reader is not None:
                self._reader.close()
        await self._tail.gone.wait()
        self._ended.set()

    aclose = release

    @property
    def _started(self) -> Child:
        assert self._child is not None
        return self._child

    def _exited(self) -> None:
        """Read the rest of the output after the process has ended, then mark the command as ended."""
        if self._reader is None:
            return  # It ended while its output was being opened; `_launch` calls this again.
        if self._is_pty:
            self._settle(QUIET_ROUNDS)
            return
        with suppress(OSError):
            self._tail.data_received(read_rest(self._reader))
        self._ended.set()

    def _settle(self, rounds: int, received: int = -1) -> None:
        """Wait until a terminal hangs up or stops sending output, because it passes output on with a delay."""
        if self._tail.gone.is_set() or self._tail.received == received or not rounds:
            self._ended.set()
        else:
            later = asyncio.get_running_loop().call_later
            later(QUIET_SECONDS, self._settle, rounds - 1, self._tail.received)

    def _stop_excess_processes(self) -> None:
        log.warning("%s started too many processes and was killed", self.argv[0])
        self._started.kill_now()
        self._exited()

    def _status(self) -> CommandExit:
        status = self._started.returncode
        if status is None:
            return CommandExit(signal="SIGKILL")  # It survived even that; `escaped` lists what is left.
        if status >= 0:
            return CommandExit(exit_code=status)
        with suppress(ValueError):
            return CommandExit(signal=signal.Signals(-status).name)
        return CommandExit(signal=f"SIG{-status}")


def _environment(named: Mapping[str, str]) -> dict[str, str]:
    for name, value in named.items():
        if not name or "=" in name or "\0" in name + value:
            raise StartError(f"invalid environment variable: {name!r}")
    # The process that owns this one finds its descendants by this marker.
    mark = {OWNER: os.environ[OWNER]} if OWNER in os.environ else {}
    return {**safe(named), **mark}


def _open_output(program: str, *, is_pty: bool) -> tuple[int, int]:
    """Open the pipe or terminal for the output; return our end and the command's end."""
    try:
        if not is_pty:
            return os.pipe()
        if sys.platform == "win32":
            raise StartError("commands cannot run in a terminal on Windows")
        ours, theirs = ptys.openpty()
        # Pass the output on unchanged: without carriage returns.
        mode = termios.tcgetattr(theirs)
        mode[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, mode)
        termios.tcsetwinsize(theirs, (24, 80))
    except OSError as error:
        raise StartError(f"cannot start {program!r}: {error}") from error
    return ours, theirs


async def _read_pty(fd: int, tail: OutputTail) -> asyncio.ReadTransport:
    """Read our end of a terminal, which the event loop handles like a pipe."""
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: tail, os.fdopen(fd, "rb", 0))
    return transport
