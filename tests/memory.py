"""The memory that a process has used, for tests of limits."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

__all__ = ["peak_bytes", "reset_peak"]


def peak_bytes(pid: int | str = "self") -> int:
    """Return the peak memory of a process: on Linux VmHWM, because `ru_maxrss` begins with the peak of the parent."""
    if sys.platform != "linux":
        assert pid == "self"
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def reset_peak() -> int:
    """Let the peak of this process begin at what it uses now, so that an earlier one hides nothing; return it."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()
