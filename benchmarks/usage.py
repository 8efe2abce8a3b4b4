"""CPU time and memory of a process, from Linux's `/proc`. Standard library only."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def cpu_seconds(pid: int | str) -> float:
    """Return the CPU time of all threads, in nanoseconds; `stat` counts in steps of ten milliseconds."""
    threads = (PROC / str(pid) / "task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def resident_bytes(pid: int | str) -> int:
    """Return the resident memory."""
    return _status(pid, "VmRSS")


def peak_bytes(pid: int | str) -> int:
    """Return the peak of the resident memory, ever or since `forget_peak`."""
    return _status(pid, "VmHWM")


def forget_peak() -> None:
    """Reset the peak of this process that `peak_bytes` returns."""
    (PROC / "self" / "clear_refs").write_text("5")


def _status(pid: int | str, field: str) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return 0
