"""Read and write text files below directories that were opened once and are never looked up again.

Reading    the kernel resolves the path below the root (`openat2`), and the type of the file is checked when it is open
Writing    `path_resolver` finds the directory, and a new file replaces the old one there (`atomic_write`)
Rejecting  before a file is opened that could block or have effects (`file_types`, `errors`)
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

from duologue.errors import InvalidParams
from duologue.local.errors import AccessDenied, as_request_error, os_error
from duologue.local.file_types import PATH_ONLY, SAFE_OPEN, check_kind, checked
from duologue.local.openat2 import open_beneath
from duologue.local.path_resolver import ResolvedPath, make_parents, walk
from duologue.local.root import CAN_CONFINE, Root, close_roots, open_root, split

MAX_READ_BYTES = 16 * 1024 * 1024
"""Bytes of text returned by one read: half of the longest message, since escaping makes it longer."""
MAX_PATH_BYTES = 4096
"""The kernel's limit, including the final NUL."""


class Roots:
    """Directories whose files may be read and written; they stay open until `close()`.

    The methods block; in a coroutine call them with `asyncio.to_thread`. They may run in several threads at once.

    Args:
        paths: The directories, as they are now: renaming or replacing them later changes nothing. One that is open
            already is closed with the others.
        allow_hard_links: Allow writing a file that has other names, which may be outside.
        follow_mounts: Treat file systems mounted inside a root as part of it.
        max_read_bytes: Limit of the text returned by one read.
        missing: Result of reading a missing file: an error, or an empty text.
        protected: Paths relative to a root, such as `.git/hooks`, that are written only with `even_protected`;
            everything below them is protected too.

    Raises:
        InvalidParams: A path is not absolute, or not a directory that can be opened.
        InternalError: This process has too many files open.
    """

    def __init__(
        self,
        paths: Sequence[str | Path | Root],
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
        self._protected = [tuple(split(path.casefold().rstrip("/"))) for path in protected]
        self._roots: list[Root] = []
        self._changing = threading.Lock()
        self._is_closed = False
        self._users = 0
        try:
            for path in paths if CAN_CONFINE else ():
                self._roots.append(path if isinstance(path, Root) else open_root(path))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directories after the calls in other threads have ended; reject later calls."""
        with self._changing:
            self._is_closed = True
            self._close_if_unused()

    def resolve(self, path: str | Path) -> str:
        """Return the absolute path without links, `.` and `..`; the file need not exist.

        A permission check examines this path and passes it to `read_text` or `write_text` with `is_resolved`: then the
        checked file is the one that is opened, even if a component became a link in between.

        Raises:
            ResourceNotFound: A missing directory is followed by `..`.
            InvalidParams: The path is outside the roots.
        """
        with self._using(path) as name, self._resolve(name) as resolved:
            return "/" + "/".join([*resolved.root, *resolved.parts])

    def read_text(
        self,
        path: str | Path,
        *,
        line: int | None = None,
        limit: int | None = None,
        is_resolved: bool = False,
    ) -> str:
        """Return the text of a file exactly as it is, including byte order mark and line ends.

        Args:
            path: Absolute path below one of the roots.
            line: First line to return, counted from 1 (0 means the same); past the end the text is empty.
            limit: Maximum number of lines to return.
            is_resolved: The path was returned by `resolve`: reject it if it now leads elsewhere.

        Raises:
            ResourceNotFound: The file does not exist.
            InvalidParams: The path is outside the roots, or the file is not a regular one, not UTF-8, too long, or not
                readable.
        """
        from duologue.local.text_reader import read_settled

        if (line or 0) < 0 or (limit or 0) < 0:
            raise InvalidParams("line and limit must not be negative")
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
        """Replace the content of a file with `text` atomically. Missing directories are made.

        Args:
            path: Absolute path below one of the roots.
            text: The new content.
            even_protected: Allow writing a protected path.
            is_resolved: The path was returned by `resolve`: reject it if it now leads elsewhere.

        Raises:
            InvalidParams: The path is outside the roots or protected, or the file is not regular, or not writable.
        """
        from duologue.local.atomic_write import write_file

        with self._using(path) as name:
            try:
                data = text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise AccessDenied("the text contains a lone surrogate, which UTF-8 cannot encode") from error
            with self._resolve(name, is_resolved) as resolved:
                if not even_protected and self._is_protected(resolved):
                    raise AccessDenied("this path is protected; writing it needs explicit permission")
                if resolved.info is not None:
                    check_kind(resolved.info.st_mode)
                with make_parents(resolved) as ready:
                    write_file(ready, data, allow_hard_links=self._allow_hard_links)

    def exists(self, path: str | Path) -> bool:
        """Return True if the file exists; a dangling link does not.

        Raises:
            InvalidParams: The path is outside the roots.
        """
        with self._using(path) as name:
            try:
                with self._resolve(name) as resolved:
                    return resolved.info is not None
            except (FileNotFoundError, NotADirectoryError):
                return False

    def stat(self, path: str | Path) -> os.stat_result:
        """Return the status of a file; links are followed.

        Raises:
            ResourceNotFound: The file does not exist.
            InvalidParams: The path is outside the roots.
        """
        with self._using(path) as name, self._resolve(name) as resolved:
            if resolved.info is None:
                raise os_error(errno.ENOENT)
            return resolved.info

    @property
    def paths(self) -> list[str]:
        """The directories, absolute and without links, as they were when they were opened."""
        return ["/" + "/".join(root.path) for root in self._roots]

    @contextmanager
    def resolved(self, path: str | Path) -> Generator[ResolvedPath]:
        """Resolve a path, and keep its directory open while the block runs.

        Raises:
            OSError: It cannot be resolved; EXDEV if it is outside the roots.
            AccessDenied: It is not an absolute path, or the roots are closed.
        """
        with self._in_use(), self._resolve(self._checked_path(path)) as resolved:
            yield resolved

    def is_protected(self, path: str | Path) -> bool:
        """Return True if writing the path needs `even_protected`.

        Raises:
            InvalidParams: The path is outside the roots.
        """
        with self._using(path) as name, self._resolve(name) as resolved:
            return self._is_protected(resolved)

    def _is_protected(self, resolved: ResolvedPath) -> bool:
        parts = tuple(part.casefold() for part in resolved.parts)
        return any(parts[: len(protected)] == protected for protected in self._protected)

    @contextmanager
    def _using(self, path: str | Path) -> Generator[str]:
        """Yield the checked path while the roots stay open; errors inside the block are reported about this path."""
        with self._in_use(), as_request_error(path):
            yield self._checked_path(path)

    @contextmanager
    def _in_use(self) -> Generator[None]:
        with self._changing:
            self._users += 1
        try:
            yield
        finally:
            with self._changing:
                self._users -= 1
                self._close_if_unused()

    def _close_if_unused(self) -> None:
        # A descriptor that is closed while a thread uses it could be reused for another directory.
        if self._is_closed and not self._users:
            close_roots(self._roots)

    def _checked_path(self, path: str | Path) -> str:
        text = os.fspath(path)
        if self._is_closed:
            raise AccessDenied("the directories are closed")
        if not CAN_CONFINE:
            raise AccessDenied("files cannot be confined to directories on this system")
        if not text.startswith("/"):
            raise AccessDenied("not an absolute path")
        try:
            raw = os.fsencode(text)
        except UnicodeEncodeError as error:
            raise AccessDenied("the path cannot be encoded") from error
        if b"\0" in raw:
            raise AccessDenied("the path contains NUL")
        if len(raw) >= MAX_PATH_BYTES:
            raise AccessDenied(f"longer than {MAX_PATH_BYTES - 1} bytes")
        return text

    def _locate(self, path: str) -> tuple[Root, Sequence[str]]:
        """Return the innermost root that contains a path, and the components of the path below it.

        Raises:
            OSError: EXDEV if no root contains it.
        """
        parts = split(path)
        for length in range(len(parts), -1, -1):
            start = tuple(parts[:length])
            for root in self._roots:
                if start in root.spellings:
                    return root, parts[length:]
        # A root's path may have other spellings: through links, or on a case-insensitive file system. Paths with `..`
        # are not tried: the result would reveal which directories exist outside.
        for length in range((*parts, "..").index(".."), 0, -1):
            with suppress(OSError):
                info = os.stat("/" + "/".join(parts[:length]))
                for root in self._roots:
                    if os.path.samestat(info, os.fstat(root.fd)):
                        return root, parts[length:]
        raise os_error(errno.EXDEV)

    @contextmanager
    def _resolve(self, path: str, is_resolved: bool = False) -> Generator[ResolvedPath]:
        root, parts = self._locate(path)
        with walk(root, parts, self._locate, follow_mounts=self._follow_mounts) as resolved:
            if is_resolved and [*resolved.root, *resolved.parts] != split(path):
                raise AccessDenied("the path leads elsewhere than when it was checked")
            yield resolved

    def _open_to_read(self, path: str, is_resolved: bool) -> int:
        if not is_resolved and (fd := self._open_at_once(path)) is not None:
            return fd
        with self._resolve(path, is_resolved) as resolved:
            if resolved.info is None:
                raise os_error(errno.ENOENT)
            check_kind(resolved.info.st_mode)
            return resolved.open(os.O_RDONLY | SAFE_OPEN)

    def _open_at_once(self, path: str) -> int | None:
        """Open the file with `openat2`; None if the path has to be resolved one component at a time."""
        root, parts = self._locate(path)
        relative = "/".join(parts)
        try:
            probe = open_beneath(root.fd, relative, PATH_ONLY, follow_mounts=self._follow_mounts)
            os.close(checked(probe))
            return open_beneath(root.fd, relative, os.O_RDONLY | SAFE_OPEN, follow_mounts=self._follow_mounts)
        except OSError as error:
            # `openat2` is missing, or met a `..` or link that leaves this root, and may lead to another one.
            if error.errno not in (errno.ENOSYS, errno.EXDEV):
                raise
        return None
