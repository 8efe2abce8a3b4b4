"""Lock a session across processes, with an advisory lock that the system releases when its process ends."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from pathlib import Path

from duologue.errors import SessionInUse
from duologue.private_files import FILE_MODE

_ATTEMPTS = 100
_PAUSE = 0.003
"""Seconds between attempts: a process that only checks the lock blocks it for a moment."""


class SessionLock:
    """The exclusive right to write to one session.

    The file's name is a digest, so any session id works. A file that no process has locked means nothing.
    """

    def __init__(self, directory: Path, session_id: str) -> None:
        self._session_id = session_id
        self._path = directory / hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Acquire the lock.

        Raises:
            SessionInUse: Another holder has it.
        """
        for _ in range(_ATTEMPTS):
            self._descriptor = self._try()
            if self._descriptor is not None:
                return
            time.sleep(_PAUSE)
        raise SessionInUse(self._session_id)

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            # Remove the file while it is locked: a waiting process then notices that the path names another file.
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def is_held(self) -> bool:
        """Return True if the lock is held, by this process or another."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _try(self) -> int | None:
        """Return a descriptor that holds the lock; None to try again."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            if self._lock(descriptor) and self._is_current(descriptor):
                os.fchmod(descriptor, FILE_MODE)
                self._write_pid(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def _lock(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            pass
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False  # The lock is free; another process is only checking it.
        except BlockingIOError:
            raise SessionInUse(self._session_id, holder=self._holder()) from None

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _write_pid(self, descriptor: int) -> None:
        """Write our process id into the file, for error messages of others; ignore a full disk."""
        try:
            if os.fstat(descriptor).st_size:  # truncating makes ext4 write the file to the disk when it is closed
                os.ftruncate(descriptor, 0)
            os.write(descriptor, b"%d\n" % os.getpid())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def _holder(self) -> int | None:
        try:
            return int(self._path.read_bytes())
        except (OSError, ValueError):
            return None
