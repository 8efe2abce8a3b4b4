"""What a process has used, from Linux's `/proc`. Standard library only."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def cpu_seconds(pid: int | str) -> float:
    """CPU time of all threads in steps of a nanosecond; `stat` counts in steps of ten milliseconds."""
    threads = (PROC / str(pid) / "task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def resident_bytes(pid: int | str) -> int:
    """Memory it holds now."""
    return _status(pid, "VmRSS")


def peak_bytes(pid: int | str) -> int:
    """The most memory it ever held, or has held since `forget_peak`."""
    return _status(pid, "VmHWM")


def forget_peak() -> None:
    """From here on `peak_bytes` of this process speaks of now and later."""
    (PROC / "self" / "clear_refs").write_text("5")


def _status(pid: int | str, field: str) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return 0
