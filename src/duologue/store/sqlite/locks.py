"""One holder per session, across processes: an advisory lock that the system drops when its holder is gone."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from pathlib import Path
from types import TracebackType

from duologue.errors import SessionInUse
from duologue.private_files import FILE_MODE

__all__ = ["SessionLock"]

_ATTEMPTS = 100
_PAUSE = 0.003
"""Seconds between attempts: whoever only looks whether a session is held is in the way for a moment."""


class SessionLock:
    """The right to write to one session.

    The file's name is a digest, so any session id will do. A file without a holder means nothing.
    """

    def __init__(self, directory: Path, session_id: str) -> None:
        self._session_id = session_id
        self._path = directory / hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Take it.

        Raises:
            SessionInUse: Somebody has it.
        """
        for _ in range(_ATTEMPTS):
            self._descriptor = self._try()
            if self._descriptor is not None:
                return
            time.sleep(_PAUSE)
        raise SessionInUse(self._session_id)

    def release(self) -> None:
        """Let it go, if it is held."""
        if self._descriptor is not None:
            # Removed while locked: whoever waits for this file finds out that it is no longer the one of that name.
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def is_held(self) -> bool:
        """Whether anybody has it, in this process or another."""
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
        """A descriptor that holds the lock, or nothing if it is worth another attempt."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            if self._lock(descriptor) and self._is_in_place(descriptor):
                os.fchmod(descriptor, FILE_MODE)
                self._sign(descriptor)
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
            return False  # So nobody has it; somebody looks.
        except BlockingIOError:
            raise SessionInUse(self._session_id, holder=self._holder()) from None

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _sign(self, descriptor: int) -> None:
        """Say who holds it, for those who are turned away; a full disk is no reason to fail."""
        try:
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
