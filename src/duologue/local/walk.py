"""Finds the directory and the name that a path ends at, one part after the other, holding each directory by its handle.

Where `beneath` answers with a file, this answers with its place, which is what writing needs: a new file beside the old
one, renamed over it. It also takes what the kernel's call refuses without looking: absolute links that lead back in.

It resolves as the kernel does: a link counts from the directory it stands in, `..` is the parent of where one really
is, and forty links are enough for anybody. Nothing is followed that was not looked at through its directory's handle.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from duologue.local.beneath import is_kernel_view, open_beneath

__all__ = ["DIRECTORY_ONLY", "Place", "Root", "split", "walk"]

DIRECTORY_ONLY = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
MOST_LINKS = 40
"""As in the kernel."""
MOST_DIRECTORIES = 256
"""Deeper than any tree people work in; bounds the work a hostile path can cause."""
MOST_TRIES = 128
"""Walks begun again because a part changed its kind between looking and opening."""


@dataclass(frozen=True, eq=False)
class Root:
    """One directory, held open, and the ways its path may be written."""

    fd: int
    spellings: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Place:
    """Where a path ends.

    Attributes:
        parent: Handle of the directory; valid inside the `with` block only.
        name: The last part, never a link; "." if the path ends at a root.
        parts: The whole way from the root without links, `.` and `..`.
        info: What is there; None if nothing is.
    """

    parent: int
    name: str
    parts: tuple[str, ...]
    info: os.stat_result | None


Locate = Callable[[str], tuple[Root, Sequence[str]]]
"""From an absolute path to a root and the parts beneath it."""


def split(path: str) -> list[str]:
    """The parts of a path; one that ends with a slash must be a directory, which its last part `.` says."""
    return [part for part in path.split("/") if part] + ["."] * path.endswith("/")


@contextmanager
def walk(
    root: Root, parts: Sequence[str], locate: Locate, *, create_parents: bool = False, follow_mounts: bool = True
) -> Generator[Place]:
    """The place where `parts` ends, beneath `root` or beneath another that absolute links lead to.

    Raises:
        OSError: EXDEV for a way that leads outside, ENOENT for a missing directory, ELOOP for too many links.
    """
    walker = _Walker(root, parts, locate, create_parents, follow_mounts)
    try:
        yield walker.arrive()
    finally:
        walker.close()


class _Changed(Exception):
    """A part became something else after it was looked at."""


class _Walker:
    """Holds one directory at a time; begins again from a root for `..` and for absolute links."""

    def __init__(
        self, root: Root, parts: Sequence[str], locate: Locate, create_parents: bool, follow_mounts: bool
    ) -> None:
        self._start = root, parts
        self._locate = locate
        self._create_parents = create_parents
        self._follow_mounts = follow_mounts
        self._here = -1

    def arrive(self) -> Place:
        for _ in range(MOST_TRIES):
            self._links = 0
            self._begin(*self._start)
            try:
                while not (place := self._step()):
                    pass
            except _Changed:
                continue
            return place
        raise OSError(errno.EBUSY, "it keeps changing")

    def close(self) -> None:
        if self._here >= 0:
            os.close(self._here)
            self._here = -1

    def _begin(self, root: Root, parts: Sequence[str]) -> None:
        self.close()
        self._root = root
        self._here = os.dup(root.fd)
        self._names: list[str] = []
        self._ahead = list(reversed(parts))

    def _step(self) -> Place | None:
        """Go on by one part; the place, once there is none left."""
        if not self._ahead:
            return self._place(".", os.stat(self._here))
        part = self._ahead.pop()
        if part == ".":
            return None
        if part == "..":
            self._go_up()
            return None
        info = self._look(part)
        if info is None:
            return self._missing(part)
        if stat.S_ISLNK(info.st_mode):
            self._follow(part)
            return None
        if stat.S_ISDIR(info.st_mode):
            self._enter(part)
            return None
        if self._ahead:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return self._place(part, info)

    def _place(self, name: str, info: os.stat_result | None) -> Place:
        return Place(self._here, name, tuple(self._names) if name == "." else (*self._names, name), info)

    def _look(self, part: str) -> os.stat_result | None:
        try:
            return os.stat(part, dir_fd=self._here, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _missing(self, part: str) -> Place | None:
        if not self._ahead:
            return self._place(part, None)
        # `missing/../x` is an error for the kernel; it must not become a directory here.
        if not self._create_parents or ".." in self._ahead:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            os.mkdir(part, dir_fd=self._here)
        except FileExistsError as error:
            raise _Changed from error
        self._enter(part)
        return None

    def _go_up(self) -> None:
        if not self._names:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        self._begin(self._root, [*self._names[:-1], *reversed(self._ahead)])

    def _follow(self, part: str) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        try:
            target = os.readlink(part, dir_fd=self._here)
        except OSError as error:
            raise _Changed from error
        if target.startswith("/"):
            root, parts = self._locate(target)
            self._begin(root, [*parts, *reversed(self._ahead)])
        else:
            self._ahead += reversed(split(target))

    def _enter(self, part: str) -> None:
        if len(self._names) == MOST_DIRECTORIES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        try:
            entered = _open_directory(self._here, part, self._follow_mounts)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
                raise _Changed from error
            raise
        self.close()
        self._here = entered
        self._names.append(part)
        # Links there are doors that no text describes.
        if is_kernel_view(entered):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _open_directory(parent: int, name: str, follow_mounts: bool) -> int:
    """Open a directory that stands in `parent` and is not a link."""
    flags = DIRECTORY_ONLY | os.O_NOFOLLOW
    try:
        return open_beneath(parent, name, flags, follow_mounts=follow_mounts)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    fd = os.open(name, flags, dir_fd=parent)
    if not follow_mounts and _mount(fd) != _mount(parent):
        os.close(fd)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return fd


def _mount(fd: int) -> str:
    """What tells one mount from another: its number, which bind mounts have too, or else the device."""
    try:
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text("ascii").splitlines()
    except OSError:
        lines = []
    return next((line for line in lines if line.startswith("mnt_id:")), f"device {os.fstat(fd).st_dev}")
