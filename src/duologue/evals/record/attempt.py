"""An attempt at a trial: a locked directory that one rename turns into the record of the trial."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from duologue.evals.exceptions import RecordError
from duologue.evals.record.key import TrialKey, directory_name
from duologue.evals.record.manifest import RECORD_FORMAT
from duologue.evals.record.result import Grades, TrialResult
from duologue.evals.record.trial_record import TrialFiles
from duologue.evals.record.versioned_file import read_versioned, sync_files, write_versioned
from duologue.private_files import FILE_MODE, make_private_directory, sync_directory

KEY_FILE = "key.json"
"""File of an attempt that says which trial it is for."""
LINK = "scratch"
"""Link of an attempt to the directories of its agent, as long as they exist."""


class AttemptKey(Struct, frozen=True, kw_only=True):
    """`key.json`: the trial that an attempt is for."""

    format: int = RECORD_FORMAT
    key: TrialKey


class Attempt(TrialFiles):
    """One attempt at a trial, locked while its process lives.

    Use it in a `with` block: a directory that was neither committed nor set aside is removed at its end.

    Attributes:
        key: The trial.
    """

    def __init__(self, run: Path, key: TrialKey) -> None:
        self.key = key
        self._run = run
        name = f"{directory_name(key.case)}.{key.trial}.{directory_name(key.agent)}.{os.urandom(6).hex()}"
        super().__init__(run / "attempts" / name)
        # The lock exists before the directory: a directory without a locked file is one whose process is gone.
        self._lock_file = lock_file_of(self.directory)
        self._lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._is_open = True
        make_private_directory(self.directory)
        write_versioned(self.directory / KEY_FILE, AttemptKey(key=key))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.discard()

    def commit(self, result: TrialResult, grades: Grades | None = None) -> bool:
        """Make this attempt the record of its trial; return False if the trial has a record already.

        Everything is on disk before the rename, and the rename is on disk when this returns.

        Raises:
            ValueError: The result is that of another trial, or the attempt has ended.
        """
        self._finish(result, grades)
        target = self._run / "trials" / self.key.directory
        if self._move(target):
            return True
        self.discard()
        return False

    def set_aside(self, result: TrialResult) -> Path:
        """Keep this attempt as a failed one, because the trial is tried again; return its directory.

        Raises:
            ValueError: The result is that of another trial, or the attempt has ended.
        """
        self._finish(result, None)
        base = self._run / "failed" / self.key.directory
        number = 1
        while not self._move(target := base.with_name(f"{base.name}-{number}")):
            number += 1
        return target

    def discard(self) -> None:
        """Remove the directory of an attempt that has not been committed or set aside; otherwise do nothing.

        One whose agent's directories still exist stays as an interrupted attempt, so that they are found and removed.
        """
        if self._is_open:
            if not (self.directory / LINK).is_symlink():
                shutil.rmtree(self.directory, ignore_errors=True)
            self._release()

    def _finish(self, result: TrialResult, grades: Grades | None) -> None:
        if not self._is_open:
            raise ValueError(f"the attempt {self.directory.name} has ended; begin another one")
        if result.key != self.key:
            raise ValueError(f"this attempt is for {self.key}, and the result is that of {result.key}")
        if grades is not None:
            write_versioned(self.grades_file, grades)
        write_versioned(self.result_file, result)
        sync_files(self.directory)

    def _move(self, target: Path) -> bool:
        """Rename the directory; return False if the target exists."""
        make_private_directory(target.parent.parent)
        make_private_directory(target.parent)
        try:
            self.directory.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        sync_directory(target.parent)
        self._release()
        self.directory = target
        return True

    def _release(self) -> None:
        self._is_open = False
        self._lock_file.unlink(missing_ok=True)
        os.close(self._lock)


class InterruptedAttempt(TrialFiles):
    """An attempt whose process is gone: it ended between its beginning and the record of its trial."""

    @property
    def key(self) -> TrialKey | None:
        """The trial that it was for; None if it ended before that was written, or has become a record meanwhile."""
        path = self.directory / KEY_FILE
        try:
            return read_versioned(path, AttemptKey, RECORD_FORMAT).key
        except RecordError:
            if path.exists():
                raise
            return None

    def remove(self) -> None:
        """Remove it."""
        shutil.rmtree(self.directory, ignore_errors=True)
        lock_file_of(self.directory).unlink(missing_ok=True)


def lock_file_of(directory: Path) -> Path:
    """Return the file that is locked while the process of an attempt lives."""
    return directory.with_name(f"{directory.name}.lock")


def is_running(directory: Path) -> bool:
    """Return True if the process of an attempt lives."""
    try:
        descriptor = os.open(lock_file_of(directory), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
