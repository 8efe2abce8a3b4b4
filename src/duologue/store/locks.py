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
from duologue.store.private import FILE_MODE

__all__ = ["SessionLock"]

_ATTEMPTS = 4
_PAUSE = 0.003
"""Seconds between attempts: whoever only looks whether a session is held has the lock for a moment, too."""


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
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                while self._descriptor is None:
                    self._descriptor = self._lock()
                return
            except BlockingIOError:
                if attempt == _ATTEMPTS:
                    raise SessionInUse(self._session_id, holder=self._holder()) from None
                time.sleep(_PAUSE)

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

    def _lock(self) -> int | None:
        """A descriptor that holds the lock, or nothing if the file went away meanwhile."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_in_place(descriptor):
                os.close(descriptor)
                return None
            os.fchmod(descriptor, FILE_MODE)
            self._sign(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

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
