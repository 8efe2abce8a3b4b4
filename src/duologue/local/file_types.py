"""Check that a file is a regular one before it is used; opening others could block or have effects."""

from __future__ import annotations

import os
import stat

from duologue.local.errors import AccessDenied
from duologue.local.openat2 import is_kernel_view

PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)

# A file may become a FIFO or terminal after the check: do not wait for it, nor make it the controlling terminal.
SAFE_OPEN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)

NAMES = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_kind(mode: int) -> None:
    """Raise `AccessDenied` if the mode is not that of a regular file."""
    if not stat.S_ISREG(mode):
        raise AccessDenied(f"{NAMES.get(stat.S_IFMT(mode), 'a special file')}, not a text file")


def checked(fd: int) -> int:
    """Return the descriptor if it is a regular file; otherwise close it and raise `AccessDenied`."""
    try:
        check_kind(os.fstat(fd).st_mode)
        if is_kernel_view(fd):
            raise AccessDenied("a view of the kernel or a process, not a text file")
    except BaseException:
        os.close(fd)
        raise
    return fd
