"""Open directories once, so that they are never looked up again: renaming or replacing them later changes nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from msgspec import Struct

from duologue.errors import InternalError, InvalidParams

MOST_SHOWN = 256
"""Characters of a path that an error repeats."""

CAN_CONFINE = os.open in os.supports_dir_fd
"""Without `dir_fd`, a process that moves directories could lead any path outside."""

# Some systems lack these flags; a system without `dir_fd` does not need them.
DIRECTORY_ONLY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_PATH", os.O_RDONLY)


class Root(Struct, frozen=True, eq=False):
    """An open directory: its descriptor, the components of its path, and those of other spellings of it."""

    fd: int
    path: tuple[str, ...]
    spellings: frozenset[tuple[str, ...]]


def open_root(path: str | Path) -> Root:
    """Open a directory.

    Raises:
        InvalidParams: The path is not absolute, or not a directory that can be opened.
        InternalError: This process has too many files open.
    """
    text = os.fspath(path)
    if not text.startswith("/"):
        raise InvalidParams(f"{quote_path(path)}: not an absolute path")
    try:
        fd = os.open(text, DIRECTORY_ONLY)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise InternalError(f"{quote_path(path)}: too many files are open already") from error
        raise InvalidParams(f"{quote_path(path)}: not a directory that can be opened") from error
    real = tuple(split(os.path.realpath(text)))
    return Root(fd, real, frozenset({real, tuple(split(text.rstrip("/")))}))


def close_roots(roots: list[Root]) -> None:
    """Close directories, and remove them from the list."""
    while roots:
        os.close(roots.pop().fd)


def split(path: str) -> list[str]:
    """Return the components of a path; a final slash, which requires a directory, becomes `.`."""
    return [part for part in path.split("/") if part] + ["."] * path.endswith("/")


def quote_path(path: str | Path) -> str:
    """Return the path as error messages show it."""
    text = os.fspath(path)
    return repr(text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…")
