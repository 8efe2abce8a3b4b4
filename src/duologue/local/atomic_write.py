"""Gives a file new content at once or not at all: a new file beside it takes its mode and owner, then its name.

Written in place instead is a file for which replacing would change what it is: one of several hard links, or one whose
owner or attributes we cannot give to another.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from contextlib import suppress

from duologue.local.errors import AccessDenied
from duologue.local.file_types import CAREFULLY, checked
from duologue.local.path_resolver import ResolvedPath

__all__ = ["write_file"]

_in_place = threading.Lock()
"""Two writes in place would mix."""


def write_file(place: ResolvedPath, data: bytes, *, allow_hard_links: bool) -> None:
    """Make `data` the content of the file at `place`, whose directory exists.

    Raises:
        Refused: What is there is no file to be written.
        OSError: As the kernel says; the old content is still there.
    """
    if place.info is None:
        _replace(place, data, None)
        return
    # Opened although it will be replaced: the kernel says whether we may write it, and nothing can take its place.
    old = checked(place.open(os.O_WRONLY | CAREFULLY))
    try:
        has_other_names = os.fstat(old).st_nlink > 1
        if has_other_names and not allow_hard_links:
            raise AccessDenied("it has other names (hard links), which may lie outside")
        if has_other_names or not _replace(place, data, old):
            with _in_place:
                os.ftruncate(old, 0)
                _write_all(old, data)
    finally:
        os.close(old)


def _replace(place: ResolvedPath, data: bytes, old: int | None) -> bool:
    """Put a new file in the place of the old one; False, and nothing done, if it would not be the same to others."""
    temporary = f".duologue-{secrets.token_hex(8)}.tmp"
    mode = 0o666 if old is None else 0o600
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFULLY, mode, dir_fd=place.parent)
    try:
        try:
            if old is not None and not _copy_identity(old, fd):
                os.unlink(temporary, dir_fd=place.parent)
                return False
            _write_all(fd, data)
        finally:
            os.close(fd)
        os.rename(temporary, place.name, src_dir_fd=place.parent, dst_dir_fd=place.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=place.parent)
        raise
    return True


def _copy_identity(old: int, new: int) -> bool:
    """Give the new file the owner, the attributes and the mode of the old; False if we may not."""
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
    """Access lists, labels and the like, where there are any."""
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
    # Without this a power cut soon after leaves some file systems with a new name and no content.
    os.fsync(fd)
