"""A tiny process beside our children that ends them when we vanish without a word.

It holds the read end of a pipe whose write end only we hold. While we live it sleeps. When we are done we dismiss it.
If the pipe closes without a dismissal, we were killed or crashed: it terminates the groups it was told of and every
process that carries our token, waits up to a second, and kills what is left.

It is a shell script because a shell starts in a millisecond, needs a megabyte and is on every POSIX system. It runs in
a session of its own, so that what hits our terminal or our group does not hit it. Its own environment is empty, so that
it never finds itself.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from contextlib import suppress
from weakref import WeakSet

from duologue.transports.process.exit_watcher import ExitWatch
from duologue.transports.process.process_tree import Process

__all__ = ["Guard"]

SHELL = "/bin/sh"
LEAVE_SECONDS = 1.0
"""It leaves in a millisecond; one that does not is stopped or broken, and is killed."""

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

# A group is ours while its leader is the one we know, or has ended: its number stays taken as long as members live.
is_ours() {
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
    started=$2
    set -- ${stat##*) }
    [ "$started" = 0 ] || [ "$started" = "${20}" ]
}

# Succeeds if there was anyone to signal.
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

# Everybody is gone when two looks in a row find nobody: in the middle of an exec a process shows no environment. If we
# were never told of a group, our owner died while starting a child, which may show up only now.
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
    """Ends the children it watches if we vanish. Start it before the first of them."""

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
            log.warning("no %s here: children are not ended if this process is killed", SHELL)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(read_end)
        if self._process is not None:
            _on_duty.add(self)

    def watch(self, leader: Process) -> None:
        """Watch over the process group this process leads."""
        self._tell(f"watch {leader.pid} {leader.started}\n")

    async def release(self) -> None:
        """Send it away; when this returns it has left."""
        if self._process is not None:
            self._send_away()
            with ExitWatch(self._process) as watch:
                await watch.exit_within(LEAVE_SECONDS)
            self._reap()

    def release_now(self) -> None:
        """The same without an event loop."""
        if self._process is not None:
            self._send_away()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LEAVE_SECONDS)
            self._reap()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _send_away(self) -> None:
        if self in _on_duty:
            _on_duty.discard(self)
            self._tell("leave\n")
            os.close(self._pipe)

    def _tell(self, line: str) -> None:
        if self._process is not None:
            with suppress(BrokenPipeError):
                os.write(self._pipe, line.encode())

    def _forget(self) -> None:
        os.close(self._pipe)
        self._process = None


_on_duty: WeakSet[Guard] = WeakSet()


def _forget_guards_of_the_parent() -> None:
    """A forked copy of us must not hold the pipe: the guard would think that we still live."""
    for guard in list(_on_duty):
        _on_duty.discard(guard)
        guard._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_guards_of_the_parent)
