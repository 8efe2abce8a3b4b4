"""Resolve a path to its directory and name, one component at a time, through open directory descriptors.

`openat2` returns an open file; this returns the directory that contains it, which writing needs: a new file next to the
old one, renamed over it. It also follows absolute links that lead back inside, which `openat2` rejects.

It resolves as the kernel does: a link is relative to its directory, `..` is the real parent, and at most forty links
are followed. Every component is examined through the descriptor of its directory.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from duologue.local.errors import os_error
from duologue.local.openat2 import is_kernel_view, open_beneath
from duologue.local.root import DIRECTORY_ONLY, Root, split

NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0)  # a system without the flag does not need it
MOST_LINKS = 40
"""The kernel's limit."""
MOST_DIRECTORIES = 256
"""Deeper than any real tree; limits the work a hostile path can cause."""
MOST_TRIES = 128
"""How often resolving restarts because a component changed its type between the check and the open."""
MOST_WAIT = 0.001
"""Seconds before such a restart, at most; a random part of it, or two processes in step could meet every time."""


class ResolvedPath(Struct, frozen=True):
    """The directory and name a path resolves to.

    Attributes:
        parent: Descriptor of the directory; valid inside the `with` block only.
        name: The last component, never a link; "." if the path is a root.
        parts: All components from the root on, without links, `.` and `..`.
        info: Status of the file; None if it does not exist.
        missing: Components after `name`, if that is a missing directory.
        follow_mounts: Whether something mounted there may be opened.
        root: Components of the root's own path.
    """

    parent: int
    name: str
    parts: tuple[str, ...]
    info: os.stat_result | None
    missing: tuple[str, ...] = ()
    follow_mounts: bool = True
    root: tuple[str, ...] = ()

    def open(self, flags: int) -> int:
        """Open the file, unless it has become a link."""
        return _open_entry(self.parent, self.name, flags, self.follow_mounts)


Locate = Callable[[str], tuple[Root, Sequence[str]]]
"""Absolute path -> the root that contains it, and the components below that."""


@contextmanager
def walk(root: Root, parts: Sequence[str], locate: Locate, *, follow_mounts: bool = True) -> Generator[ResolvedPath]:
    """Resolve components below `root`, or below another root that `..` or a link leads to.

    Raises:
        OSError: EXDEV for a path that leads outside, ELOOP for too many links, ENOENT for a missing directory that is
            followed by `..` or `.`.
    """
    walker = _PathWalker(root, parts, locate, follow_mounts)
    try:
        yield walker.resolve()
    finally:
        walker.close()


@contextmanager
def make_parents(resolved: ResolvedPath) -> Generator[ResolvedPath]:
    """Make the missing directories of a resolved path; yield it with the descriptor of the last one."""
    directory_fd = os.dup(resolved.parent)
    try:
        *directories, name = (resolved.name, *resolved.missing)
        for directory in directories:
            # Another process may make the same directory now.
            with suppress(FileExistsError):
                os.mkdir(directory, dir_fd=directory_fd)
            made = _open_entry(directory_fd, directory, DIRECTORY_ONLY, resolved.follow_mounts)
            os.close(directory_fd)
            directory_fd = made
        info = _stat(directory_fd, name) if directories else resolved.info
        yield replace(resolved, parent=directory_fd, name=name, info=info, missing=())
    finally:
        os.close(directory_fd)


class _Changed(Exception):
    """A component changed its type after it was examined."""


class _PathWalker:
    """Holds one directory open at a time; restarts from a root for `..` and for absolute links."""

    def __init__(self, root: Root, parts: Sequence[str], locate: Locate, follow_mounts: bool) -> None:
        self._start = root, parts
        self._locate = locate
        self._follow_mounts = follow_mounts
        self._directory = -1

    def resolve(self) -> ResolvedPath:
        for attempt in range(MOST_TRIES):
            if attempt:
                time.sleep(random.uniform(0, MOST_WAIT))
            self._links = 0
            self._restart(*self._start)
            try:
                while not (resolved := self._step()):
                    pass
            except _Changed:
                continue
            return resolved
        raise os_error(errno.EBUSY)

    def close(self) -> None:
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def _restart(self, root: Root, parts: Sequence[str]) -> None:
        self.close()
        self._root = root
        self._directory = os.dup(root.fd)
        self._names: list[str] = []
        self._remaining = list(reversed(parts))

    def _step(self) -> ResolvedPath | None:
        """Process one component; return the result after the last one."""
        if not self._remaining:
            return self._resolved(".", os.fstat(self._directory))
        part = self._remaining.pop()
        if part == ".":
            return None
        if part == "..":
            self._go_up()
            return None
        info = _stat(self._directory, part)
        if info is None:
            return self._missing(part)
        if stat.S_ISLNK(info.st_mode):
            self._follow(part)
            return None
        if stat.S_ISDIR(info.st_mode):
            self._enter(part)
            return None
        if self._remaining:
            raise os_error(errno.ENOTDIR)
        return self._resolved(part, info)

    def _resolved(self, name: str, info: os.stat_result | None) -> ResolvedPath:
        parts = tuple(self._names) if name == "." else (*self._names, name)
        return ResolvedPath(self._directory, name, parts, info, (), self._follow_mounts, self._root.path)

    def _missing(self, part: str) -> ResolvedPath:
        """Return the result for a missing file, if it could be made together with its directories."""
        ahead = [part for part in reversed(self._remaining) if part != "."]
        # The kernel rejects `missing/../x` and `missing/.`; they must not make a directory here.
        if ".." in ahead or (self._remaining and self._remaining[0] == "."):
            raise os_error(errno.ENOENT)
        if len(self._names) + len(ahead) > MOST_DIRECTORIES:
            raise os_error(errno.ENAMETOOLONG)
        parts = (*self._names, part, *ahead)
        return ResolvedPath(self._directory, part, parts, None, tuple(ahead), self._follow_mounts, self._root.path)

    def _go_up(self) -> None:
        if self._names:
            self._restart(self._root, [*self._names[:-1], *reversed(self._remaining)])
        elif self._root.path:
            self._count_link()
            self._jump(self._root.path[:-1])
        else:
            raise os_error(errno.EXDEV)

    def _jump(self, parts: Sequence[str]) -> None:
        """Leave this root and restart from the root that contains the new path."""
        self._restart(*self._locate("/" + "/".join([*parts, *reversed(self._remaining)])))

    def _count_link(self) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            raise os_error(errno.ELOOP)

    def _follow(self, part: str) -> None:
        self._count_link()
        try:
            target = os.readlink(part, dir_fd=self._directory)
        except OSError as error:
            raise _Changed from error
        if target.startswith("/"):
            self._jump(split(target))
        else:
            self._remaining += reversed(split(target))

    def _enter(self, part: str) -> None:
        if len(self._names) == MOST_DIRECTORIES:
            raise os_error(errno.ENAMETOOLONG)
        try:
            entered = _open_entry(self._directory, part, DIRECTORY_ONLY, self._follow_mounts)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
                raise _Changed from error
            raise
        self.close()
        self._directory = entered
        self._names.append(part)
        # Links in such file systems do not resolve by their text.
        if is_kernel_view(entered):
            raise os_error(errno.EXDEV)


def _stat(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _open_entry(parent: int, name: str, flags: int, follow_mounts: bool) -> int:
    """Open an entry of `parent` that is not a link."""
    flags |= NOT_A_LINK
    try:
        return open_beneath(parent, name, flags, follow_mounts=follow_mounts)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    fd = os.open(name, flags, dir_fd=parent)
    if not follow_mounts and _mount(fd) != _mount(parent):
        os.close(fd)
        raise os_error(errno.EXDEV)
    return fd


def _mount(fd: int) -> str:
    """Return an identifier of the mount: its number, which bind mounts have too, or else the device."""
    try:
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text("ascii").splitlines()
    except OSError:
        lines = []
    return next((line for line in lines if line.startswith("mnt_id:")), f"device {os.fstat(fd).st_dev}")
