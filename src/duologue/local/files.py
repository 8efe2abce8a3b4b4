"""Text files beneath directories that were opened once and are never looked up again.

Reading    the kernel resolves the path beneath the root (`beneath`), and the kind of file is checked on the handle
Writing    the walk finds the directory (`walk`), and a new file takes the place of the old one there (`replace`)
Refusing   before anything was opened that could block, act or belong to somebody else (`kinds`, `refusals`)
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

from duologue.errors import InternalError, InvalidParams
from duologue.local.atomic_write import write_file
from duologue.local.errors import AccessDenied, as_request_error, quote_path, refusal
from duologue.local.file_types import CAREFULLY, LOOK_ONLY, check_kind, checked
from duologue.local.openat2 import open_beneath
from duologue.local.path_resolver import DIRECTORY_ONLY, ResolvedPath, Root, make_parents, split, walk
from duologue.local.text_reader import read_settled

__all__ = ["MAX_READ_BYTES", "Roots"]

MAX_READ_BYTES = 16 * 1024 * 1024
"""Text returned by one read: half of the longest message, which holds it escaped."""
MAX_PATH_BYTES = 4096
"""The kernel's own limit, with the NUL at its end."""
CAN_CONFINE = os.open in os.supports_dir_fd
"""Where a name cannot be opened in a directory's handle, no path is safe from whoever can move directories."""


class Roots:
    """Directories whose files may be read and written, opened here and held until `close()`.

    The methods block; in a coroutine call them with `asyncio.to_thread`. They may run in several threads at once.

    Args:
        paths: The directories. What is meant is what they are now, even if they are renamed or replaced later.
        allow_hard_links: Whether a file may be written that has other names, which may lie outside.
        follow_mounts: Whether other file systems mounted inside a root belong to it.
        max_read_bytes: Most text returned by one read.
        missing: What reading a missing file gives: an error, or an empty text.
        protected: Places relative to a root, such as `.git/hooks`, that are not written unless asked for by
            `even_protected`; whatever stands beneath them is protected too, by whatever way it is reached.

    Raises:
        InvalidParams: A path is not absolute, or not a directory that may be opened.
        InternalError: This process has too many files open.
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
        self._protected = [tuple(split(place.casefold().rstrip("/"))) for place in protected]
        self._roots: list[Root] = []
        self._changing = threading.Lock()
        self._is_closed = False
        self._users = 0
        try:
            for path in paths if CAN_CONFINE else ():
                self._roots.append(_open_root(path))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the directories go: what runs in other threads ends first, everything later is refused."""
        with self._changing:
            self._is_closed = True
            self._let_go_if_unused()

    def resolve(self, path: str | Path) -> str:
        """Where a path ends, written without links, `.` and `..`; there need not be anything yet.

        Whoever judges a path judges this one, and hands it to `read_text` or `write_text` with `is_resolved`: what is
        opened is then what was judged, whatever became a link in between.

        Raises:
            ResourceNotFound: It leads through a directory that is missing and out again.
            InvalidParams: Outside.
        """
        with self._using(path) as name, self._place(name) as place:
            return "/" + "/".join([*place.root, *place.parts])

    def read_text(
        self,
        path: str | Path,
        *,
        line: int | None = None,
        limit: int | None = None,
        is_resolved: bool = False,
    ) -> str:
        """The text of a file exactly as it is, byte order mark and line ends included.

        Args:
            path: Absolute, beneath one of the roots.
            line: First line to return, counted from 1 (0 means the same); past the end there is no text.
            limit: Most lines to return.
            is_resolved: The path is one that `resolve` gave: refuse it if it now leads elsewhere.

        Raises:
            ResourceNotFound: There is no such file.
            InvalidParams: Outside, not a plain file, not UTF-8, too long, or not to be read by us.
        """
        if (line or 0) < 0 or (limit or 0) < 0:
            raise InvalidParams("line and limit count lines: they cannot be negative")
        with self._using(path) as name:
            try:
                fd = checked(self._open_to_read(name, is_resolved))
            except FileNotFoundError:
                if self._missing == "empty":
                    return ""
                raise
            try:
                return read_settled(fd, line or 1, limit, most_bytes=self._max_read_bytes)
            finally:
                os.close(fd)

    def write_text(
        self, path: str | Path, text: str, *, even_protected: bool = False, is_resolved: bool = False
    ) -> None:
        """Make `text` the whole content of a file: at once, or not at all. Missing directories are made.

        Args:
            path: Absolute, beneath one of the roots.
            text: What it will hold.
            even_protected: Whether it may be a protected place.
            is_resolved: The path is one that `resolve` gave: refuse it if it now leads elsewhere.

        Raises:
            InvalidParams: Outside, not a plain file, protected, or not to be written by us.
        """
        with self._using(path) as name:
            try:
                data = text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise AccessDenied(
                    "the text holds half a character (a lone surrogate) and cannot be written"
                ) from error
            with self._place(name, is_resolved) as place:
                if not even_protected and self._is_protected(place):
                    raise AccessDenied("protected: not written without being asked for by name")
                if place.info is not None:
                    check_kind(place.info.st_mode)
                with make_parents(place) as ready:
                    write_file(ready, data, allow_hard_links=self._allow_hard_links)

    def exists(self, path: str | Path) -> bool:
        """Whether there is anything; a link that leads nowhere is nothing.

        Raises:
            InvalidParams: Outside.
        """
        with self._using(path) as name:
            try:
                with self._place(name) as place:
                    return place.info is not None
            except (FileNotFoundError, NotADirectoryError):
                return False

    def stat(self, path: str | Path) -> os.stat_result:
        """What is there, links followed.

        Raises:
            ResourceNotFound: Nothing.
            InvalidParams: Outside.
        """
        with self._using(path) as name, self._place(name) as place:
            if place.info is None:
                raise refusal(errno.ENOENT)
            return place.info

    def is_protected(self, path: str | Path) -> bool:
        """Whether writing there needs `even_protected`.

        Raises:
            InvalidParams: Outside.
        """
        with self._using(path) as name, self._place(name) as place:
            return self._is_protected(place)

    def _is_protected(self, place: ResolvedPath) -> bool:
        parts = tuple(part.casefold() for part in place.parts)
        return any(parts[: len(kept)] == kept for kept in self._protected)

    @contextmanager
    def _using(self, path: str | Path) -> Generator[str]:
        """The path as text that can be a path, while the roots are held; what fails inside is told about this path."""
        with self._changing:
            self._users += 1
        try:
            with as_request_error(path):
                yield self._checked_path(path)
        finally:
            with self._changing:
                self._users -= 1
                self._let_go_if_unused()

    def _let_go_if_unused(self) -> None:
        # A descriptor closed under a thread that uses it may be another directory by then.
        if self._is_closed and not self._users:
            while self._roots:
                os.close(self._roots.pop().fd)

    def _checked_path(self, path: str | Path) -> str:
        text = os.fspath(path)
        if self._is_closed:
            raise AccessDenied("the directories it could be in are closed")
        if not CAN_CONFINE:
            raise AccessDenied("files cannot be confined to directories on this system")
        if not text.startswith("/"):
            raise AccessDenied("not an absolute path")
        try:
            raw = os.fsencode(text)
        except UnicodeEncodeError as error:
            raise AccessDenied("no path can be written like this") from error
        if b"\0" in raw:
            raise AccessDenied("a path cannot hold NUL")
        if len(raw) >= MAX_PATH_BYTES:
            raise AccessDenied(f"longer than {MAX_PATH_BYTES - 1} bytes")
        return text

    def _locate(self, path: str) -> tuple[Root, Sequence[str]]:
        """The root a path lies beneath, the innermost of several, and the parts of the path from there.

        Raises:
            OSError: EXDEV if there is none.
        """
        parts = split(path)
        for length in range(len(parts), -1, -1):
            start = tuple(parts[:length])
            for root in self._roots:
                if start in root.spellings:
                    return root, parts[length:]
        # The path of a root may be written in other ways: by other links, or on a file system that folds case. What
        # leads through `..` is not tried: whether that works would tell which directories there are outside.
        for length in range((*parts, "..").index(".."), 0, -1):
            with suppress(OSError):
                info = os.stat("/" + "/".join(parts[:length]))
                for root in self._roots:
                    if os.path.samestat(info, os.fstat(root.fd)):
                        return root, parts[length:]
        raise refusal(errno.EXDEV)

    @contextmanager
    def _place(self, path: str, is_resolved: bool = False) -> Generator[ResolvedPath]:
        root, parts = self._locate(path)
        with walk(root, parts, self._locate, follow_mounts=self._follow_mounts) as place:
            if is_resolved and [*place.root, *place.parts] != split(path):
                raise AccessDenied("it leads elsewhere than when it was judged")
            yield place

    def _open_to_read(self, path: str, is_resolved: bool) -> int:
        if not is_resolved and (fd := self._open_at_once(path)) is not None:
            return fd
        with self._place(path, is_resolved) as place:
            if place.info is None:
                raise refusal(errno.ENOENT)
            check_kind(place.info.st_mode)
            return place.open(os.O_RDONLY | CAREFULLY)

    def _open_at_once(self, path: str) -> int | None:
        """The file as the kernel finds it; None if it would have to be found step by step."""
        root, parts = self._locate(path)
        way = "/".join(parts)
        try:
            looked_at = open_beneath(root.fd, way, LOOK_ONLY, follow_mounts=self._follow_mounts)
            os.close(checked(looked_at))
            return open_beneath(root.fd, way, os.O_RDONLY | CAREFULLY, follow_mounts=self._follow_mounts)
        except OSError as error:
            # The kernel's call is missing here, or met `..` or a link out of this root and did not look where it leads.
            if error.errno not in (errno.ENOSYS, errno.EXDEV):
                raise
        return None


def _open_root(path: str | Path) -> Root:
    text = os.fspath(path)
    if not text.startswith("/"):
        raise InvalidParams(f"{quote_path(path)}: not an absolute path")
    try:
        fd = os.open(text, DIRECTORY_ONLY)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise InternalError(f"{quote_path(path)}: too many files are open already") from error
        raise InvalidParams(f"{quote_path(path)}: not a directory that can be opened") from error
    real = tuple(split(os.path.realpath(text)))
    return Root(fd, real, frozenset({real, tuple(split(text.rstrip("/")))}))
