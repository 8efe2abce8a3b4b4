"""Wait for the end of processes that are not children of this one."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from pathlib import Path

from tests.evals.run.test_kills import processes_below


def left_processes(directory: Path, *words: str, seconds: float = 60.0) -> list[str]:
    """Return the command lines of processes of a directory that have not ended in time; only those with these words."""
    deadline = time.monotonic() + seconds
    while True:
        found = [line for line in processes_below(directory) if not words or any(word in line for word in words)]
        if not found or time.monotonic() > deadline:
            return found
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace") in found:
                    _wait_for(int(path.name), deadline - time.monotonic())


def _wait_for(pid: int, seconds: float) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        select.select([descriptor], [], [], max(0.0, seconds))
    finally:
        os.close(descriptor)
