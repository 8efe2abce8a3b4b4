"""The versions of the files that a command names: an agent that was started from another version is not handed out."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

MAX_WORDS = 1000
"""Words of a command that are looked at."""

Version = tuple[str, int, int, int]
"""Path, time of the last change in nanoseconds, size and inode."""


def file_versions(command: Sequence[str], cwd: str, env: Mapping[str, str]) -> list[Version]:
    """Return the versions of the program, of each argument that is a file, and of the module after `-m`."""
    return list(_versions(_paths(command[:MAX_WORDS], env), cwd))


def _paths(command: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    if not command:
        return
    program = command[0]
    yield program if os.sep in program else shutil.which(program, path=env.get("PATH")) or program
    for before, word in pairwise(command):
        yield word
        if word.startswith("-") and "=" in word:
            yield word.partition("=")[2]
        if ".py:" in word:  # an agent in a file
            yield word.partition(".py:")[0] + ".py"
        if before == "-m":
            module = word.replace(".", "/")
            yield from (f"{module}.py", f"{module}/__init__.py", f"{module}/__main__.py")


def _versions(paths: Iterable[str], cwd: str) -> Iterator[Version]:
    for path in paths:
        try:
            found = Path(cwd, path).stat()
        except (OSError, ValueError):  # most words are no file; some cannot be one
            continue
        if stat.S_ISREG(found.st_mode):
            yield path, found.st_mtime_ns, found.st_size, found.st_ino
