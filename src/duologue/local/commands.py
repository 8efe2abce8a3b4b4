"""A command on this machine: started without a shell, watched, and ended with everything it started.

Its input is empty, its output and errors come in one stream, and its environment holds what programs need to run plus
what was named: no key of ours by accident. It ends when its own process ends, even if a child in the background keeps
the output open; `release()` ends that child too. If we are killed, a guard ends them all (see `transports.child`).
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

__all__ = ["OUTPUT_LIMIT", "CommandExit", "RunningCommand"]

OUTPUT_LIMIT = 1024 * 1024
"""Bytes of output that are kept: more than anybody reads."""
GRACE_SECONDS = 2.0
"""For a command to leave by itself once it was asked with SIGTERM."""
QUIET_SECONDS = 0.05
QUIET_ROUNDS = 20
"""So often a terminal may still bring something after its command has ended, and somebody else goes on writing."""
MAX_PROCESSES = 1000
"""More than any build needs at once, fewer than a machine can stand."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommandExit:
    """How a command ended: by itself with a code, or by a signal, named as in `SIGTERM`."""

    exit_code: int | None = None
    signal: str | None = None


class RunningCommand:
    """A running or ended command, made by `Command.start`; release it, or use it with `async with`.

    Attributes:
        argv: The program and its arguments.
    """

    def __init__(self, argv: Sequence[str], tail: OutputTail, *, is_pty: bool) -> None:
        self.argv = list(argv)
        self._tail = tail
        self._is_pty = is_pty
        self._child: Child | None = None
        self._crowd: ProcessLimit | None = None
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
        """Start it, and return at once.

        Args:
            argv: The program and its arguments, passed as they are; no shell runs unless it is the program.
            cwd: Its working directory.
            env: Variables added to the few that every program needs.
            output_limit: Bytes of output to keep; the newest are kept.
            pty: Whether its output goes to a terminal of 80 by 24 rather than to a pipe.
            on_output: Called with each piece of output as it comes.
            grace: Seconds between asking it to end and killing it.
            max_processes: Processes it may have at once; one that has more is killed.

        Raises:
            CommandNotFound: No such command, or it may not be run.
            StartError: It could not be started for another reason. Nothing is left of it.
        """
        if not argv or not argv[0]:
            raise CommandNotFound("the command is empty")
        command = cls(argv, OutputTail(output_limit, on_output), is_pty=pty)
        token = secrets.token_hex(16)
        ladder = ShutdownTimeouts(after_close=0, after_terminate=grace)
        await command._launch(cwd, owned_by(token, _environment(env or {})), ladder)
        command._crowd = ProcessLimit(token, max_processes, command._stop_the_crowd)
        return command

    async def _launch(self, cwd: str | Path, env: Mapping[str, str], ladder: ShutdownTimeouts) -> None:
        ours, theirs = _open_output(self.argv[0], is_pty=self._is_pty)
        try:
            self._child = Child(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                env=env,
                cwd=cwd,
                ladder=ladder,
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
        """Its process id, which is also its group and its session."""
        return self._started.pid

    @property
    def exit(self) -> CommandExit | None:
        """How it ended; None while it runs."""
        return self._status() if self._ended.is_set() else None

    @property
    def escaped(self) -> list[Process]:
        """What outlived even SIGKILL; known after `kill()` or `release()`."""
        return self._started.escaped

    def output(self) -> tuple[str, bool]:
        """The newest output, at most `output_limit` bytes of UTF-8, and whether older output was dropped."""
        return self._tail.text(is_final=self._ended.is_set())

    async def wait(self) -> CommandExit:
        """Wait until its process ends; any number of callers may wait, also after it was released."""
        await self._ended.wait()
        return self._status()

    async def kill(self) -> None:
        """End it and everything it started: SIGTERM, a moment of grace, SIGKILL. Output and exit status stay."""
        async with self._stopping:
            if self._crowd is not None:
                self._crowd.close()
            try:
                await self._started.stop(lambda: None)
            finally:
                # Cancelled, the ladder ended without the event loop, which has not told us.
                self._exited()
            await self._ended.wait()

    async def release(self) -> None:
        """`kill()`, and let go of its output; what was kept of it stays. A second call does nothing."""
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
        """Its process has ended; it is over when all it said was read, even if somebody else holds its output open."""
        if self._reader is None:
            return  # It ended while its output was being opened; `_launch` comes back here.
        if self._is_pty:
            self._settle(QUIET_ROUNDS)
            return
        with suppress(OSError):
            self._tail.data_received(read_rest(self._reader))
        self._ended.set()

    def _settle(self, rounds: int, received: int = -1) -> None:
        """A terminal passes on what was written a moment later: wait until it hangs up or brings nothing more."""
        if self._tail.gone.is_set() or self._tail.received == received or not rounds:
            self._ended.set()
        else:
            later = asyncio.get_running_loop().call_later
            later(QUIET_SECONDS, self._settle, rounds - 1, self._tail.received)

    def _stop_the_crowd(self) -> None:
        log.warning("%s started too many processes and is killed", self.argv[0])
        self._started.kill_now()
        self._exited()

    def _status(self) -> CommandExit:
        status = self._started.returncode
        if status is None:
            return CommandExit(signal="SIGKILL")  # Not even that ended it; `escaped` says who is left.
        if status >= 0:
            return CommandExit(exit_code=status)
        with suppress(ValueError):
            return CommandExit(signal=signal.Signals(-status).name)
        return CommandExit(signal=f"SIG{-status}")


def _environment(named: Mapping[str, str]) -> dict[str, str]:
    for name, value in named.items():
        if not name or "=" in name or "\0" in name + value:
            raise StartError(f"no environment variable can be called or hold this: {name!r}")
    # Whoever owns us finds by this mark what we started.
    mark = {OWNER: os.environ[OWNER]} if OWNER in os.environ else {}
    return {**safe(named), **mark}


def _open_output(program: str, *, is_pty: bool) -> tuple[int, int]:
    """Our end and the command's end of its output."""
    try:
        if not is_pty:
            return os.pipe()
        if sys.platform == "win32":
            raise StartError("there are no terminals to run a command in on Windows")
        ours, theirs = ptys.openpty()
        # What the command writes arrives as it is: no carriage returns are added.
        mode = termios.tcgetattr(theirs)
        mode[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, mode)
        termios.tcsetwinsize(theirs, (24, 80))
    except OSError as error:
        raise StartError(f"cannot start {program!r}: {error}") from error
    return ours, theirs


async def _read_pty(fd: int, tail: OutputTail) -> asyncio.ReadTransport:
    """Read our end of a terminal, which the event loop can watch like a pipe."""
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: tail, os.fdopen(fd, "rb", 0))
    return transport
