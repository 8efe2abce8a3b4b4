"""Confine an agent with bubblewrap (`bwrap`): it writes in its own directories only, and its processes end with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import duologue
from duologue.evals.run.scratch import Scratch
from duologue.transports.process.command import CONFINED_BY

PROBE_SECONDS = 10.0

_SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent")


@cache
def obstacle() -> str:
    """Return why bubblewrap cannot be used on this machine; empty if it can."""
    if sys.platform != "linux":
        return "bubblewrap runs on Linux only"
    if shutil.which(CONFINED_BY) is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        ended = subprocess.run(
            [CONFINED_BY, *_SYSTEM, "true"],
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be run: {error}"
    message = ended.stderr.decode("utf-8", "replace").strip()
    return (
        "" if ended.returncode == 0 else f"bubblewrap does not work here: {message or f'exit code {ended.returncode}'}"
    )


def hint() -> str:
    """Return what a person can do if an agent does not start because it is confined."""
    return (
        f"\nIt was confined by bubblewrap: it sees nothing of {tempfile.gettempdir()} but what its command names, and "
        "writes in its own directories only. If it needs more, run it with `--sandbox none`"
    )


def prefix_of(scratch: Scratch, command: Sequence[str]) -> list[str]:
    """Return the words before a command that confine it to the directories of an attempt.

    The system's directory for temporary files is replaced by the agent's own, for programs that do not look at TMPDIR.
    What the command names in there stays visible, and so does this package, which the built-in agent is a part of.
    """
    shared = Path(tempfile.gettempdir()).resolve()
    named = [Path(word) for word in command if word.startswith("/")]
    programs = [Path(sys.prefix), Path(duologue.__file__).parents[1], *named]
    seen = [path for path in programs if path.is_relative_to(shared) and path.exists()]
    words = [CONFINED_BY, *_SYSTEM, "--bind", str(scratch.temporary), str(shared)]
    for path in dict.fromkeys(path.parent if path.is_file() else path for path in seen):
        words += ["--ro-bind", str(path), str(path)]
    for path in (scratch.workspace, scratch.home, scratch.temporary, scratch.runtime):
        words += ["--bind", str(path), str(path)]
    return [*words, "--"]
