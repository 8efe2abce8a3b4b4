"""A small helper process that ends the child processes when this process is killed or crashes.

It has the read end of a pipe whose write end only this process has. While this process lives, it sleeps. When it is no
longer needed, it is released. If the pipe closes without that, it terminates the groups that it watches and every
process with the marker, waits up to a second, and kills what is left.

It is a shell script because a shell starts in a millisecond, needs a megabyte and is on every POSIX system. It runs in
its own session, so that signals to this process's terminal or group do not reach it. Its environment is empty, so that
it never finds itself.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from contextlib import suppress
from weakref import WeakSet

from duologue.transports.process.exit_watcher import ExitWatcher
from duologue.transports.process.process_tree import Process

SHELL = "/bin/sh"
LEAVE_SECONDS = 1.0
"""It exits in a millisecond; one that does not is stopped or broken, and is killed."""

SCRIPT = r"""
trap '' HUP INT TERM
token=$1
groups=
while read -r word group started; do
    case $word in
        watch) groups="$groups $group:$started" ;;
        leave) exit 0 ;;
    esac
done

# A group is the right one while its leader is the known one or has ended: its id is not reused while members live.
is_ours() {
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
    started=$2
    set -- ${stat##*) }
    [ "$started" = 0 ] || [ "$started" = "${20}" ]
}

# Succeeds if there was a process to signal.
signal_all() {
    status=1
    for entry in $groups; do
        group=${entry%%:*}
        is_ours "$group" "${entry#*:}" && kill -s "$1" -- "-$group" && status=0
    done
    for file in $(grep -lsaF -- "$token" /proc/[0-9]*/environ); do
        pid=${file#/proc/}
        kill -s "$1" -- "${pid%/environ}" && status=0
    done
    return $status
}

# All have ended when two scans in a row find none: during an exec a process shows no environment. Without any group,
# the owner died while it started a child, which may appear only now.
look_again() {
    if signal_all "$1"; then misses=0; else misses=$((misses + 1)); fi
    [ $misses -lt 2 ] || [ -z "$groups" ] || exit 0
}

exec 2>/dev/null
misses=0
look_again TERM
signal_all CONT
for pause in 0.05 0.1 0.2 0.3 0.35; do
    sleep $pause
    look_again 0
done
for pause in 0.05 0.1 0.2 0.3 0.4; do
    look_again KILL
    sleep $pause
done
"""

log = logging.getLogger(__name__)


class Guard:
    """End the watched children if this process is killed. Start it before the first of them."""

    def __init__(self, token: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if sys.platform == "win32":
            return
        read_end, self._pipe = os.pipe()
        try:
            self._process = subprocess.Popen(
                [SHELL, "-c", SCRIPT, "duologue-guard", token],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        except FileNotFoundError:
            os.close(self._pipe)
            log.warning("%s does not exist: child processes are not ended if this process is killed", SHELL)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(read_end)
        if self._process is not None:
            _running.add(self)

    def watch(self, leader: Process) -> None:
        """Watch the process group that this process leads."""
        self._write(f"watch {leader.pid} {leader.started}\n")

    async def release(self) -> None:
        """Stop the guard, and wait until it has exited."""
        if self._process is not None:
            self._stop()
            with ExitWatcher(self._process) as watch:
                await watch.exit_within(LEAVE_SECONDS)
            self._reap()

    def release_now(self) -> None:
        """Stop the guard without an event loop."""
        if self._process is not None:
            self._stop()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LEAVE_SECONDS)
            self._reap()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _stop(self) -> None:
        if self in _running:
            _running.discard(self)
            self._write("leave\n")
            os.close(self._pipe)

    def _write(self, line: str) -> None:
        if self._process is not None:
            with suppress(BrokenPipeError):
                os.write(self._pipe, line.encode())

    def _forget(self) -> None:
        os.close(self._pipe)
        self._process = None


_running: WeakSet[Guard] = WeakSet()


def _close_pipes_after_fork() -> None:
    """Close the pipes in a forked copy: the guards would not notice the end of this process."""
    for guard in list(_running):
        _running.discard(guard)
        guard._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_pipes_after_fork)
