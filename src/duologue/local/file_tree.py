"""Files and directories below roots as programs use them: bytes, listings, removal; failures are `OSError`s."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePosixPath

from msgspec import Struct

from duologue.local.atomic_write import write_file
from duologue.local.errors import as_os_error, os_error
from duologue.local.file_types import SAFE_OPEN, checked
from duologue.local.files import Roots
from duologue.local.path_resolver import ResolvedPath, make_parents
from duologue.local.root import split

MAX_BYTES = 64 * 1024 * 1024
"""Bytes of a file that are read at once."""

LISTABLE = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class TreeEntry(Struct, frozen=True):
    """A file or directory; of a link, what it leads to.

    Attributes:
        name: The last component of its path.
        is_directory: Whether it is a directory; a link that leads nowhere, or outside, is none.
        size: Bytes of a regular file, otherwise None.
    """

    name: str
    is_directory: bool
    size: int | None


class FileTree:
    """Reads and changes what is below the roots; nothing outside is touched, whatever links there are.

    The methods block; in a coroutine call them with `asyncio.to_thread`. A path outside the roots is a
    `PermissionError`, and so is one that may not be accessed.

    Args:
        roots: The directories, which stay open.
        max_bytes: Limit of the bytes that one read returns.
    """

    def __init__(self, roots: Roots, *, max_bytes: int = MAX_BYTES) -> None:
        self._roots = roots
        self._max_bytes = max_bytes

    def is_current(self, path: str) -> bool:
        """Return True if the path of a root still leads to the directory that was opened."""
        try:
            with self._resolved(path) as resolved:
                return resolved.info is not None and os.path.samestat(os.stat(path), resolved.info)
        except OSError:
            return False

    def real_path(self, path: str) -> str:
        """Return the path without links, `.` and `..`, as `os.path.realpath` does: what does not exist is kept.

        Raises:
            OSError: It is outside the roots, or has too many links.
        """
        parts = split(path.rstrip("/"))
        if ".." not in parts:
            return self._real("", parts)
        # One step at a time: `..` after a missing directory is an error for the kernel, but not here.
        first = parts.index("..")
        real = self._real("", parts[:first])
        for part in parts[first:]:
            real = str(PurePosixPath(real).parent) if part == ".." else self._real(real, [part])
        return self._real("", split(real))

    def stat(self, path: str) -> TreeEntry:
        """Return what is known about a file or directory; links are followed."""
        with self._resolved(path) as resolved:
            return _entry(PurePosixPath(path).name, _existing(resolved))

    def exists(self, path: str) -> bool:
        """Return True if the path leads to a file or directory inside the roots."""
        try:
            with self._resolved(path) as resolved:
                return resolved.info is not None
        except OSError:
            return False

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a regular file.

        Raises:
            OSError: EFBIG if it is longer than the limit; otherwise as for `open`.
        """
        with self._resolved(path) as resolved:
            _check_regular(path, _existing(resolved))
            fd = checked(resolved.open(os.O_RDONLY | SAFE_OPEN))
            with os.fdopen(fd, "rb") as file:
                data = file.read(self._max_bytes + 1)
        if len(data) > self._max_bytes:
            raise OSError(errno.EFBIG, f"longer than {self._max_bytes} bytes", path)
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace the content of a file atomically; make it, and missing directories, if they do not exist."""
        with self._writable(path) as ready:
            write_file(ready, data, allow_hard_links=False)

    def prepare_write(self, path: str) -> None:
        """Make the missing directories of a file that another program will write, which must be allowed to.

        Raises:
            OSError: As for `write_bytes`.
        """
        with self._writable(path) as ready:
            if ready.info is not None:
                os.close(ready.open(os.O_WRONLY | SAFE_OPEN))

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents; one that exists is left as it is."""
        with self._resolved(path) as resolved:
            if resolved.info is None:
                with make_parents(resolved) as ready:
                    if ready.info is None:
                        os.mkdir(ready.name, dir_fd=ready.parent)
                        return
                    resolved = ready
            if not stat.S_ISDIR(_existing(resolved).st_mode):
                raise os_error(errno.EEXIST)

    def entries(self, path: str) -> list[TreeEntry]:
        """Return the entries of a directory, sorted by name."""
        with self._resolved(path) as resolved:
            if not stat.S_ISDIR(_existing(resolved).st_mode):
                raise os_error(errno.ENOTDIR)
            fd = os.open(".", LISTABLE, dir_fd=resolved.parent)
            try:
                found = {name: _status(name, fd) for name in os.listdir(fd)}
            finally:
                os.close(fd)
        return [self._listed(path, name, info) for name, info in sorted(found.items()) if info is not None]

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all it contains; a link is removed itself.

        Raises:
            ValueError: It is a root, or contains one.
        """
        with self._removable(path) as (directory, name, info):
            if stat.S_ISDIR(info.st_mode):
                shutil.rmtree(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)

    def check_removable(self, path: str) -> None:
        """Raise what `remove` would raise because of the path, and remove nothing."""
        with self._removable(path):
            pass

    @contextmanager
    def _removable(self, path: str) -> Generator[tuple[int, str, os.stat_result]]:
        """Yield the open directory of a file, its name, and its status, that of a link itself."""
        parent, name = os.path.split(os.path.normpath(path))
        self._check_no_root(os.path.normpath(path))
        with self._resolved(parent) as directory:
            if not stat.S_ISDIR(_existing(directory).st_mode):
                raise os_error(errno.ENOTDIR)
            self._check_no_root("/" + "/".join([*directory.root, *directory.parts, name]))
            yield directory.parent, name, os.stat(name, dir_fd=directory.parent, follow_symlinks=False)

    def _check_no_root(self, path: str) -> None:
        if any(PurePosixPath(root).is_relative_to(path) for root in self._roots.paths):
            raise ValueError(f"{path!r} is a directory of the session, or contains one, and is not removed")

    @contextmanager
    def _resolved(self, path: str) -> Generator[ResolvedPath]:
        with as_os_error(path), self._roots.resolved(path) as resolved:
            yield resolved

    @contextmanager
    def _writable(self, path: str) -> Generator[ResolvedPath]:
        with self._resolved(path) as resolved:
            if resolved.info is not None:
                _check_regular(path, resolved.info)
            with make_parents(resolved) as ready:
                yield ready

    def _real(self, start: str, parts: list[str]) -> str:
        path = "/".join([start, *parts]) or "/"
        try:
            with self._resolved(path) as resolved:
                return "/" + "/".join([*resolved.root, *resolved.parts])
        except NotADirectoryError:
            return path  # a file as a directory does not exist either

    def _listed(self, directory: str, name: str, info: os.stat_result) -> TreeEntry:
        if not stat.S_ISLNK(info.st_mode):
            return _entry(name, info)
        try:
            return self.stat(f"{directory.rstrip('/')}/{name}")
        except OSError:
            return TreeEntry(name, is_directory=False, size=None)


def _existing(resolved: ResolvedPath) -> os.stat_result:
    if resolved.info is None:
        raise os_error(errno.ENOENT)
    return resolved.info


def _entry(name: str, info: os.stat_result) -> TreeEntry:
    return TreeEntry(name, stat.S_ISDIR(info.st_mode), info.st_size if stat.S_ISREG(info.st_mode) else None)


def _status(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None  # removed meanwhile


def _check_regular(path: str, info: os.stat_result) -> None:
    if stat.S_ISDIR(info.st_mode):
        raise os_error(errno.EISDIR)
    if not stat.S_ISREG(info.st_mode):
        raise OSError(f"not a regular file: {path!r}")
