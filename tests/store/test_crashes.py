"""Acknowledged records survive a crash at any moment."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from duologue.errors import ResourceNotFound, StoreError
from duologue.store.sqlite.database import FILE_NAME
from duologue.store.sqlite.store import SqliteStore
from tests.store.crash_states import Files, crash_states, last_mark, replayed, write_files
from tests.store.faulty_files import FaultyFiles, Operation, faulty_files
from tests.store.messages import info, numbered, replayed_numbers
from tests.store.writers import Writers

KILLS = 100
KILLS_PER_SESSION = 50
WAL = f"{FILE_NAME}-wal"


@pytest.mark.fault("STO-01")
@pytest.mark.timeout(14_400)
async def test_a_writer_killed_at_any_moment_loses_nothing_it_acknowledged(
    tmp_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    kills = KILLS * chaos_factor
    record_property("count", kills)
    chance = random.Random()
    acknowledged = 0
    with Writers() as writers:
        for kill in range(kills):
            session_id = f"s{kill // KILLS_PER_SESSION}"
            if kill % KILLS_PER_SESSION == 0:
                acknowledged = 0
            writer = writers.start(tmp_path, session_id)
            for _ in range(chance.randrange(4)):
                writer.wait_for("ack")
            writer.listen(chance.random() * 0.01)
            writer.kill()
            assert not [line for line in writer.lines if line.startswith("failed")]
            acknowledged = max(acknowledged, writer.acknowledged())

            async with SqliteStore(tmp_path) as store:
                replayed = await _numbers_if_any(store, session_id)
                assert replayed == list(range(1, len(replayed) + 1))
                assert len(replayed) >= acknowledged
                if replayed:
                    async with await store.open(session_id) as log:
                        assert await log.load_state("number") == str(len(replayed)).encode()


async def _numbers_if_any(store: SqliteStore, session_id: str) -> list[int]:
    try:
        return await replayed_numbers(store, session_id)
    except ResourceNotFound:
        return []


async def recorded(path: Path, files: FaultyFiles) -> tuple[Files, list[Operation]]:
    """Return a store's files, and all operations on them in a session that was closed and opened again."""
    async with SqliteStore(path) as store:
        await store.list()
    before = {name: data for name, data in _read(path).items() if name == FILE_NAME}
    files.operations.clear()
    number = 0
    for _ in range(2):
        async with SqliteStore(path) as store:
            log = await store.create(info("s")) if number == 0 else await store.open("s")
            for _ in range(4):
                for _ in range(3):
                    number += 1
                    log.append(numbered(number))
                await log.commit()
                files.mark(b"%d" % number)
    return before, files.operations


def _read(directory: Path) -> Files:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.mark.fault("STO-02")
async def test_a_power_cut_at_any_moment_loses_nothing_that_was_acknowledged(
    quick_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    with faulty_files() as files:
        before, operations = await recorded(quick_path / "original", files)
    states = 0
    for seed in range(chaos_factor):
        for state in crash_states(before, operations, random.Random(seed)):
            states += 1
            directory = quick_path / "crashed"
            write_files(directory, state.files)
            async with SqliteStore(directory) as store:
                replayed = await _numbers_if_any(store, "s")
                assert replayed == list(range(1, len(replayed) + 1)), state.kind
                assert len(replayed) >= last_mark(operations[: state.done]), state.kind
            shutil.rmtree(directory)
    record_property("count", states)


@pytest.mark.fault("STO-02")
async def test_the_power_cuts_are_cruel_enough_to_lose_what_was_not_synced(quick_path: Path) -> None:
    """The test above can fail: with the syncs taken out of the record, acknowledged events are gone."""
    with faulty_files() as files:
        before, operations = await recorded(quick_path / "original", files)
    unsynced = [operation for operation in operations if operation.kind != "sync"]
    lost = 0
    for number, state in enumerate(crash_states(before, unsynced, random.Random(1))):
        if state.kind.startswith("power cut, nothing"):
            write_files(quick_path / str(number), state.files)
            async with SqliteStore(quick_path / str(number)) as store:
                lost += len(await _numbers_if_any(store, "s")) < last_mark(unsynced[: state.done])

    assert lost > 10


@pytest.mark.fault("STO-02")
async def test_a_store_whose_making_was_interrupted_is_made_again(quick_path: Path) -> None:
    with faulty_files() as files:
        async with SqliteStore(quick_path / "original") as store:
            await store.list()
    for state in crash_states({}, files.operations, random.Random(3)):
        if not state.kind.startswith("power cut"):
            directory = quick_path / "crashed"
            write_files(directory, state.files)
            async with SqliteStore(directory) as store:
                async with await store.create(info("s")) as log:
                    log.append(numbered(1))
                assert await replayed_numbers(store, "s") == [1]
            shutil.rmtree(directory)


@pytest.mark.fault("STO-03")
async def test_a_journal_cut_at_any_byte_loses_only_the_transactions_that_were_cut(
    quick_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    with faulty_files() as files:
        before, operations = await recorded(quick_path / "original", files)
    marks = [index for index, operation in enumerate(operations) if operation.kind == "mark"]
    whole = replayed(before, operations[: marks[3]])
    committed = len(replayed(before, operations[: marks[2]])[WAL])
    # Every byte in the long run; here one in so many, and those around the borders of pages and frames.
    step = max(1, 41 // chaos_factor)
    cuts = {*range(committed, len(whole[WAL]), step)}
    cuts |= {
        border + shift for border in range(committed, len(whole[WAL]), 4096 + 24) for shift in (-1, 0, 1, 23, 24, 25)
    }
    cuts = {cut for cut in cuts if committed <= cut < len(whole[WAL])}
    record_property("count", len(cuts))
    for cut in sorted(cuts):
        directory = quick_path / "cut"
        write_files(directory, {**whole, WAL: whole[WAL][:cut]})
        async with SqliteStore(directory) as store:
            assert await replayed_numbers(store, "s") == list(range(1, 10))
            async with await store.open("s") as log:
                log.append(numbered(10))
            assert await replayed_numbers(store, "s") == list(range(1, 11))
        shutil.rmtree(directory)


@pytest.mark.fault("STO-17")
async def test_a_delete_that_is_interrupted_leaves_the_session_whole_or_gone(quick_path: Path) -> None:
    path = quick_path / "original"
    with faulty_files() as files:
        async with SqliteStore(path) as store:
            async with await store.create(info("s")) as log:
                for number in range(1, 400):
                    log.append(numbered(number))
                log.save_state("history", b"x" * 10_000)
            async with await store.create(info("other")) as log:
                log.append(numbered(1))
        before = {name: data for name, data in _read(path).items() if name == FILE_NAME}
        files.operations.clear()
        async with SqliteStore(path) as store:
            await store.delete("s")
            files.mark(b"1")
    outcomes: set[int] = set()
    for state in crash_states(before, files.operations, random.Random(2)):
        directory = quick_path / "crashed"
        write_files(directory, state.files)
        async with SqliteStore(directory) as store:
            replayed = await _numbers_if_any(store, "s")
            assert replayed in ([], list(range(1, 400))), state.kind
            assert (replayed == []) == ([session.session_id for session in (await store.list()).sessions] == ["other"])
            assert await replayed_numbers(store, "other") == [1]
            if last_mark(files.operations[: state.done]):
                assert replayed == []
            outcomes.add(len(replayed))
        shutil.rmtree(directory)

    assert outcomes == {0, 399}


async def _journal(path: Path) -> dict[str, bytes]:
    """Return the files of a store whose process was killed, with ten acknowledged transactions in the journal."""
    store = SqliteStore(path)
    log = await store.create(info("s"))
    for number in range(1, 11):
        log.append(numbered(number))
        await log.commit()
    files = {name: data for name, data in _read(path).items() if name in (FILE_NAME, WAL)}
    await log.aclose()
    await store.aclose()
    return files


@pytest.mark.fault("STO-20")
async def test_a_flipped_bit_in_the_journal_is_reported(
    quick_path: Path,
    chaos_factor: int,
    record_property: Callable[[str, object], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SQLite itself passes over all that stands behind the bit, and says nothing."""
    whole = await _journal(quick_path / "original")
    journal, chance = whole[WAL], random.Random(20)
    borders = [32 + frame * 4120 + shift for frame in range(len(journal) // 4120) for shift in (0, 5, 9, 13, 17, 30)]
    positions = {*range(32), *borders, *(chance.randrange(len(journal)) for _ in range(60 * chaos_factor))}
    record_property("count", len(positions))
    lost = unseen = 0
    for position in sorted(positions):
        flipped = bytearray(journal)
        flipped[position] ^= 1 << chance.randrange(8)
        write_files(quick_path / "flipped", {**whole, WAL: bytes(flipped)})
        caplog.clear()
        async with SqliteStore(quick_path / "flipped") as store:
            replay = store.replay("s")
            try:
                replayed = [update async for update in replay]
            except (ResourceNotFound, StoreError):  # the session, or the tables, were in the journal
                replayed = []
        is_reported = bool(replay.damage) or "journal" in caplog.text
        if replayed != [numbered(number) for number in range(1, 11)]:
            lost += 1
            unseen += not is_reported
            assert (
                is_reported or position >= len(journal) - 4120
            )  # the end of a journal may look like an interrupted write
        shutil.rmtree(quick_path / "flipped")
    assert lost > 100
    assert unseen <= 4


@pytest.mark.fault("STO-20")
async def test_a_journal_that_is_whole_or_cut_between_frames_is_no_damage(
    quick_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await _journal(quick_path / "original")
    for frames in range(len(whole[WAL]) // 4120 + 1):
        write_files(quick_path / "cut", {**whole, WAL: whole[WAL][: 32 + frames * 4120]})
        async with SqliteStore(quick_path / "cut") as store:
            await store.list()
        shutil.rmtree(quick_path / "cut")
    assert "journal" not in caplog.text
