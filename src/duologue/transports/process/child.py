"""Start, watch and stop a child process with all its descendants.

start    the guard first, then the child in its own session and group; it inherits descriptors 0, 1 and 2 only
watch    its end is known from its exit status, never from the end of its output
stop     close its input, wait, SIGTERM, wait, SIGKILL; each to its group and to every descendant outside the group
reap     last of all: until then its pid and its group cannot be reused
crash    if this process is killed the guard ends them; if it exits without stopping them an exit hook does

"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from duologue.errors import StartError
from duologue.transports.process import process_tree as tree
from duologue.transports.process.command import explain_failure
from duologue.transports.process.environment import owned_by
from duologue.transports.process.exit_watcher import ExitWatcher
from duologue.transports.process.guard import Guard
from duologue.transports.process.process_tree import Process

POLL_SECONDS = 0.01
EXEC_SECONDS = 0.002
"""During an exec a process shows no environment: two empty scans this far apart mean that none is left."""

KILL_ROUNDS = 8
"""Scans for descendants while killing; a process that forks as it dies is caught by the next one."""

log = logging.getLogger(__name__)


class ShutdownTimeouts(Struct, frozen=True):
    """How long each step of stopping a child may take, in seconds.

    Attributes:
        after_close: For it to exit by itself after its input was closed.
        after_terminate: For it to exit after SIGTERM.
        after_kill: For the kernel to end what was killed.
    """

    after_close: float = 2.0
    after_terminate: float = 2.0
    after_kill: float = 2.0


UNRESPONSIVE = ShutdownTimeouts(after_close=0.5, after_terminate=0.5)
"""For a child that has ignored requests until its time was over."""


class Child:
    """One child process with its descendants; start it inside a running event loop and `stop()` it.

    Args:
        command: The program and its arguments; no shell is involved.
        stdin: Descriptor that becomes its standard input. The caller keeps it and closes it. Same for the next two.
        stdout: Descriptor for its standard output.
        stderr: Descriptor for its standard error.
        env: Its whole environment, to which the marker of its owner is added.
        cwd: Its working directory; by default that of this process.
        timeouts: How long `stop()` waits at each step.
        on_exit: Called once when it ends.

    Attributes:
        timeouts: How long `stop()` waits at each step.
        escaped: Processes that survived SIGKILL; filled by `stop()`.

    Raises:
        StartError: It could not be started; nothing is left behind.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        timeouts: ShutdownTimeouts | None = None,
        on_exit: Callable[[], None] | None = None,
    ) -> None:
        self.command = list(command)
        self.escaped: list[Process] = []
        self.timeouts = timeouts or ShutdownTimeouts()
        self._token = os.urandom(16).hex()
        self._descendants: set[Process] = set()
        self._owner_pid = os.getpid()
        self._is_reaped = False
        env = owned_by(self._token, env)
        try:
            self._guard = Guard(self._token)
        except OSError as error:
            raise StartError(f"cannot start the guard of {self.command[0]!r}: {error}") from error
        try:
            self._process = subprocess.Popen(
                self.command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, start_new_session=True
            )
        except (OSError, ValueError) as error:
            self._guard.release_now()
            raise explain_failure(self.command, env, cwd, error) from error
        self._guard.watch(tree.identify(self.pid) or Process(self.pid, 0))
        try:
            self._watch = ExitWatcher(self._process, on_exit)
        except OSError as error:
            self._kill()
            self._process.wait()
            self._guard.release_now()
            raise StartError(f"cannot watch {self.command[0]!r}: {error}") from error
        _running.add(self)

    @property
    def token(self) -> str:
        """A text that is in the environment of each of its descendants."""
        return self._token

    @property
    def pid(self) -> int:
        """Its process id, which is also its group and its session."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; then its exit code, or minus the number of the signal that ended it."""
        return self._watch.status

    async def exit(self) -> int:
        """Wait until it ends; return its `returncode`."""
        return await self._watch.exit()

    async def stop(self, close_input: Callable[[], None]) -> None:
        """End it and its descendants, with more force at each step; if cancelled, kill them at once."""
        # A forked copy of this process inherits this object, but not the child.
        if self._is_reaped or os.getpid() != self._owner_pid:
            return
        try:
            self._descendants.update(tree.descendants(self.pid))
            close_input()
            await self._watch.exit_within(self.timeouts.after_close)
            if not await self._stays_ended():
                self._terminate()
                await self._wait_until_ended(self.timeouts.after_terminate)
                for _ in range(KILL_ROUNDS):
                    if await self._stays_ended():
                        break
                    self._kill()
                    await self._wait_until_ended(self.timeouts.after_kill / KILL_ROUNDS)
            self._reap()
            await self._guard.release()
        finally:
            self.kill_now()

    def kill_now(self) -> None:
        """Kill it and its descendants at once, without an event loop."""
        if os.getpid() != self._owner_pid:
            return
        if not self._is_reaped:
            for _ in range(KILL_ROUNDS):
                self._kill()
                if self._watch.wait_now(self.timeouts.after_kill / KILL_ROUNDS) and self._has_ended():
                    time.sleep(EXEC_SECONDS)
                    if self._has_ended():
                        break
            self._reap()
        self._guard.release_now()

    def _reap(self) -> None:
        """Reap it, after a last signal to its group for members that no scan can see."""
        self._kill()
        self.escaped = sorted(self._descendants)
        if self.escaped:
            log.warning("%s: still alive after SIGKILL: %s", self.command[0], [process.pid for process in self.escaped])
        self._watch.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0)
        self._is_reaped = True
        _running.discard(self)

    def _has_ended(self) -> bool:
        """Return whether it, its known descendants and all processes with its marker have ended."""
        self._descendants.update(tree.find_by_marker(self._token))
        self._descendants = {process for process in self._descendants if tree.is_alive(process)}
        return self._watch.status is not None and not self._descendants

    async def _stays_ended(self) -> bool:
        if not self._has_ended():
            return False
        await asyncio.sleep(EXEC_SECONDS)
        return self._has_ended()

    async def _wait_until_ended(self, seconds: float) -> None:
        """Wait until all known processes have ended, or time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._watch.exit()
                # The end of processes that are not direct children is not reported.
                while any(map(tree.is_alive, self._descendants)):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)

    def _terminate(self) -> None:
        # On Windows closing its input was the only request to exit.
        if sys.platform != "win32":
            self._signal(signal.SIGTERM)
            # A stopped process would not handle SIGTERM.
            self._signal(signal.SIGCONT)

    def _kill(self) -> None:
        if sys.platform == "win32":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(self.pid)], capture_output=True, check=False)
        else:
            self._signal(signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> None:
        """Signal its group and all known descendants."""
        if not self._is_reaped:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signum)
        for process in self._descendants:
            tree.send_signal(process, signum)


_running: set[Child] = set()

EXIT_SECONDS = 1.0
"""For all children that were never stopped to exit by themselves as the program ends."""


def _end_running() -> None:
    """End the children that were never stopped."""
    running = [child for child in _running if child._owner_pid == os.getpid()]
    if not running:
        return
    names = ", ".join(f"{child.command[0]} (pid {child.pid})" for child in running)
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"duologue: never closed, ended with the program: {names}\n")
    for child in running:
        child._terminate()
    for child in running:
        child._watch.wait_now(EXIT_SECONDS / len(running))
    for child in running:
        child.kill_now()


atexit.register(_end_running)
