"""The store on disk: its files, its locks, its neighbours in other processes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from duologue.errors import InvalidParams, SessionInUse, StoreError
from duologue.store.records import Batch, Record
from duologue.store.replay import Damage
from duologue.store.sqlite.connection import VERSION
from duologue.store.sqlite.database import FILE_NAME
from duologue.store.sqlite.locks import SessionLock
from duologue.store.sqlite.store import SqliteStore
from tests.store.messages import chunk, execute, info, numbered, replayed, replayed_numbers, tool
from tests.store.writers import Writers


@pytest.fixture
def writers() -> Iterator[Writers]:
    with Writers() as writers:
        yield writers


@asynccontextmanager
async def store_with(path: Path, *session_ids: str) -> AsyncGenerator[SqliteStore]:
    """Make a store with sessions of one event each."""
    async with SqliteStore(path) as store:
        for session_id in session_ids:
            async with await store.create(info(session_id)) as log:
                log.append(numbered(1))
        yield store


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_session_outlives_its_store(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s"):
        pass
    async with SqliteStore(tmp_path) as store:
        async with await store.open("s") as log:
            log.append(numbered(2))
        assert await replayed_numbers(store, "s") == [1, 2]


async def test_making_a_store_touches_nothing_until_it_is_used(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "a" / "b"):
        pass

    assert os.listdir(tmp_path) == []


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        await store.list()


@pytest.mark.fault("STO-19")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o377])
async def test_only_the_owner_can_read_it_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        async with store_with(tmp_path / "store", "s") as store:
            log = await store.open("s")
            log.append(numbered(2))
            await log.commit()
            modes = {path.name: mode_of(path) for path in (tmp_path / "store").rglob("*")}
    finally:
        os.umask(before)

    lock = hashlib.sha256(b"s").hexdigest()
    assert mode_of(tmp_path / "store") == 0o700
    assert modes == {
        FILE_NAME: 0o600,
        f"{FILE_NAME}-wal": 0o600,
        f"{FILE_NAME}-shm": 0o600,
        "locks": 0o700,
        lock: 0o600,
    }


async def test_a_file_that_others_could_read_is_closed_to_them_and_a_directory_is_left_alone(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    async with store_with(tmp_path, "s"):
        pass
    (tmp_path / FILE_NAME).chmod(0o644)
    async with SqliteStore(tmp_path) as store:
        await store.list()

    assert mode_of(tmp_path / FILE_NAME) == 0o600
    assert mode_of(tmp_path) == 0o755


async def test_a_deleted_session_leaves_no_trace_in_the_file(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s") as store:
        async with await store.open("s") as log:
            log.append(chunk("the passphrase is xyzzy"))
            log.save_state("history", b"xyzzy" * 2000)
        await store.delete("s")

    assert b"xyzzy" not in (tmp_path / FILE_NAME).read_bytes()


# --- one holder


@pytest.mark.fault("STO-09")
async def test_a_session_that_another_process_has_open_is_in_use(tmp_path: Path, writers: Writers) -> None:
    writer = writers.start(tmp_path, "s", holds=True)
    writer.wait_for("ready")
    async with SqliteStore(tmp_path) as store:
        with pytest.raises(SessionInUse, match=f"session in use by process {writer.pid}: s") as caught:
            await store.open("s")
        assert caught.value.holder == writer.pid
        with pytest.raises(SessionInUse):
            await store.delete("s")
        assert await replayed(store, "s") == []
        async with await store.create(info("another")) as log:
            log.append(numbered(1))


@pytest.mark.fault("STO-10")
async def test_a_session_is_free_the_moment_its_holder_is_killed(tmp_path: Path, writers: Writers) -> None:
    writer = writers.start(tmp_path, "s", holds=True)
    writer.wait_for("ready")
    writer.kill()
    assert list((tmp_path / "locks").iterdir()) != []
    async with SqliteStore(tmp_path) as store, await store.open("s") as log:
        log.append(numbered(1))
        await log.commit()

    assert list((tmp_path / "locks").iterdir()) == []


@pytest.mark.fault("STO-10")
async def test_a_lock_file_alone_means_nothing(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s") as store:
        (tmp_path / "locks" / hashlib.sha256(b"s").hexdigest()).write_text("1\n")
        async with await store.open("s") as log:
            log.append(numbered(2))
        assert await replayed_numbers(store, "s") == [1, 2]


@pytest.mark.fault("STO-09")
def test_a_lock_has_one_holder_however_many_want_it(tmp_path: Path) -> None:
    """The file of a lock is removed and made again all the time; no process may get a lock on a removed one."""
    holders = 0
    taken: list[int] = []
    crowded: list[int] = []

    def want() -> None:
        nonlocal holders
        for _ in range(50):
            lock = SessionLock(tmp_path, "s")
            while not taken_by(lock):
                pass
            holders += 1
            crowded.extend([holders] if holders > 1 else [])
            assert lock.is_held()
            holders -= 1
            taken.append(1)
            lock.release()

    def taken_by(lock: SessionLock) -> bool:
        try:
            lock.acquire()
        except SessionInUse:
            return False
        return True

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert crowded == []
    assert len(taken) == 200
    assert not SessionLock(tmp_path, "s").is_held()
    assert os.listdir(tmp_path) == []


@pytest.mark.fault("STO-09")
def test_checking_whether_a_session_is_locked_does_not_block_opening_it(tmp_path: Path) -> None:
    done = threading.Event()

    def check_lock() -> None:
        while not done.is_set():
            SessionLock(tmp_path, "s").is_held()

    checkers = [threading.Thread(target=check_lock) for _ in range(2)]
    for checker in checkers:
        checker.start()
    for _ in range(200):
        with SessionLock(tmp_path, "s"):
            pass
    done.set()
    for checker in checkers:
        checker.join(60)


async def test_cancelling_an_open_leaves_the_session_unlocked(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s") as store:
        busy = asyncio.Event()
        loop = asyncio.get_running_loop()
        go_on = threading.Event()

        def block(database: object) -> None:
            loop.call_soon_threadsafe(busy.set)
            go_on.wait(60)

        blocked = store.start(block)
        await busy.wait()
        opening = asyncio.create_task(store.open("s"))
        await asyncio.wait([opening], timeout=0)
        opening.cancel()
        go_on.set()
        await blocked
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with asyncio.timeout(60), await store.open("s"):
            pass


# --- neighbours


@pytest.mark.fault("STO-11")
async def test_two_stores_read_while_another_process_writes(tmp_path: Path, writers: Writers) -> None:
    writer = writers.start(tmp_path, "s")
    writer.wait_for("ack")
    async with SqliteStore(tmp_path) as one, SqliteStore(tmp_path) as two:
        for _ in range(20):
            acknowledged = writer.acknowledged()
            for seen in await asyncio.gather(replayed_numbers(one, "s"), replayed_numbers(two, "s")):
                assert seen == list(range(1, len(seen) + 1))
                assert len(seen) >= acknowledged
    writer.kill()


async def test_processes_that_write_at_once_all_succeed(tmp_path: Path, writers: Writers) -> None:
    started = [writers.start(tmp_path, f"s{number}", commits=40) for number in range(3)]
    for writer in started:
        writer.wait_for("done")
    async with SqliteStore(tmp_path) as store:
        for number, writer in enumerate(started):
            assert await replayed_numbers(store, f"s{number}") == list(range(1, writer.acknowledged() + 1))


async def test_the_event_loop_goes_on_while_the_file_is_busy(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s") as store:
        log = await store.open("s")
        other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        log.append(numbered(2))
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            commit = group.create_task(log.commit())
            done, _ = await asyncio.wait([commit], timeout=0.2)
            assert not done
            other.execute("COMMIT")
            await commit
        other.close()

        assert await replayed_numbers(store, "s") == [1, 2]


async def test_a_second_writer_that_got_past_the_lock_cannot_interleave(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s") as one, SqliteStore(tmp_path) as two:
        log = await one.open("s")
        shutil.rmtree(tmp_path / "locks")
        (tmp_path / "locks").mkdir()
        theirs = await two.open("s")
        log.append(numbered(2))
        await log.commit()
        theirs.append(chunk("interleaved"))
        with pytest.raises(StoreError, match="UNIQUE"):
            await theirs.commit()
        assert await replayed_numbers(one, "s") == [1, 2]
        with pytest.raises(StoreError):
            await theirs.aclose()


async def test_a_session_deleted_behind_our_back_is_not_written_to(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s") as store:
        log = await store.open("s")
        (tmp_path / "locks" / hashlib.sha256(b"s").hexdigest()).unlink()
        async with SqliteStore(tmp_path) as other:
            await other.delete("s")
        log.append(numbered(2))
        with pytest.raises(Exception, match="no such session"):
            await log.commit()
        with pytest.raises(Exception, match="no such session"):
            await log.aclose()


async def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store:
        with pytest.raises(InvalidParams, match="not valid Unicode text"):
            await store.create(info("\ud800"))


# --- what is there already


@pytest.mark.fault("STO-15")
async def test_a_file_of_a_newer_version_is_refused_by_its_number_and_left_as_it_is(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s"):
        pass
    execute(tmp_path, f"PRAGMA user_version = {VERSION + 6}")
    before = (tmp_path / FILE_NAME).read_bytes()
    async with SqliteStore(tmp_path) as store:
        with pytest.raises(
            StoreError, match=f"has version {VERSION + 6}; this program supports versions up to {VERSION}"
        ):
            await store.list()

    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.fault("STO-15")
async def test_a_record_of_a_newer_version_is_passed_over_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer program may have written here before an older one was started again."""
    async with store_with(tmp_path, "s") as store:
        records = await store.acquire("s")
        await records.write(
            Batch([Record(2, "snapshot", None, b"\x00"), Record(3, "update", None, b'{"update":"dream"}')], {})
        )
        await records.release()
        async with await store.open("s") as log:
            log.append(numbered(4))
        replay = store.replay("s")
        assert [update async for update in replay] == [numbered(1), numbered(4)]
        assert [(damage.first, damage.last, damage.reason) for damage in replay.damage] == [(2, 3, "unknown")]
        assert "records 2 to 3 were skipped in a replay: unknown" in caplog.text
        assert (await records.position()).last == 4


@pytest.mark.fault("STO-15")
async def test_a_step_of_a_tool_call_that_a_newer_version_wrote_is_passed_over(tmp_path: Path) -> None:
    async with store_with(tmp_path, "s") as store:
        records = await store.acquire("s")
        first, last = tool("t", "pending", is_new=True), tool("t", "completed")
        bodies = [msgspec.json.encode(first), b'{"update":"tool_call","tool_call_id":7}', msgspec.json.encode(last)]
        await records.write(
            Batch([Record(2 + index, "update", "tool t", body) for index, body in enumerate(bodies)], {})
        )
        replay = store.replay("s")
        assert [update async for update in replay] == [numbered(1), tool("t", "completed", is_new=True)]
        assert replay.damage == [Damage(3, 3, "unknown")]


@pytest.mark.parametrize("statement", ["CREATE TABLE notes (x)", "PRAGMA application_id = 5"])
async def test_a_database_of_another_program_is_rejected(tmp_path: Path, statement: str) -> None:
    execute(tmp_path, statement)
    async with SqliteStore(tmp_path) as store:
        with pytest.raises(StoreError, match="not a store of sessions"):
            await store.list()


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at" * 50, b"short"])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    async with SqliteStore(tmp_path) as store:
        with pytest.raises(StoreError):
            await store.list()

    assert (tmp_path / FILE_NAME).read_bytes() == content


@pytest.mark.fault("STO-02")
async def test_a_new_store_is_still_there_after_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is an entry of the directory above, which has to be on the disk as well."""
    synced: list[int] = []
    really = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        really(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    above = os.stat(tmp_path).st_ino
    async with SqliteStore(tmp_path / "store") as store:
        await store.list()
    assert above in synced
