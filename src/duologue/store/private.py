"""Directories and files for their owner only, whatever the umask says."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["DIRECTORY_MODE", "FILE_MODE", "make_private_directory", "make_private_file"]

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600


def make_private_directory(path: Path) -> None:
    """Make it and its parents, and see that it is still there after a power cut; leave one that exists as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    # mkdir gives the mode less the umask.
    path.chmod(DIRECTORY_MODE)
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def make_private_file(path: Path) -> None:
    """Make an empty file, or see that nobody else may read the one that exists."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        # Not by opening it: closing it again would drop the locks that SQLite has on it in this process.
        if path.stat().st_mode & 0o777 != FILE_MODE:
            path.chmod(FILE_MODE)
        return
    try:
        os.fchmod(descriptor, FILE_MODE)
    finally:
        os.close(descriptor)
