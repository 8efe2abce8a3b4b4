"""Batches of several sessions that are written in one transaction: a commit to the disk is what takes time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Lock

from duologue.store.records import Batch
from duologue.store.sqlite.connection import translate_errors
from duologue.store.sqlite.database import Database

MAX_BATCHES = 256
"""Batches in one transaction, so that no session waits long for those of others."""


class WriteGroup:
    """Batches that wait for the store's thread; more can be added until it begins to write them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_closed = False
        self._writes: list[tuple[str, Batch]] = []
        self._results: list[asyncio.Future[None]] = []

    def add(self, session_id: str, batch: Batch) -> asyncio.Future[None] | None:
        """Add a batch and return its result; None if the group is closed."""
        with self._lock:
            if self._is_closed or len(self._writes) == MAX_BATCHES:
                return None
            self._writes.append((session_id, batch))
            result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._results.append(result)
            return result

    def close(self) -> None:
        """Accept no further batch."""
        with self._lock:
            self._is_closed = True

    def write(self, database: Database, directory: Path) -> list[Exception | None]:
        """Write all batches together, or each on its own if that fails; return the error of each."""
        self.close()
        error = _write(database, directory, self._writes)
        if error is None or len(self._writes) == 1:
            return [error] * len(self._writes)
        return [_write(database, directory, [write]) for write in self._writes]

    def finish(self, written: asyncio.Future[list[Exception | None]]) -> None:
        """Give each batch its result."""
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
