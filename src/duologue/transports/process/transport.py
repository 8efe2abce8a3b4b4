"""Frames over the stdin and stdout of a child process: how a client runs an agent."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from duologue.errors import AgentExited, ConnectionLost, StartError
from duologue.jsonrpc.framing import MAX_MESSAGE_BYTES
from duologue.sanitize import escape_bytes
from duologue.transports.buffered import MAX_QUEUED_BYTES, READ_AHEAD
from duologue.transports.process import environment
from duologue.transports.process.child import Child, ShutdownTimeouts
from duologue.transports.process.command import program_name, split_command
from duologue.transports.process.process_tree import Process
from duologue.transports.stdio.fd_streams import enlarge_pipe, open_reader, open_writer, read_rest
from duologue.transports.stdio.line_stream import LineStreamTransport
from duologue.transports.stdio.thread_io import ThreadReader

log = logging.getLogger(__name__)

TAIL_BYTES = 64 * 1024
"""Enough for the longest traceback."""

EXIT_AFTER_END_SECONDS = 0.5
"""A process that exits closes its stdout a moment before its status is known."""


class ProcessTransport(LineStreamTransport):
    """Frames to and from a child process, which runs from entering this transport to leaving it.

    Its whole tree of processes ends with it, even if this process is killed: see `docs/topics/processes.md`.

    Args:
        command: Program and arguments; a string is split like a shell would, but no shell runs.
        cwd: Its working directory; by default that of this process.
        env: Variables to set in addition to what it inherits.
        inherit_env: Whether it inherits the whole environment, or only the few variables that every program needs.
        on_stderr: Called with each piece of its stderr; the end of it is kept in any case.
        max_stderr_bytes: How much of the end of its stderr is kept.
        timeouts: How long stopping it may take.
        max_message_bytes: Longest frame that is received whole.
        max_queued_bytes: Output that may wait; four times as much ends the connection with `OutputLimitExceeded`.
        read_ahead: Bytes of received frames that may wait for `receive` before reading pauses.

    Attributes:
        timeouts: How long stopping it may take; what is set before `aclose()` counts.

    Raises:
        CommandNotFound: On entering: no such command, or it cannot be run.
        StartError: On entering: it could not be started for another reason.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = True,
        on_stderr: Callable[[bytes], None] | None = None,
        max_stderr_bytes: int = TAIL_BYTES,
        timeouts: ShutdownTimeouts | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        read_ahead: int = READ_AHEAD,
    ) -> None:
        super().__init__(max_message_bytes=max_message_bytes, max_queued_bytes=max_queued_bytes, read_ahead=read_ahead)
        self._command = command
        self._cwd = cwd
        self._env = environment.inherited(env) if inherit_env else environment.safe(env)
        self.timeouts = timeouts or ShutdownTimeouts()
        self._tail = StderrTail(on_stderr, max_stderr_bytes, self._stderr_ended)
        self._stderr: asyncio.ReadTransport | None = None
        self._child: Child | None = None

    async def __aenter__(self) -> Self:
        child, unopened = self._start()
        opened: list[asyncio.BaseTransport] = []
        self._child = child
        try:
            opened.append(stderr := await open_reader(unopened.pop(), self._tail))
            opened.append(reader := await open_reader(unopened.pop(), self._input))
            opened.append(writer := await open_writer(unopened.pop(), self._output))
        except BaseException:
            child.kill_now()
            for transport in opened:
                transport.close()
            for fd in unopened:
                os.close(fd)
            raise
        self._stderr = stderr
        self._attach(reader, writer)
        if child.returncode is not None:
            self._child_exited()
        return self

    def _start(self) -> tuple[Child, list[int]]:
        """Start the child; return it and the parent's ends of its stdin, stdout and stderr."""
        command = split_command(self._command)
        theirs: list[int] = []
        ours: list[int] = []
        try:
            for is_input in (True, False, False):
                read_end, write_end = os.pipe()
                theirs.append(read_end if is_input else write_end)
                ours.append(write_end if is_input else read_end)
            stdin, stdout, stderr = theirs
            enlarge_pipe(stdout)
            child = Child(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=self._env,
                cwd=self._cwd,
                timeouts=self.timeouts,
                on_exit=self._child_exited,
            )
        except BaseException as error:
            for fd in ours:
                os.close(fd)
            if isinstance(error, OSError):
                raise StartError(f"cannot start {command[0]!r}: {error}") from error
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        return child, ours

    @property
    def pid(self) -> int | None:
        """The process id, after it was started."""
        return self._child.pid if self._child is not None else None

    @property
    def returncode(self) -> int | None:
        """`None` while it runs; then its exit code, or minus the number of the signal that ended it."""
        return self._child.returncode if self._child is not None else None

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr until now, with all terminal control characters escaped."""
        if self._stderr is not None and (rest := read_rest(self._stderr)):
            self._tail.data_received(rest)
        return str(self._tail)

    @property
    def escaped(self) -> list[Process]:
        """Processes of its tree that survived SIGKILL, known after `aclose()`."""
        return self._child.escaped if self._child is not None else []

    async def exited(self) -> int:
        """Wait until the process ends; return its `returncode`."""
        if self._child is None:
            raise StartError("this transport was not entered yet")
        return await self._child.exit()

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._end(None)
        # Further output is read and dropped, or the process might wait for a reader instead of exiting.
        self._resume()
        try:
            if self._child is not None:
                self._child.timeouts = self.timeouts
                await self._child.stop(self._start_closing_writer)
        finally:
            self._drop()
            if self._stderr is not None:
                self._stderr.close()
        await self._until_gone()
        if self._stderr is not None:
            await self._tail.gone.wait()

    def _input_ended(self, error: Exception | None = None) -> None:
        """Wait a moment for the exit status, which says why its stdout ended."""
        if self._is_ended:
            return
        if self.returncode is None:
            asyncio.get_running_loop().call_later(EXIT_AFTER_END_SECONDS, self._stdout_ended_alone)
        else:
            self._child_exited()

    def _stdout_ended_alone(self) -> None:
        self._last_line()
        self._end(ConnectionLost("the agent closed its stdout but keeps running"))

    def _child_exited(self) -> None:
        """End the connection, after what its pipes contain now; a grandchild may keep them open."""
        if self._stderr is None or self._reader is None:
            return  # It ended while its pipes were being opened; `__aenter__` calls this again.
        if any(isinstance(each, ThreadReader) and not each.is_closing() for each in (self._reader, self._stderr)):
            # A thread reads until the end of its stream, which calls this again, or until time is up.
            asyncio.get_running_loop().call_later(EXIT_AFTER_END_SECONDS, self._conclude)
            return
        self._bytes_arrived(read_rest(self._reader))
        self._conclude()

    def _stderr_ended(self) -> None:
        """End the connection, if it waited only for the last of stderr."""
        if self.returncode is not None and not self._is_ended:
            self._child_exited()

    def _conclude(self) -> None:
        self._last_line()
        self._end(self._explain_exit())

    def _explain_exit(self) -> AgentExited:
        status = self.returncode
        assert status is not None
        assert self._child is not None
        name = program_name(self._child.command)
        if status >= 0:
            return AgentExited(f"{name!r} exited with code {status}", exit_code=status, stderr=self.stderr_tail)
        label = _signal_name(-status)
        return AgentExited(f"{name!r} was ended by {label}", signal=label, stderr=self.stderr_tail)


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


class StderrTail(asyncio.Protocol):
    """Read a child's stderr and keep the end of it.

    Args:
        on_data: Called with each piece of raw data. If it fails, that is logged once and it is not called again.
        limit: Bytes to keep.
        on_end: Called when nothing more can arrive.
    """

    def __init__(
        self,
        on_data: Callable[[bytes], None] | None = None,
        limit: int = TAIL_BYTES,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_data = on_data
        self._limit = limit
        self._on_end = on_end
        self._tail = bytearray()
        self.gone = asyncio.Event()

    def __str__(self) -> str:
        return escape_bytes(bytes(self._tail[-self._limit :]))

    def data_received(self, data: bytes) -> None:
        self._tail += data
        # Cut in large steps: one copy of the tail per `limit` bytes.
        if len(self._tail) > 2 * self._limit:
            del self._tail[: -self._limit]
        if self._on_data is not None:
            try:
                self._on_data(data)
            except Exception:
                self._on_data = None
                log.exception("the stderr callback failed; it is not called again")

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self._on_end()
