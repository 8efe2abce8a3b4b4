"""Open a path below an open directory, so that no concurrent change of the tree can lead outside.

The kernel does it atomically where it can: `openat2` with RESOLVE_BENEATH. Checking a path before opening it is not
enough: a process that replaces a directory by a link in between could read and write anywhere.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctypes import CDLL

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08

MOST_TRIES = 128
"""The kernel requires a retry when directories are renamed while it resolves `..`."""

KERNEL_VIEWS = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0xCAFE4A11,  # bpf
        0x1CD1,  # devpts
        0x6E736673,  # nsfs
        0x62656570,  # configfs
        0x42494E4D,  # binfmt_misc
        0xDE5E81E4,  # efivarfs
        0xF97CFF8C,  # selinux
    }
)
"""File systems whose files give access to the kernel and to other processes."""


@cache
def _libc() -> CDLL | None:
    import ctypes  # takes longer than opening a session, which needs no file

    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def open_beneath(root: int, path: str, flags: int, *, follow_mounts: bool = True) -> int:
    """Open `path` relative to the directory `root`; `..` and links must stay below it.

    Raises:
        OSError: EXDEV for a path that leads outside, by `..` or by a link, and for every absolute link.
            ENOSYS if the system does not support this. Otherwise as for `os.open`.
    """
    libc = _libc()
    if libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    import ctypes

    call = ctypes.c_long(547 if os.uname().machine == "alpha" else 437)
    resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (0 if follow_mounts else RESOLVE_NO_XDEV)
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve)  # struct open_how: flags, mode, resolve
    name = ctypes.c_char_p(os.fsencode(path or "."))
    number = errno.EAGAIN
    for _ in range(MOST_TRIES):
        fd: int = libc.syscall(call, ctypes.c_int(root), name, how, ctypes.c_size_t(len(how)))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    # Sandboxes that do not know the call answer EPERM; a file that may not be opened gives EACCES.
    if number == errno.EPERM:
        number = errno.ENOSYS
    raise OSError(number, os.strerror(number))


def is_kernel_view(fd: int) -> bool:
    """Return True if the descriptor belongs to a file system that shows the kernel, such as /proc."""
    libc = _libc()
    if libc is None:
        return False
    import ctypes

    # The type is the first word of `struct statfs`; the rest differs between machines and is not needed.
    result = (ctypes.c_long * 64)()
    if libc.fstatfs(ctypes.c_int(fd), ctypes.byref(result)) != 0:
        return True
    return result[0] & 0xFFFFFFFF in KERNEL_VIEWS
