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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from duologue.local.errors import refusal
from duologue.local.openat2 import is_kernel_view, open_beneath

__all__ = ["DIRECTORY_ONLY", "ResolvedPath", "Root", "make_parents", "split", "walk"]

# Not every system has each of these; one that cannot open a name in a directory's handle has no use for them.
NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0)
DIRECTORY_ONLY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_PATH", os.O_RDONLY)
MOST_LINKS = 40
"""As in the kernel."""
MOST_DIRECTORIES = 256
"""Deeper than any tree people work in; bounds the work a hostile path can cause."""
MOST_TRIES = 128
"""Walks begun again because a part changed its kind between looking and opening."""


@dataclass(frozen=True, eq=False)
class Root:
    """One directory, held open; the parts of its path when it was opened, and of other ways to write that path."""

    fd: int
    path: tuple[str, ...]
    spellings: frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class ResolvedPath:
    """Where a path ends.

    Attributes:
        parent: Handle of the directory; valid inside the `with` block only.
        name: The last part, never a link; "." if the path ends at a root.
        parts: The whole way from the root without links, `.` and `..`.
        info: What is there; None if nothing is.
        missing: What follows `name`, if that is a directory that is missing.
        follow_mounts: Whether something mounted there may be opened.
        root: The parts of the root's own path.
    """

    parent: int
    name: str
    parts: tuple[str, ...]
    info: os.stat_result | None
    missing: tuple[str, ...] = ()
    follow_mounts: bool = True
    root: tuple[str, ...] = ()

    def open(self, flags: int) -> int:
        """Open what is there, unless it has become a link."""
        return _open_entry(self.parent, self.name, flags, self.follow_mounts)


Locate = Callable[[str], tuple[Root, Sequence[str]]]
"""From an absolute path to a root and the parts beneath it."""


def split(path: str) -> list[str]:
    """The parts of a path; one that ends with a slash must be a directory, which its last part `.` says."""
    return [part for part in path.split("/") if part] + ["."] * path.endswith("/")


@contextmanager
def walk(root: Root, parts: Sequence[str], locate: Locate, *, follow_mounts: bool = True) -> Generator[ResolvedPath]:
    """The place where `parts` ends, beneath `root` or beneath another that `..` or a link leads to.

    Raises:
        OSError: EXDEV for a way that leads outside, ELOOP for too many links, ENOENT for a missing directory that is
            left again or has to be one.
    """
    walker = _PathWalker(root, parts, locate, follow_mounts)
    try:
        yield walker.resolve()
    finally:
        walker.close()


@contextmanager
def make_parents(place: ResolvedPath) -> Generator[ResolvedPath]:
    """The same place, with the directories made that were missing on the way."""
    here = os.dup(place.parent)
    try:
        *directories, name = (place.name, *place.missing)
        for directory in directories:
            # Somebody else may want the same directory now.
            with suppress(FileExistsError):
                os.mkdir(directory, dir_fd=here)
            made = _open_entry(here, directory, DIRECTORY_ONLY, place.follow_mounts)
            os.close(here)
            here = made
        info = _look(here, name) if directories else place.info
        yield ResolvedPath(here, name, place.parts, info, follow_mounts=place.follow_mounts, root=place.root)
    finally:
        os.close(here)


class _Changed(Exception):
    """A part became something else after it was looked at."""


class _PathWalker:
    """Holds one directory at a time; begins again from a root for `..` and for absolute links."""

    def __init__(self, root: Root, parts: Sequence[str], locate: Locate, follow_mounts: bool) -> None:
        self._start = root, parts
        self._locate = locate
        self._follow_mounts = follow_mounts
        self._here = -1

    def resolve(self) -> ResolvedPath:
        for _ in range(MOST_TRIES):
            self._links = 0
            self._begin(*self._start)
            try:
                while not (place := self._step()):
                    pass
            except _Changed:
                continue
            return place
        raise refusal(errno.EBUSY)

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

    def _step(self) -> ResolvedPath | None:
        """Go on by one part; the place, once there is none left."""
        if not self._ahead:
            return self._place(".", os.fstat(self._here))
        part = self._ahead.pop()
        if part == ".":
            return None
        if part == "..":
            self._go_up()
            return None
        info = _look(self._here, part)
        if info is None:
            return self._missing(part)
        if stat.S_ISLNK(info.st_mode):
            self._follow(part)
            return None
        if stat.S_ISDIR(info.st_mode):
            self._enter(part)
            return None
        if self._ahead:
            raise refusal(errno.ENOTDIR)
        return self._place(part, info)

    def _place(self, name: str, info: os.stat_result | None) -> ResolvedPath:
        parts = tuple(self._names) if name == "." else (*self._names, name)
        return ResolvedPath(self._here, name, parts, info, (), self._follow_mounts, self._root.path)

    def _missing(self, part: str) -> ResolvedPath:
        """The place of what is not there, as long as a file with directories could be."""
        ahead = [part for part in reversed(self._ahead) if part != "."]
        # `missing/../x` and `missing/.` are errors for the kernel, and must not make a directory here.
        if ".." in ahead or (self._ahead and self._ahead[0] == "."):
            raise refusal(errno.ENOENT)
        if len(self._names) + len(ahead) > MOST_DIRECTORIES:
            raise refusal(errno.ENAMETOOLONG)
        parts = (*self._names, part, *ahead)
        return ResolvedPath(self._here, part, parts, None, tuple(ahead), self._follow_mounts, self._root.path)

    def _go_up(self) -> None:
        if self._names:
            self._begin(self._root, [*self._names[:-1], *reversed(self._ahead)])
        elif self._root.path:
            self._count_link()
            self._jump(self._root.path[:-1])
        else:
            raise refusal(errno.EXDEV)

    def _jump(self, parts: Sequence[str]) -> None:
        """Out of this root, to be found again beneath this or another one."""
        self._begin(*self._locate("/" + "/".join([*parts, *reversed(self._ahead)])))

    def _count_link(self) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            raise refusal(errno.ELOOP)

    def _follow(self, part: str) -> None:
        self._count_link()
        try:
            target = os.readlink(part, dir_fd=self._here)
        except OSError as error:
            raise _Changed from error
        if target.startswith("/"):
            self._jump(split(target))
        else:
            self._ahead += reversed(split(target))

    def _enter(self, part: str) -> None:
        if len(self._names) == MOST_DIRECTORIES:
            raise refusal(errno.ENAMETOOLONG)
        try:
            entered = _open_entry(self._here, part, DIRECTORY_ONLY, self._follow_mounts)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
                raise _Changed from error
            raise
        self.close()
        self._here = entered
        self._names.append(part)
        # Links there are doors that no text describes.
        if is_kernel_view(entered):
            raise refusal(errno.EXDEV)


def _look(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _open_entry(parent: int, name: str, flags: int, follow_mounts: bool) -> int:
    """Open what stands in `parent` and is not a link."""
    flags |= NOT_A_LINK
    try:
        return open_beneath(parent, name, flags, follow_mounts=follow_mounts)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    fd = os.open(name, flags, dir_fd=parent)
    if not follow_mounts and _mount(fd) != _mount(parent):
        os.close(fd)
        raise refusal(errno.EXDEV)
    return fd


def _mount(fd: int) -> str:
    """What tells one mount from another: its number, which bind mounts have too, or else the device."""
    try:
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text("ascii").splitlines()
    except OSError:
        lines = []
    return next((line for line in lines if line.startswith("mnt_id:")), f"device {os.fstat(fd).st_dev}")
