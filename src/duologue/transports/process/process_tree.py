"""Find processes by descent or by the marker in their environment, and signal them without hitting any other.

A pid alone is not enough: the kernel reuses it. A process here is its pid *and* its start time, checked again under a
pidfd before each signal. Linux only; elsewhere nothing is found, and only the process group is signalled.
"""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from io import FileIO

from msgspec import Struct

SCAN_LIMIT = 256
"""Processes returned by one scan; if there are more, scan again."""


class Process(Struct, frozen=True, order=True):
    """One process, identified until the machine restarts."""

    pid: int
    started: int
    """In clock ticks since the machine started."""


def identify(pid: int) -> Process | None:
    """Return the process that has this pid now, or `None` if it has ended, even if it was not reaped yet."""
    stat = _read(pid, "stat")
    # The name is in parentheses and may contain anything, even a parenthesis.
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X", b"x"):
        return None
    return Process(pid, int(fields[19]))


def is_alive(process: Process) -> bool:
    """Return whether the process still runs."""
    return identify(process.pid) == process


def descendants(pid: int, limit: int = SCAN_LIMIT) -> list[Process]:
    """Return all descendants of a running process; those whose parent has ended are not found."""
    found: list[Process] = []
    parents = [pid]
    while parents and len(found) < limit:
        for child in _children(parents.pop()):
            if process := identify(child):
                found.append(process)
                parents.append(child)
    return found[:limit]


def find_by_marker(token: str, limit: int = SCAN_LIMIT) -> list[Process]:
    """Return every process whose environment contains the token, in any session or group."""
    wanted = token.encode()
    found: list[Process] = []
    for pid in _pids():
        # Checked again once it is identified: the pid may have been reused in between.
        if wanted in _read(pid, "environ") and (process := identify(pid)) and wanted in _read(pid, "environ"):
            found.append(process)
            if len(found) == limit:
                break
    return found


def send_signal(process: Process, signum: signal.Signals) -> None:
    """Signal exactly this process; if it has ended, do nothing."""
    with suppress(OSError):
        # The descriptor stays with one process; the check ensures that it is the right one.
        pidfd = open_pidfd(process.pid)
        try:
            if not is_alive(process):
                return
            if pidfd is None:
                os.kill(process.pid, signum)
            else:
                signal.pidfd_send_signal(pidfd, signum)
        finally:
            if pidfd is not None:
                os.close(pidfd)


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor of exactly this process, or `None` where pidfds do not exist.

    Raises:
        OSError: No such process, or too many open descriptors.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        # Old kernels lack it and some sandboxes forbid it; anything else is a real failure.
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return None
        raise


def _pids() -> list[int]:
    return [int(name) for name in _names("/proc") if name.isdigit()]


def _children(pid: int) -> list[int]:
    threads = _names(f"/proc/{pid}/task")
    return [int(child) for thread in threads for child in _read(pid, f"task/{thread}/children").split()]


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _read(pid: int, name: str) -> bytes:
    try:
        with FileIO(f"/proc/{pid}/{name}") as file:
            return file.readall()
    except OSError:
        return b""
