"""Replace the content of a file atomically: a new file gets the old one's mode and owner, then its name.

A file is written in place if replacing would change more than its content: if it has several hard links, or an owner or
attributes that cannot be copied.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import suppress

from duologue.local.errors import AccessDenied
from duologue.local.file_types import SAFE_OPEN, checked
from duologue.local.path_resolver import ResolvedPath
from duologue.private_files import FILE_MODE

_write_lock = threading.Lock()
"""Held while writing in place: two concurrent writes would mix."""


def write_file(resolved: ResolvedPath, data: bytes, *, allow_hard_links: bool) -> None:
    """Make `data` the content of the file at `resolved`, whose directory exists.

    Raises:
        AccessDenied: The existing file may not be written.
        OSError: Writing failed; the old content is still there.
    """
    if resolved.info is None:
        _replace(resolved, data, None)
        return
    # Open it although it will be replaced: that checks the permission to write it, and pins the file.
    old = checked(resolved.open(os.O_WRONLY | SAFE_OPEN))
    try:
        has_other_names = os.fstat(old).st_nlink > 1
        if has_other_names and not allow_hard_links:
            raise AccessDenied("the file has other names (hard links), which may be outside")
        if has_other_names or not _replace(resolved, data, old):
            with _write_lock:
                os.ftruncate(old, 0)
                _write_all(old, data)
    finally:
        os.close(old)


def _replace(resolved: ResolvedPath, data: bytes, old: int | None) -> bool:
    """Replace the old file by a new one; return False without effect if owner or attributes cannot be copied."""
    temporary = f".duologue-{os.urandom(8).hex()}.tmp"
    mode = 0o666 if old is None else FILE_MODE
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE_OPEN, mode, dir_fd=resolved.parent)
    try:
        try:
            if old is not None and not _copy_identity(old, fd):
                os.unlink(temporary, dir_fd=resolved.parent)
                return False
            _write_all(fd, data)
        finally:
            os.close(fd)
        os.rename(temporary, resolved.name, src_dir_fd=resolved.parent, dst_dir_fd=resolved.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=resolved.parent)
        raise
    return True


def _copy_identity(old: int, new: int) -> bool:
    """Copy owner, attributes and mode of the old file to the new one; return False if that is not permitted."""
    wanted, given = os.fstat(old), os.fstat(new)
    try:
        if (wanted.st_uid, wanted.st_gid) != (given.st_uid, given.st_gid):
            os.fchown(new, wanted.st_uid, wanted.st_gid)
        _copy_attributes(old, new)
        os.fchmod(new, stat.S_IMODE(wanted.st_mode))
    except PermissionError:
        return False
    return True


def _copy_attributes(old: int, new: int) -> None:
    """Copy extended attributes such as access lists and labels."""
    if not hasattr(os, "listxattr"):
        return
    try:
        for name in os.listxattr(old):
            os.setxattr(new, name, os.getxattr(old, name))
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENODATA):
            raise


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    # Without this, a power failure could leave the new name without content on some file systems.
    os.fsync(fd)
