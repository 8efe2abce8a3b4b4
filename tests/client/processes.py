"""Whether a process is still there."""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_running"]


def is_running(pid: str) -> bool:
    """Return True if a process runs; a zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
