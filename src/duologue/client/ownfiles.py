"""The client's own files: rules, remembered answers, the log of decisions. Ours alone, never an agent's to write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["OwnFile"]


class OwnFile:
    """A file that only we may write or read: made with mode 0600, and refused if it is anything else.

    Raises:
        ValueError: It belongs to somebody else, others may read or write it, or it is not a plain file.
    """

    def __init__(self, path: str | Path) -> None:
        # What the path means is settled now: a link or a relative path may mean something else later.
        self.path = Path(path).expanduser().resolve()
        if self.path.exists():
            self._check(self.path.stat())

    def read(self) -> str:
        """All of it, or nothing if it is not there yet."""
        try:
            with self.path.open(encoding="utf-8") as file:
                self._check(os.fstat(file.fileno()))
                return file.read()
        except FileNotFoundError:
            return ""

    def append(self, line: str) -> None:
        """Add one line, whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self.path, flags, 0o600)
        try:
            self._check(os.fstat(fd))
            data = f"{line}\n".encode()
            if os.write(fd, data) != len(data):
                raise OSError(f"{self.path}: no room for a whole line")
        finally:
            os.close(fd)

    def state(self) -> tuple[int, ...] | None:
        """What changes when it is written or replaced; None if there is no file."""
        try:
            info = self.path.stat()
        except OSError:
            return None
        return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode

    def is_at(self, path: str) -> bool:
        """Whether that path leads to it, by whatever name."""
        try:
            return str(self.path) == os.path.realpath(path) or self.path.samefile(path)
        except OSError:
            return False

    def is_beneath(self, root: str) -> bool:
        """Whether it stands in that directory, whose path holds no links, or deeper."""
        return self.path.is_relative_to(root)

    def _check(self, info: os.stat_result) -> None:
        if not stat.S_ISREG(info.st_mode):
            raise ValueError(f"{self.path}: not a plain file")
        if os.name == "posix" and info.st_uid not in (0, os.geteuid()):
            raise ValueError(f"{self.path}: belongs to somebody else")
        if os.name == "posix" and stat.S_IMODE(info.st_mode) & 0o077:
            raise ValueError(f"{self.path}: others may use it; say: chmod 600 {self.path}")
