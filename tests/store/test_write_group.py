"""Batches of several sessions share a transaction, and no session depends on another one's batch."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from duologue.errors import ResourceNotFound, StoreError
from duologue.store.records import Batch, LogPosition
from duologue.store.session_log import SessionLog
from duologue.store.sqlite.database import Database
from duologue.store.sqlite.store import SqliteStore
from duologue.store.sqlite.write_group import MAX_BATCHES
from tests.store.messages import execute, info, numbered, replayed_numbers


class BusyThread:
    """Keeps the thread of a store busy inside of the block, so that calls wait for it."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._is_free = threading.Event()

    async def __aenter__(self) -> None:
        self._call = self._store.start(lambda database: self._is_free.wait(10))

    async def __aexit__(self, *error: object) -> None:
        self._is_free.set()
        await self._call


async def opened(store: SqliteStore, count: int) -> list[SessionLog]:
    return [await store.create(info(f"s{number}")) for number in range(count)]


async def traced(store: SqliteStore) -> list[str]:
    statements: list[str] = []

    def trace(database: Database) -> None:
        database._db.set_trace_callback(statements.append)

    await store.start(trace)
    return statements


async def test_sessions_that_are_written_at_the_same_time_share_one_commit(tmp_path: Path) -> None:
    async with asyncio.timeout(60), SqliteStore(tmp_path) as store:
        logs = await opened(store, 20)
        statements = await traced(store)
        async with BusyThread(store):
            for number, log in enumerate(logs):
                log.append(numbered(number))
            commits = [asyncio.ensure_future(log.commit()) for log in logs]
            await asyncio.sleep(0)
        await asyncio.gather(*commits)

        assert statements.count("COMMIT") == 1
        assert [await replayed_numbers(store, f"s{number}") for number in range(20)] == [[n] for n in range(20)]


async def test_a_transaction_has_a_bounded_number_of_batches(tmp_path: Path) -> None:
    async with asyncio.timeout(60), SqliteStore(tmp_path) as store:
        [log] = await opened(store, 1)
        await log.aclose()
        records = await store.acquire("s0")
        statements = await traced(store)
        async with BusyThread(store):
            for number in range(MAX_BATCHES + 1):
                log = SessionLog("s0", records, LogPosition(number, 0), on_close=lambda: None)
                log.append(numbered(number))
                log._write()
        await records.position()
        await records.release()

        assert statements.count("COMMIT") == 2
        assert await replayed_numbers(store, "s0") == list(range(MAX_BATCHES + 1))


async def test_a_batch_that_fails_does_not_stop_those_of_other_sessions(tmp_path: Path) -> None:
    async with asyncio.timeout(60), SqliteStore(tmp_path) as store:
        logs = await opened(store, 3)
        execute(tmp_path, "DELETE FROM sessions WHERE id = 's1'")
        async with BusyThread(store):
            for number, log in enumerate(logs):
                log.append(numbered(number))
            commits = [asyncio.ensure_future(log.commit()) for log in logs]
            await asyncio.sleep(0)
        outcomes = await asyncio.gather(*commits, return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [type(None), ResourceNotFound, type(None)]
        assert await replayed_numbers(store, "s0") == [0]
        assert await replayed_numbers(store, "s2") == [2]
        with pytest.raises(ResourceNotFound):
            await logs[1].aclose()


async def test_a_call_between_two_writes_stays_between_them(tmp_path: Path) -> None:
    async with asyncio.timeout(60), SqliteStore(tmp_path) as store:
        first, second = await opened(store, 2)
        async with BusyThread(store):
            first.append(numbered(1))
            first._write()
            position = asyncio.ensure_future(second._session_records.position())
            await asyncio.sleep(0)
            second.append(numbered(2))
            second._write()

        assert (await position).last == 0
        await second.commit()
        assert await replayed_numbers(store, "s1") == [2]


async def test_nothing_is_written_to_a_closed_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    [log] = await opened(store, 1)
    records = log._session_records
    async with asyncio.timeout(60):
        log.append(numbered(1))
        await store.aclose()

    with pytest.raises(StoreError, match="is closed"):
        records.write(Batch([], {}))


async def test_sessions_that_end_at_the_same_time_share_one_commit_and_are_released(tmp_path: Path) -> None:
    async with asyncio.timeout(60), SqliteStore(tmp_path) as store:
        logs = await opened(store, 20)
        statements = await traced(store)
        async with BusyThread(store):
            for number, log in enumerate(logs):
                log.append(numbered(number))
            writes = [asyncio.ensure_future(log.commit()) for log in logs[:10]]
            await asyncio.sleep(0)
            ends = [asyncio.ensure_future(logs[19]._session_records.release())]
            await asyncio.sleep(0)
            writes += [asyncio.ensure_future(log.commit()) for log in logs[10:]]
            await asyncio.sleep(0)
        await asyncio.gather(*writes, *ends)

        assert statements.count("COMMIT") == 1
        await asyncio.gather(*(log.aclose() for log in logs))
        assert list((tmp_path / "locks").iterdir()) == []


async def test_a_lock_is_released_although_a_write_of_its_group_fails(tmp_path: Path) -> None:
    async with asyncio.timeout(60), SqliteStore(tmp_path) as store:
        logs = await opened(store, 2)
        records = [log._session_records for log in logs]
        await store.start(lambda database: database.delete("s0"))
        async with BusyThread(store):
            failing = records[0].write(Batch([], {"name": b"{}"}))
            released = [asyncio.ensure_future(each.release()) for each in records]
            await asyncio.sleep(0)
        results = await asyncio.gather(failing, *released, return_exceptions=True)

        assert isinstance(results[0], ResourceNotFound)
        assert results[1:] == [None, None]
        await (await store.acquire("s1")).release()
