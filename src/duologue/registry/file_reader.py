"""Read a file of bounded size that another user or program may have made."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_at_most(path: Path, most: int) -> bytes:
    """Return the content of a regular file, at most one byte more than `most`; opening a pipe does not wait.

    Raises:
        OSError: It cannot be read, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        return file.read(most + 1)
