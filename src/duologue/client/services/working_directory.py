"""The working directory of a command: opened first, checked as what it is, and used through the descriptor."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from duologue.errors import InvalidParams

OPEN_FILES = "/proc/self/fd"
"""The open files of a process, on Linux. Elsewhere device and inode are compared before a command starts."""


@dataclass(frozen=True)
class WorkingDirectory:
    """A directory that is open.

    Attributes:
        path: Real path when it was opened, which the permission policy checks.
    """

    path: str
    _fd: int

    def start_path(self) -> str:
        """Return the path to start a command in.

        Raises:
            InvalidParams: The directory was moved, replaced or removed since it was opened.
        """
        if _path_of(self._fd) not in (None, self.path) or not _is_at(self._fd, self.path):
            raise InvalidParams(
                "cwd: the directory was moved or replaced before the command could start; send the request again"
            )
        handle = _handle(self._fd)
        return str(handle) if handle.is_symlink() else self.path


@contextmanager
def open_directory(cwd: str, roots: Sequence[str]) -> Generator[WorkingDirectory]:
    """Keep a directory open that is inside one of the roots.

    Raises:
        InvalidParams: It is not a directory, or outside.
    """
    outside = InvalidParams("cwd: not a directory inside the session's directories")
    if not cwd.startswith("/"):
        raise outside
    try:
        fd = os.open(cwd, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:
        raise outside from error
    try:
        real = _path_of(fd) or os.path.realpath(cwd)
        if not any(Path(real).is_relative_to(Path(root).resolve()) for root in roots) or not _is_at(fd, real):
            raise outside
        yield WorkingDirectory(real, fd)
    finally:
        os.close(fd)


def _handle(fd: int) -> Path:
    return Path(OPEN_FILES, str(fd))


def _path_of(fd: int) -> str | None:
    """Return the current path of an open directory, if the system shows it."""
    try:
        return str(_handle(fd).readlink())
    except OSError:
        return None


def _is_at(fd: int, path: str) -> bool:
    """Return True if the open directory is the one at this path, which is not a link."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False
