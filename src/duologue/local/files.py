"""Text files beneath directories that were opened once and are never looked up again.

Reading    the kernel resolves the path beneath the root (`beneath`), and the kind of file is checked on the handle
Writing    the walk finds the directory (`walk`); a new file there takes the old one's mode and owner, then its name
Refusing   before anything was opened that could block, act or belong to somebody else; the error names the path that
           was asked for and no other

A file is written in place, not replaced, where replacing would change what it is: one of several hard links (if those
may be written at all), or a file whose owner we cannot give to a new one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

from duologue.errors import InternalError, InvalidParams, RequestError, ResourceNotFound
from duologue.local.beneath import is_kernel_view, open_beneath
from duologue.local.text import NotText, TooLong, read_lines
from duologue.local.walk import DIRECTORY_ONLY, Place, Root, split, walk

__all__ = ["MAX_READ_BYTES", "MAX_SKIPPED_BYTES", "Roots"]

MAX_READ_BYTES = 16 * 1024 * 1024
"""Text returned by one read: half of the longest message, which holds it escaped."""
MAX_SKIPPED_BYTES = 1024 * 1024 * 1024
"""Text passed over to find the lines that were asked for: a second's work."""
MAX_PATH_BYTES = 4096
"""The kernel's own limit."""
MOST_READS = 5
"""A file that changed while it was read is read again, so often."""

LOOK_ONLY = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
# A file may turn into a FIFO or a terminal after it was looked at: opening neither waits nor takes it over.
CAREFULLY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Roots:
    """Directories whose files may be read and written, opened here and held until `close()`.

    The methods block; in a coroutine call them with `asyncio.to_thread`. They may run in several threads at once.

    Args:
        paths: The directories. What is meant is what they are now, even if they are renamed or replaced later.
        allow_hard_links: Whether a file may be written that has other names, which may lie outside.
        follow_mounts: Whether other file systems mounted inside a root belong to it.
        max_read_bytes: Most text returned by one read.
        missing: What reading a missing file does: an error, or an empty text.
        protected: Places relative to a root, such as `.git/hooks`, that are not written unless asked for by
            `even_protected`; whatever stands beneath them is protected too, by whatever way it is reached.

    Raises:
        InvalidParams: A path is not absolute, or not a directory that may be opened.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        allow_hard_links: bool = False,
        follow_mounts: bool = True,
        max_read_bytes: int = MAX_READ_BYTES,
        missing: Literal["error", "empty"] = "error",
        protected: Sequence[str] = (),
    ) -> None:
        self._allow_hard_links = allow_hard_links
        self._follow_mounts = follow_mounts
        self._max_read_bytes = max_read_bytes
        self._missing = missing
        self._protected = [tuple(split(place.casefold())) for place in protected]
        self._in_place = threading.Lock()
        self._roots: list[Root] = []
        try:
            for path in paths:
                self._roots.append(_open_root(path))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the directories go; nothing can be read or written afterwards. A second call does nothing."""
        while self._roots:
            os.close(self._roots.pop().fd)

    def read_text(self, path: str | Path, *, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file exactly as it is: byte order mark and line ends included.

        Args:
            path: Absolute, beneath one of the roots.
            line: First line to return, counted from 1; past the end there is no text.
            limit: Most lines to return.

        Raises:
            ResourceNotFound: There is no such file.
            InvalidParams: Outside, not a regular file, not UTF-8, too long, or not to be read by us.
        """
        if (line or 0) < 0 or (limit or 0) < 0:
            raise InvalidParams("line and limit count lines: they cannot be negative")
        with self._explained(path) as name:
            try:
                fd = self._open_to_read(name)
            except FileNotFoundError:
                if self._missing == "empty":
                    return ""
                raise
            try:
                return self._read(fd, line or 1, limit)
            finally:
                os.close(fd)

    def write_text(self, path: str | Path, text: str, *, even_protected: bool = False) -> None:
        """Make `text` the whole content of a file: at once, or not at all. Missing directories are created.

        Raises:
            InvalidParams: Outside, not a regular file, protected, or not to be written by us.
        """
        with self._explained(path) as name:
            data = text.encode("utf-8")
            root, parts = self._locate(name)
            with walk(root, parts, self._locate, create_parents=True, follow_mounts=self._follow_mounts) as place:
                if not even_protected and self._is_protected(place):
                    raise InvalidParams(f"{_shown(path)}: protected, and not to be written without being asked for")
                self._write(place, data)

    def exists(self, path: str | Path) -> bool:
        """Whether there is anything; a link that leads nowhere is nothing.

        Raises:
            InvalidParams: Outside.
        """
        try:
            self.stat(path)
        except ResourceNotFound:
            return False
        return True

    def stat(self, path: str | Path) -> os.stat_result:
        """What is there, links followed.

        Raises:
            ResourceNotFound: Nothing.
            InvalidParams: Outside.
        """
        with self._explained(path) as name:
            root, parts = self._locate(name)
            with walk(root, parts, self._locate, follow_mounts=self._follow_mounts) as place:
                if place.info is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                return place.info

    def is_protected(self, path: str | Path) -> bool:
        """Whether writing there needs `even_protected`, by whatever way the path gets there.

        Raises:
            InvalidParams: Outside.
        """
        with self._explained(path) as name:
            root, parts = self._locate(name)
            with walk(root, parts, self._locate, follow_mounts=self._follow_mounts) as place:
                return self._is_protected(place)

    def _is_protected(self, place: Place) -> bool:
        parts = tuple(part.casefold() for part in place.parts)
        return any(parts[: len(kept)] == kept for kept in self._protected)

    def _locate(self, path: str) -> tuple[Root, Sequence[str]]:
        """The root a path lies beneath, and its parts from there; the innermost root if there are several.

        Raises:
            OSError: EXDEV if there is none.
        """
        parts = split(path)
        found: list[tuple[int, Root]] = []
        for root in self._roots:
            found += [(len(start), root) for start in root.spellings if tuple(parts[: len(start)]) == start]
        if not found:
            found = self._locate_by_identity(parts)
        if not found:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        length, root = max(found, key=lambda each: each[0])
        return root, parts[length:]

    def _locate_by_identity(self, parts: list[str]) -> list[tuple[int, Root]]:
        """Roots whose path is written in another way: by other links, or on a file system that folds case."""
        for length in range(len(parts), 0, -1):
            with suppress(OSError):
                info = os.stat("/" + "/".join(parts[:length]))
                for root in self._roots:
                    if os.path.samestat(info, os.fstat(root.fd)):
                        return [(length, root)]
        return []

    def _open_to_read(self, path: str) -> int:
        root, parts = self._locate(path)
        way = "/".join(parts)
        try:
            looked_at = open_beneath(root.fd, way, LOOK_ONLY, follow_mounts=self._follow_mounts)
            try:
                _check_kind(looked_at)
            finally:
                os.close(looked_at)
            fd = open_beneath(root.fd, way, os.O_RDONLY | CAREFULLY, follow_mounts=self._follow_mounts)
        except OSError as error:
            # The kernel's call is missing here, or met an absolute link and did not look where it leads.
            if error.errno not in (errno.ENOSYS, errno.EXDEV):
                raise
            fd = self._walk_to_read(root, parts)
        return _checked(fd)

    def _walk_to_read(self, root: Root, parts: Sequence[str]) -> int:
        with walk(root, parts, self._locate, follow_mounts=self._follow_mounts) as place:
            if place.info is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            _check_mode(place.info.st_mode)
            return os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | CAREFULLY, dir_fd=place.parent)

    def _read(self, fd: int, line: int, limit: int | None) -> str:
        for _ in range(MOST_READS):
            before = os.fstat(fd)
            if line <= 1 and limit is None and before.st_size > self._max_read_bytes:
                raise TooLong
            os.lseek(fd, 0, os.SEEK_SET)
            text, failure = "", None
            try:
                text = read_lines(fd, line, limit, most_bytes=self._max_read_bytes, most_skipped=MAX_SKIPPED_BYTES)
            except NotText as error:
                failure = error
            after = os.fstat(fd)
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                if failure is not None:
                    raise failure
                return text
        raise OSError(errno.EBUSY, "it keeps changing")

    def _write(self, place: Place, data: bytes) -> None:
        if place.info is None:
            _replace(place, data, None)
            return
        _check_mode(place.info.st_mode)
        # Opened although it will be replaced: the kernel says whether we may write it.
        old = _checked(os.open(place.name, os.O_WRONLY | os.O_NOFOLLOW | CAREFULLY, dir_fd=place.parent))
        try:
            info = os.fstat(old)
            if info.st_nlink > 1 and not self._allow_hard_links:
                raise InvalidParams("it has other names (hard links), which may lie outside")
            if info.st_nlink > 1 or not _replace(place, data, old):
                with self._in_place:
                    _overwrite(old, data)
        finally:
            os.close(old)

    @contextmanager
    def _explained(self, path: str | Path) -> Generator[str]:
        """The path as text that can be a path; whatever goes wrong inside becomes an answer about this path."""
        try:
            yield _checked_path(path)
        except InvalidParams as error:
            if error.message.startswith(_shown(path)):
                raise
            raise InvalidParams(f"{_shown(path)}: {error.message}") from error
        except UnicodeEncodeError as error:
            raise InvalidParams(f"{_shown(path)}: the text holds half a character and cannot be written") from error
        except NotText as error:
            raise InvalidParams(f"{_shown(path)}: not UTF-8 text") from error
        except TooLong as error:
            raise InvalidParams(
                f"{_shown(path)}: more than {self._max_read_bytes} bytes; ask for fewer lines with line and limit"
            ) from error
        except OSError as error:
            raise _explain(path, error) from error


def _open_root(path: str | Path) -> Root:
    text = os.fspath(path)
    if not Path(text).is_absolute():
        raise InvalidParams(f"{_shown(path)}: not an absolute path")
    try:
        fd = os.open(text, DIRECTORY_ONLY)
    except (OSError, ValueError) as error:
        raise InvalidParams(f"{_shown(path)}: not a directory that can be opened") from error
    spellings = {tuple(split(name.rstrip("/"))) for name in (text, os.path.realpath(text))}
    return Root(fd, tuple(spellings))


def _shown(path: str | Path) -> str:
    text = os.fspath(path)
    return repr(text if len(text) <= 256 else f"{text[:256]}…")


def _checked_path(path: str | Path) -> str:
    text = os.fspath(path)
    if not text.startswith("/"):
        raise InvalidParams("not an absolute path")
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InvalidParams("no path can be written like this") from error
    if b"\0" in raw:
        raise InvalidParams("a path cannot hold NUL")
    if len(raw) >= MAX_PATH_BYTES:
        raise InvalidParams(f"longer than {MAX_PATH_BYTES - 1} bytes")
    return text


def _check_mode(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise InvalidParams(f"{KINDS.get(stat.S_IFMT(mode), 'something special')}, not a file with text")


def _check_kind(fd: int) -> None:
    _check_mode(os.fstat(fd).st_mode)
    if is_kernel_view(fd):
        raise InvalidParams("shows the system or a process, and is not a file")


def _checked(fd: int) -> int:
    """The same descriptor, if what it has open is a plain file; otherwise it is closed."""
    try:
        _check_kind(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _replace(place: Place, data: bytes, old: int | None) -> bool:
    """Put a new file in the place of the old one, with its mode, owner and attributes; False if we cannot give those."""
    temporary = f".duologue-{secrets.token_hex(8)}.tmp"
    mode = 0o666 if old is None else 0o600
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFULLY, mode, dir_fd=place.parent)
    try:
        try:
            if old is not None and not _copy_identity(old, fd):
                return False
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, place.name, src_dir_fd=place.parent, dst_dir_fd=place.parent)
        temporary = ""
        return True
    finally:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=place.parent)


def _copy_identity(old: int, new: int) -> bool:
    wanted, given = os.fstat(old), os.fstat(new)
    try:
        if (wanted.st_uid, wanted.st_gid) != (given.st_uid, given.st_gid):
            os.fchown(new, wanted.st_uid, wanted.st_gid)
        os.fchmod(new, stat.S_IMODE(wanted.st_mode))
        if hasattr(os, "listxattr"):
            for name in os.listxattr(old):
                os.setxattr(new, name, os.getxattr(old, name))
    except OSError as error:
        return error.errno in (errno.ENOTSUP, errno.ENODATA)
    return True


def _overwrite(fd: int, data: bytes) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    _write_all(fd, data)
    os.fsync(fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


REASONS = {
    errno.EXDEV: "outside the directories that may be used",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EISDIR: "a directory, not a file with text",
    errno.ELOOP: "too many links, or a link that is none of the file system's",
    errno.ENAMETOOLONG: "a part of the path is too long, or there are too many",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "no permission: the file system is read-only",
    errno.ENXIO: "a FIFO or device, not a file with text",
}


def _explain(path: str | Path, error: OSError) -> RequestError:
    if error.errno == errno.ENOENT:
        return ResourceNotFound(f"{_shown(path)}: no such file", data={"uri": Path(path).as_uri()})
    if error.errno in REASONS:
        return InvalidParams(f"{_shown(path)}: {REASONS[error.errno]}")
    return InternalError(f"{_shown(path)}: {error.strerror}")
