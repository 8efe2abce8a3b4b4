"""Store sessions in a directory: an SQLite database, one thread, and a lock for each open session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from duologue.conversation.session_setup import SessionInfo
from duologue.errors import StoreError
from duologue.private_files import make_private_directory
from duologue.store.base import Store
from duologue.store.pagination import PAGE, Archived, SessionPage
from duologue.store.records import Batch, LogPosition, Record, RecordPage, SessionRecords
from duologue.store.sqlite.connection import translate_errors
from duologue.store.sqlite.database import Database
from duologue.store.sqlite.locks import SessionLock
from duologue.store.sqlite.write_group import Work, WriteGroup

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore(Store):
    """Saves sessions in a directory that only its owner may use; it is made when it is first needed.

    Several processes may use one directory. Committed records survive a crash of the process and a power failure. Use
    it with `async with`, or call `aclose()`.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.directory = Path(path)
        self._locks = self.directory / "locks"
        self._database: Database | None = None
        # One thread: SQLite blocks, the event loop must not, and the order of calls is kept.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="duologue-store")
        self._is_closed = False
        self._group = WriteGroup()
        self._group.close()

    async def info(self, session_id: str) -> SessionInfo:
        return await self.start(Database.info, session_id)

    async def change_info(self, session_id: str, changes: Mapping[str, object]) -> SessionInfo:
        return await self.start(Database.change_info, session_id, changes)

    async def fork(self, session_id: str, info: SessionInfo) -> None:
        await self.save_log(session_id)
        await self.start(Database.fork, session_id, info)

    async def delete(self, session_id: str) -> None:
        def delete(database: Database) -> None:
            with SessionLock(self._locks, session_id):
                database.delete(session_id)

        await self.start(delete)

    async def list(
        self,
        *,
        cwd: str | None = None,
        cursor: str | None = None,
        archived: Archived = "exclude",
        limit: int = PAGE,
    ) -> SessionPage:
        return await self.start(Database.page, cwd, cursor, archived, limit)

    async def acquire(self, session_id: str, *, new: SessionInfo | None = None) -> SessionRecords:
        lock = SessionLock(self._locks, session_id)

        def lock_session(database: Database) -> None:
            lock.acquire()
            try:
                database.find(session_id) if new is None else database.create(new)
            except BaseException:
                lock.release()
                raise

        try:
            await self.start(lock_session)
        except asyncio.CancelledError:
            # The thread may acquire it nevertheless; release it after that.
            self._thread.submit(lock.release)
            raise
        return _SqliteRecords(self, session_id, lock)

    async def read_only(self, session_id: str) -> tuple[SessionRecords, bool]:
        lock = SessionLock(self._locks, session_id)

        def is_locked(database: Database) -> bool:
            database.find(session_id)
            return lock.is_held()

        return _SqliteRecords(self, session_id, lock), await self.start(is_locked)

    async def close(self) -> None:
        if self._is_closed:
            return
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close_database)
        self._is_closed = True
        self._group.close()
        try:
            await closing
        finally:
            self._thread.shutdown(wait=False)

    def start(
        self, call: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Run a function with the database in the store's thread, after all earlier calls.

        Raises:
            StoreError: The store is closed.
        """
        if self._is_closed:
            raise StoreError(f"the store in {self.directory} is closed")
        self._group.close()
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._thread, lambda: self._run(call, *args, **kwargs))

    def write(self, session_id: str, batch: Batch) -> asyncio.Future[None]:
        """Write a batch after all earlier calls, in one transaction with those that wait for the thread as well.

        Raises:
            StoreError: The store is closed.
        """
        return self._add((session_id, batch))

    def release(self, lock: SessionLock) -> asyncio.Future[None]:
        """Release the lock of a session after all earlier calls, together with others that wait for the thread.

        Raises:
            StoreError: The store is closed.
        """
        return self._add(lock)

    def _add(self, work: Work) -> asyncio.Future[None]:
        result = self._group.add(work)
        if result is None:
            group = WriteGroup()
            result = group.add(work)
            assert result is not None, "an empty group accepts a batch"
            self.start(group.write, self.directory).add_done_callback(group.finish)
            self._group = group
        return result

    def _run(self, call: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        with translate_errors(self.directory):
            if self._database is None:
                self._database = Database(self.directory)
                make_private_directory(self._locks)
            return call(self._database, *args, **kwargs)

    def _close_database(self) -> None:
        if self._database is not None:
            with translate_errors(self.directory):
                self._database.close()


class _SqliteRecords(SessionRecords):
    """The records of one session, accessed in the store's thread."""

    def __init__(self, store: SqliteStore, session_id: str, lock: SessionLock) -> None:
        self._store = store
        self._session_id = session_id
        self._lock = lock

    def write(self, batch: Batch) -> asyncio.Future[None]:
        return self._store.write(self._session_id, batch)

    async def position(self) -> LogPosition:
        return await self._store.start(Database.position, self._session_id)

    async def read(self, after: int, upto: int) -> RecordPage:
        return await self._store.start(Database.read, self._session_id, after, upto)

    async def read_entity(self, entity: str, after: int, upto: int) -> list[Record]:
        return await self._store.start(Database.read_entity, self._session_id, entity, after, upto)

    async def read_state(self, name: str) -> bytes | None:
        return await self._store.start(Database.read_state, self._session_id, name)

    async def release(self) -> None:
        await self._store.release(self._lock)
