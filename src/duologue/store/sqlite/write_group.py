"""Batches of several sessions that are written in one transaction, and the locks that are released after it.

A commit to the disk is what takes time, and a thread that is woken for each lock of a thousand sessions that end.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from duologue.store.records import Batch
from duologue.store.sqlite.connection import translate_errors
from duologue.store.sqlite.database import Database
from duologue.store.sqlite.locks import SessionLock

MAX_BATCHES = 256
"""Batches and locks in one group, so that no session waits long for those of others."""

Work: TypeAlias = tuple[str, Batch] | SessionLock
"""A batch of a session to write, or a lock to release."""


class WriteGroup:
    """Batches and locks that wait for the store's thread; more can be added until it begins with them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_closed = False
        self._work: list[Work] = []
        self._results: list[asyncio.Future[None]] = []

    def add(self, work: Work) -> asyncio.Future[None] | None:
        """Add a batch or a lock and return its result; None if the group is closed."""
        with self._lock:
            if self._is_closed or len(self._work) == MAX_BATCHES:
                return None
            self._work.append(work)
            result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._results.append(result)
            return result

    def close(self) -> None:
        """Accept no further batch."""
        with self._lock:
            self._is_closed = True

    def write(self, database: Database, directory: Path) -> list[Exception | None]:
        """Write all batches together, or each on its own if that fails, then release the locks.

        Returns:
            The error of each batch and lock, in the order in which they were added.
        """
        self.close()
        writes = [each for each in self._work if isinstance(each, tuple)]
        error = _write(database, directory, writes) if writes else None
        errors = [error] * len(writes)
        if error is not None and len(writes) > 1:
            errors = [_write(database, directory, [write]) for write in writes]
        left = iter(errors)
        return [next(left) if isinstance(each, tuple) else _release(each, directory) for each in self._work]

    def finish(self, written: asyncio.Future[list[Exception | None]]) -> None:
        """Give each batch and lock its result."""
        failure = asyncio.CancelledError() if written.cancelled() else written.exception()
        errors = [failure] * len(self._results) if failure is not None else written.result()
        for result, error in zip(self._results, errors, strict=True):
            if result.done():
                continue
            if error is None:
                result.set_result(None)
            elif isinstance(error, asyncio.CancelledError):
                result.cancel()
            else:
                result.set_exception(error)


def _write(database: Database, directory: Path, writes: list[tuple[str, Batch]]) -> Exception | None:
    try:
        with translate_errors(directory):
            database.write(writes)
    except Exception as error:
        return error
    return None


def _release(lock: SessionLock, directory: Path) -> Exception | None:
    try:
        with translate_errors(directory):
            lock.release()
    except Exception as error:
        return error
    return None
