"""What may be opened: plain files, and nothing that blocks, acts or shows something else when it is opened."""

from __future__ import annotations

import os
import stat

from duologue.local.errors import AccessDenied
from duologue.local.openat2 import is_kernel_view

__all__ = ["CAREFULLY", "LOOK_ONLY", "check_kind", "checked"]

LOOK_ONLY = getattr(os, "O_PATH", os.O_RDONLY)

# A file may turn into a FIFO or a terminal after it was looked at: opening neither waits for it nor takes it over.
CAREFULLY = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)

NAMES = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_kind(mode: int) -> None:
    """Refuse what its mode says is no plain file."""
    if not stat.S_ISREG(mode):
        raise AccessDenied(f"{NAMES.get(stat.S_IFMT(mode), 'something special')}, not a file with text")


def checked(fd: int) -> int:
    """The same descriptor, if what it has open is a plain file; otherwise it is closed."""
    try:
        check_kind(os.fstat(fd).st_mode)
        if is_kernel_view(fd):
            raise AccessDenied("it shows the system or a process, and is not a file")
    except BaseException:
        os.close(fd)
        raise
    return fd
