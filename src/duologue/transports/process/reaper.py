"""Run a command, and end every process that it leaves behind: `python reaper.py REPORT COMMAND ...`.

It is a program of its own that imports nothing of this package, so that it starts quickly. It is the "child subreaper"
of the command (Linux): processes whose parents have ended become its children, whatever they did to their group, their
session or their environment. When the command has ended, the command lines of those that are left are written to
REPORT, one on each line, and they are ended. Its exit status is that of the command.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
SETTLE_SECONDS = 0.25
"""Time for processes that end by themselves when the command has ended."""
TERMINATE_SECONDS = 0.5
"""Time between SIGTERM and SIGKILL."""
KILL_SECONDS = 2.0
"""Time for the kernel to end what was killed."""
MOST_LINES = 100
NOT_STARTED = 127


def main(report: str, command: list[str]) -> int:
    """Run the command; return its exit code, or end by the signal that ended it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pid = os.fork()
    if pid == 0:
        # The interpreter ignores these, and a program inherits what is ignored.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_STARTED)
    let_go_of_streams()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end_all)
    signal.signal(signal.SIGALRM, kill_all)
    status = wait_for(pid)
    wait_for_rest(SETTLE_SECONDS)
    left = [name for name in map(name_of, descendants()) if name]
    if left:
        with open(report, "a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in left[:MOST_LINES])
    end_rest()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def let_go_of_streams() -> None:
    """Close stdin and stdout here, so that their other ends see when the command closes them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def wait_for(pid: int) -> int:
    """Wait until the process has ended, and reap others meanwhile; return its status."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return status


def wait_for_rest(seconds: float, number: int = 0) -> bool:
    """Reap what ends in this time, and send it this signal again and again; return True if nothing is left."""
    end = time.monotonic() + seconds
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if not ended:
            if time.monotonic() > end:
                return False
            if number:
                signal_all(number)
            time.sleep(0.005)


def end_rest() -> None:
    """End all processes that are left, and reap them."""
    signal_all(signal.SIGTERM)
    signal_all(signal.SIGCONT)
    if not wait_for_rest(TERMINATE_SECONDS):
        wait_for_rest(KILL_SECONDS, signal.SIGKILL)


def end_all(number: int, frame: object) -> None:
    """Handle a signal to end: pass it on, and kill soon."""
    signal_all(signal.SIGTERM)
    signal.setitimer(signal.ITIMER_REAL, TERMINATE_SECONDS, 0.05)


def kill_all(number: int, frame: object) -> None:
    """Handle the end of that time."""
    signal_all(signal.SIGKILL)


def signal_all(number: int) -> None:
    """Signal all descendants."""
    for pid in descendants():
        try:
            os.kill(pid, number)
        except OSError:
            continue


def descendants() -> list[int]:
    """Return the process ids of all descendants."""
    found: list[int] = []
    parents = [os.getpid()]
    while parents:
        parent = parents.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                    children = [int(word) for word in file.read().split()]
                found += children
                parents += children
        except OSError:
            continue
    return found


def name_of(pid: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return " ".join(file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").split())
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
