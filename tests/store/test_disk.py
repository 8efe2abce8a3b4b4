"""A disk that is full, failing, read-only or gone: reported at once, nothing damaged, and saving resumes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from duologue.errors import StoreError, StoreFull
from duologue.store.sqlite.database import FILE_NAME
from duologue.store.sqlite.store import SqliteStore
from tests.store.faulty_files import Operation, faulty_files
from tests.store.messages import info, numbered, replayed_numbers

ROOT = Path(__file__).parents[2]


class FailingFrom:
    """A fault that meets the n-th operation of a kind and all after it, until there is room again."""

    def __init__(self, kind: str, nth: int, code: int) -> None:
        self.kind, self.nth, self.code = kind, nth, code
        self.seen = 0
        self.is_over = False

    def __call__(self, operation: Operation) -> int:
        if operation.kind != self.kind or self.is_over:
            return 0
        self.seen += 1
        return self.code if self.seen >= self.nth else 0

    @property
    def struck(self) -> bool:
        return self.seen >= self.nth


@pytest.mark.fault("STO-06")
async def test_a_disk_full_at_any_write_of_a_turn_is_reported_and_saving_resumes(quick_path: Path) -> None:
    writes = 0
    while True:
        writes += 1
        with faulty_files() as files:
            async with SqliteStore(quick_path / str(writes)) as store:
                log = await store.create(info("s"))
                log.append(numbered(1))
                await log.commit()
                files.fault = fault = FailingFrom("write", writes, sqlite3.SQLITE_FULL)
                is_reported = False
                for number in range(2, 6):
                    log.append(numbered(number))
                    try:
                        await log.commit()
                    except StoreFull:
                        is_reported = True
                        assert isinstance(log.write_error, StoreFull)
                assert is_reported == fault.struck
                if is_reported:
                    expected = len(await replayed_numbers(store, "s"))
                    assert await replayed_numbers(store, "s") == list(range(1, expected + 1))
                fault.is_over = True
                await log.commit()
                assert log.write_error is None
                assert await replayed_numbers(store, "s") == [1, 2, 3, 4, 5]
            async with SqliteStore(quick_path / str(writes)) as store:
                assert await replayed_numbers(store, "s") == [1, 2, 3, 4, 5]
        if not is_reported:
            break

    assert writes > 20


@pytest.mark.fault("STO-06")
async def test_a_full_disk_does_not_keep_a_session_from_being_read(quick_path: Path) -> None:
    with faulty_files() as files:
        async with SqliteStore(quick_path) as store:
            log = await store.create(info("s"))
            log.append(numbered(1))
            await log.commit()
            files.fault = fault = FailingFrom("write", 1, sqlite3.SQLITE_FULL)
            log.append(numbered(2))
            assert await replayed_numbers(store, "s") == [1]
            assert (await store.list()).sessions[0].session_id == "s"
            with pytest.raises(StoreFull):
                await store.fork("s", info("copy"))
            fault.is_over = True


@pytest.mark.fault("STO-06")
async def test_closing_says_what_could_not_be_saved_and_closes_all_the_same(quick_path: Path) -> None:
    with faulty_files() as files:
        store = SqliteStore(quick_path)
        logs = [await store.create(info(name)) for name in ("a", "b")]
        files.fault = FailingFrom("write", 1, sqlite3.SQLITE_FULL)
        logs[0].append(numbered(1))
        with pytest.raises(StoreFull):
            await store.aclose()
        async with SqliteStore(quick_path) as again:
            assert await replayed_numbers(again, "a") == []
            assert os.listdir(quick_path / "locks") == []


@pytest.mark.fault("STO-06")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of 2 MiB of our own, in a namespace of our own."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    mount = 'mount -t tmpfs -o size=2m none "$0" 2>/dev/null || exit 77; exec "$@"'
    program = [sys.executable, "-m", "tests.store.full_disk", str(tmp_path)]
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare, to have a small disk")
    command = [*unshare, "sh", "-c", mount, str(tmp_path), *program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("needs the right to mount a small disk")

    assert done.stdout.splitlines() == ["reported", "opened", "resumed", "whole"], done.stderr


@pytest.mark.fault("STO-08")
async def test_a_failing_sync_acknowledges_nothing_and_the_store_must_be_opened_anew(quick_path: Path) -> None:
    with faulty_files() as files:
        async with SqliteStore(quick_path) as store:
            log = await store.create(info("s"))
            log.append(numbered(1))
            await log.commit()
            files.fault = fault = FailingFrom("sync", 1, sqlite3.SQLITE_IOERR_FSYNC)
            log.append(numbered(2))
            with pytest.raises(StoreError, match="disk I/O error"):
                await log.commit()
            fault.is_over = True
            with pytest.raises(StoreError, match="open the store again"):
                await log.commit()
            with pytest.raises(StoreError, match="open the store again"):
                await store.create(info("another"))
            assert (await replayed_numbers(store, "s"))[:1] == [1]
            with pytest.raises(StoreError):
                await log.aclose()
        async with SqliteStore(quick_path) as store, await store.open("s") as log:
            replayed_now = await replayed_numbers(store, "s")
            assert replayed_now in ([1], [1, 2])
            log.append(numbered(replayed_now[-1] + 1))
            await log.commit()
            assert await replayed_numbers(store, "s") == [*replayed_now, replayed_now[-1] + 1]


# --- read-only, or gone


@pytest.mark.fault("STO-07")
@pytest.mark.parametrize("what", ["directory", "database", "journal"])
async def test_files_removed_while_they_are_open_are_missed_at_the_next_commit(tmp_path: Path, what: str) -> None:
    path = tmp_path / "store"
    async with SqliteStore(path) as store:
        log = await store.create(info("s"))
        log.append(numbered(1))
        await log.commit()
        match what:
            case "directory":
                shutil.rmtree(path)
            case "database":
                os.rename(path / FILE_NAME, path / "elsewhere")
            case _:
                os.unlink(path / f"{FILE_NAME}-wal")
        log.append(numbered(2))
        with pytest.raises(StoreError, match="removed or replaced"):
            await log.commit()
        with pytest.raises(StoreError, match="removed or replaced"):
            await log.aclose()


@pytest.mark.fault("STO-07")
async def test_a_path_that_cannot_be_a_directory_is_an_error_and_not_a_loss(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "store"):
        async with SqliteStore(path) as store:
            with pytest.raises(StoreError, match="file"):
                await store.create(info("s"))


READ_ONLY = """
import asyncio, sys
from pathlib import Path
from duologue.errors import StoreError
from duologue.conversation.session_setup import SessionInfo
from duologue.store.sqlite.store import SqliteStore

async def main() -> None:
    async with SqliteStore(Path(sys.argv[1])) as store:
        try:
            await store.create(SessionInfo(session_id="new", cwd="/"))
        except StoreError as error:
            print("refused:", error)

asyncio.run(main())
"""


@pytest.mark.fault("STO-07")
@pytest.mark.parametrize("is_new", [True, False])
async def test_a_read_only_directory_is_an_error_and_not_a_loss(tmp_path: Path, is_new: bool) -> None:
    path = tmp_path / "read-only"
    os.mkdir(path)
    if not is_new:
        async with SqliteStore(path) as store, await store.create(info("s")) as log:
            log.append(numbered(1))
    os.chmod(path, 0o500)
    output = _without_privileges(sys.executable, "-c", READ_ONLY, str(path / "new" if is_new else path))
    os.chmod(path, 0o700)

    assert output.startswith(f"refused: {path}")
    if not is_new:
        async with SqliteStore(path) as store:
            assert await replayed_numbers(store, "s") == [1]


def _without_privileges(*command: str) -> str:
    """Run a command that cannot override file permissions; return its output."""
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to drop the rights of root")
        command = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--", *command)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
