"""Packages of `web/` that its lock file pins, installed on first use."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

WEB = Path(__file__).parents[2] / "web"
NPM = shutil.which("npm")


def install() -> Path:
    """Install what the lock file says, unless that is installed already; return the directory of the packages."""
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = WEB / "node_modules" / ".lock-hash"
    # Tests of other processes may want the same.
    with (WEB / "package-lock.json").open("rb") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != lock:
            assert NPM is not None
            subprocess.run([NPM, "ci", "--no-audit", "--no-fund"], cwd=WEB, check=True, timeout=250)
            stamp.write_text(lock)
    return stamp.parent
