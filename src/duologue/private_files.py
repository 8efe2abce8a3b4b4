"""The user's directories, and files and directories that only their owner may use (mode 0600 and 0700)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600


def user_directory(variable: str, default: str) -> Path:
    """Return the `duologue` directory below an XDG base directory.

    Args:
        variable: Environment variable that names the base directory; ignored unless it is an absolute path.
        default: The base directory otherwise, relative to the home directory.
    """
    base = Path(os.environ.get(variable, ""))
    return (base if base.is_absolute() else Path.home() / default) / "duologue"


def make_private_directory(path: Path) -> None:
    """Make a directory and its parents, and sync it to disk; leave an existing one unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    # mkdir applies the umask to the mode.
    path.chmod(DIRECTORY_MODE)
    sync_directory(path.parent)


def make_private_file(path: Path) -> None:
    """Make an empty file, or set the mode of an existing one to 0600."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        # Do not open it: closing it would release the locks that SQLite has on it in this process.
        if path.stat().st_mode & 0o777 != FILE_MODE:
            path.chmod(FILE_MODE)
        return
    try:
        os.fchmod(descriptor, FILE_MODE)
    finally:
        os.close(descriptor)


def replace_private_file(path: Path, content: bytes) -> None:
    """Write a file, replacing an earlier one; after a crash there is the old content or the new."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Write the entries of a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class PrivateFile:
    """A file that only its owner may read or write: made with mode 0600, and rejected if it is anything else.

    Raises:
        ValueError: The file has another owner, other users may access it, or it is not a regular file.
    """

    def __init__(self, path: str | Path) -> None:
        # Resolved now: a link or a relative path may lead to another file later.
        self.path = Path(path).expanduser().resolve()
        if self.path.exists():
            self._check(self.path.stat())

    def read(self) -> str:
        """Return the whole text; empty if the file does not exist."""
        try:
            with self.path.open(encoding="utf-8") as file:
                self._check(os.fstat(file.fileno()))
                return file.read()
        except FileNotFoundError:
            return ""

    def append(self, line: str) -> None:
        """Append one line with a single write."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self.path, flags, FILE_MODE)
        try:
            self._check(os.fstat(fd))
            data = f"{line}\n".encode()
            if os.write(fd, data) != len(data):
                raise OSError(f"{self.path}: no space for a whole line")
        finally:
            os.close(fd)

    def state(self) -> tuple[int, ...] | None:
        """Return a value that changes when the file is written or replaced; None if it does not exist."""
        try:
            info = self.path.stat()
        except OSError:
            return None
        return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode

    def is_at(self, path: str) -> bool:
        """Return True if that path leads to this file, by whatever name."""
        try:
            return str(self.path) == os.path.realpath(path) or self.path.samefile(path)
        except OSError:
            return False

    def is_beneath(self, root: str) -> bool:
        """Return True if the file is beneath that directory, whose path must contain no links."""
        return self.path.is_relative_to(root)

    def _check(self, info: os.stat_result) -> None:
        if not stat.S_ISREG(info.st_mode):
            raise ValueError(f"{self.path}: not a regular file")
        if os.name == "posix" and info.st_uid not in (0, os.geteuid()):
            raise ValueError(f"{self.path}: owned by another user (uid {info.st_uid})")
        if os.name == "posix" and stat.S_IMODE(info.st_mode) & 0o077:
            raise ValueError(f"{self.path}: other users may access it; run: chmod 600 {self.path}")
