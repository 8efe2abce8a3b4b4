"""Start a command in place of another program, pass its bytes on unchanged, and give a recorder a copy.

Threads copy the bytes, one for each stream, because they may block: a client or an agent that does not read stops the
other exactly as it would without the tap. The recorder is never waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Protocol

from duologue.recording.format import FrameDirection
from duologue.transports.process.child import Child, ShutdownTimeouts
from duologue.transports.process.environment import inherited

STDIN, STDOUT, STDERR = range(3)
CHUNK = 64 * 1024
"""Bytes that are read at once: the size of a pipe."""
SWITCH_SECONDS = 0.0005
"""How long the recorder may run before a thread that copies bytes gets its turn."""
LAST_OUTPUT_SECONDS = 1.0
"""How long output is still copied after the agent has ended, if a descendant of it holds the pipe open."""
FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
NO_INPUT = ShutdownTimeouts(after_close=0.0)

_log = logging.getLogger("duologue.relay")


class StreamRecorder(Protocol):
    """Receives copies of the bytes; its methods must return at once."""

    def add_bytes(self, direction: FrameDirection, data: bytes) -> None: ...
    def add_stderr(self, data: bytes) -> None: ...
    def add_exit(self, exit_code: int) -> None: ...


class ByteTap:
    """Runs a command on this process's stdin, stdout and stderr.

    Args:
        command: The command; it gets the signals, the environment and the working directory of this process.
        recorder: Receives copies of all bytes.
        env: Environment variables to add.
        wire: Descriptors to use instead of stdin and stdout.
    """

    def __init__(
        self,
        command: Sequence[str],
        recorder: StreamRecorder,
        env: Mapping[str, str] | None = None,
        *,
        wire: tuple[int, int] = (STDIN, STDOUT),
    ) -> None:
        self._command = command
        self._recorder = recorder
        self._env = inherited(env)
        self._wire = wire

    def run(self) -> int:
        """Run the command until it ends; return its exit code, negative for a signal.

        Raises:
            StartError: The command cannot be started.
        """
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            return asyncio.run(self._run())
        finally:
            sys.setswitchinterval(before)

    async def _run(self) -> int:
        pipes = [os.pipe() for _ in range(3)]
        (child_in, to_child), (from_child, child_out), (errors, child_err) = pipes
        try:
            child = Child(
                self._command, stdin=child_in, stdout=child_out, stderr=child_err, env=self._env, timeouts=NO_INPUT
            )
        finally:
            for descriptor in (child_in, child_out, child_err):
                os.close(descriptor)
        with _forwarded_signals(child.pid):
            recorder = self._recorder
            stdin, stdout = self._wire
            _start(stdin, to_child, partial(recorder.add_bytes, "to_agent"))
            output = _start(from_child, stdout, partial(recorder.add_bytes, "to_client"))
            log = _start(errors, STDERR, recorder.add_stderr)
            code = await child.exit()
            await asyncio.to_thread(_join, (output, log), LAST_OUTPUT_SECONDS)
        recorder.add_exit(code)
        await child.stop(lambda: None)
        return code


@contextlib.contextmanager
def _forwarded_signals(pid: int) -> Generator[None]:
    """Send the signals that this process gets to another one."""
    loop = asyncio.get_running_loop()
    numbers = [signal.Signals[name] for name in FORWARDED if hasattr(signal, name)] if os.name == "posix" else []
    for number in numbers:
        loop.add_signal_handler(number, _send, pid, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _start(source: int, sink: int, observe: Callable[[bytes], None]) -> threading.Thread:
    thread = threading.Thread(target=_copy, args=(source, sink, observe), daemon=True)
    thread.start()
    return thread


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _copy(source: int, sink: int, observe: Callable[[bytes], None]) -> None:
    """Copy bytes until one of the ends is closed, then close the other, as if there were one pipe.

    Stderr stays open: this program has something to say there, too.
    """
    with contextlib.suppress(OSError):
        while data := _read(source):
            try:
                observe(data)
            except Exception:
                _log.exception("the recorder failed")
            _write(sink, data)
    _close(source)
    if sink != STDERR:
        _close(sink)


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, CHUNK)
        except BlockingIOError:
            select.select([source], [], [])


def _write(sink: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(sink, rest) :]
        except BlockingIOError:
            select.select([], [sink], [])


def _close(descriptor: int) -> None:
    """Close a descriptor; a standard one is replaced, so that no other file gets its number."""
    if descriptor > STDERR:
        os.close(descriptor)
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor)
    os.close(nothing)
