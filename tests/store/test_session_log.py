"""How a log groups, writes, fails and recovers, on records that do what the test says."""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import pytest

from duologue.conversation.content import TextContent
from duologue.conversation.updates import decode_update
from duologue.errors import StoreError, StoreFull
from duologue.store import session_log as log_module
from duologue.store.base import Store
from duologue.store.records import Batch, LogPosition, Record, RecordPage, SessionRecords
from duologue.store.replay_merge import MERGED_CHARACTERS
from duologue.store.session_log import GROUP_BYTES, SessionLog
from tests.store.messages import chunk, info, numbered, replayed_numbers, tool


class FakeRecords(SessionRecords):
    """Completes writes when the test says so, and keeps what was written."""

    __test__ = False

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.flights: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()
        self.is_released = False

    def write(self, batch: Batch) -> asyncio.Future[None]:
        flight: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flight.add_done_callback(lambda done: None if done.exception() else self.batches.append(batch))
        self.flights.put_nowait(flight)
        return flight

    async def position(self) -> LogPosition:
        return LogPosition(0, 0)

    async def read(self, after: int, upto: int) -> RecordPage:
        return RecordPage([], upto)

    async def read_entity(self, entity: str, after: int, upto: int) -> list[Record]:
        return []

    async def read_state(self, name: str) -> bytes | None:
        for batch in reversed(self.batches):
            if name in batch.state:
                return batch.state[name]
        return None

    async def release(self) -> None:
        self.is_released = True

    async def succeed(self) -> None:
        (await self.flights.get()).set_result(None)

    async def fail(self, error: StoreError) -> None:
        (await self.flights.get()).set_exception(error)

    def numbers(self) -> list[int]:
        return [record.number for batch in self.batches for record in batch.records]


def open_log(records: SessionRecords) -> SessionLog:
    return SessionLog("s", records, LogPosition(0, 0), on_close=lambda: None)


async def test_updates_within_a_moment_are_written_together() -> None:
    records = FakeRecords()
    log = open_log(records)
    started = asyncio.get_running_loop().time()
    for number in range(10):
        log.append(numbered(number))
    log.save_state("history", b"x")
    assert records.flights.empty()
    async with asyncio.timeout(60):
        await records.succeed()
        await log.commit()

    assert asyncio.get_running_loop().time() - started >= log_module.GROUP_SECONDS * 0.9
    assert records.numbers() == list(range(1, 11))
    assert records.batches[0].state == {"history": b"x"}


async def test_much_is_written_at_once_and_one_write_runs_at_a_time() -> None:
    records = FakeRecords()
    log = open_log(records)
    for _ in range(3):
        log.append(chunk("x" * GROUP_BYTES))
    assert records.flights.qsize() == 1
    async with asyncio.timeout(60):
        await records.succeed()
        await records.succeed()
        await log.commit()

    assert [len(batch.records) for batch in records.batches] == [1, 2]


async def test_a_commit_waits_for_what_came_before_it_and_not_for_more() -> None:
    records = FakeRecords()
    log = open_log(records)
    log.append(numbered(1))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        first = group.create_task(log.commit())
        flight = await records.flights.get()
        log.append(numbered(2))
        assert not first.done()
        flight.set_result(None)
        await first
        assert records.numbers() == [1]
        second = group.create_task(log.commit())
        await records.succeed()
        await second

    assert records.numbers() == [1, 2]


async def test_a_commit_with_nothing_to_write_is_done_at_once() -> None:
    records = FakeRecords()
    await open_log(records).commit()

    assert records.flights.empty()


@pytest.mark.fault("STO-06")
async def test_a_failed_write_is_reported_and_retried_in_order(caplog: pytest.LogCaptureFixture) -> None:
    records = FakeRecords()
    log = open_log(records)
    log.append(numbered(1))
    log.save_state("history", b"old")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        commit = group.create_task(_failure_of(log))
        flight = await records.flights.get()
        log.append(numbered(2))
        log.save_state("history", b"new")
        flight.set_exception(StoreFull("no space left"))
        assert isinstance(await commit, StoreFull)
        assert str(log.write_error) == "no space left"
        retry = group.create_task(log.commit())
        await records.succeed()
        await retry

    assert log.write_error is None
    assert records.numbers() == [1, 2]
    assert await log.load_state("history") == b"new"
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "session 's' cannot be saved: no space left",
        "session 's' can be saved again",
    ]


async def _failure_of(log: SessionLog) -> BaseException | None:
    try:
        await log.commit()
    except StoreError as error:
        return error
    return None


async def test_saving_resumes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "RETRY_SECONDS", 0.01)
    records = FakeRecords()
    log = open_log(records)
    log.append(numbered(1))
    async with asyncio.timeout(60):
        for _ in range(3):
            await records.fail(StoreFull("no space left"))
        log.append(numbered(2))
        await records.succeed()
        await log.commit()

    assert records.numbers() == [1, 2]


async def test_unsaved_bytes_are_limited_and_the_caller_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_UNSAVED_BYTES", 10_000)
    records = FakeRecords()
    log = open_log(records)
    with pytest.raises(StoreFull, match="the disk is too slow"):
        for _ in range(100):
            log.append(chunk("x" * 1000))
    taken = len(records.numbers())
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        commit = group.create_task(log.commit())
        await records.succeed()
        await commit
    assert len(records.numbers()) > taken
    log.append(chunk("room again"))


async def test_state_is_found_while_it_is_being_written() -> None:
    records = FakeRecords()
    log = open_log(records)
    log.save_state("history", b"x")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        commit = group.create_task(_failure_of(log))
        flight = await records.flights.get()
        found = group.create_task(log.load_state("history"))
        await asyncio.wait([found], timeout=0)
        assert not found.done()
        flight.set_exception(StoreFull("no space left"))
        assert await found == b"x"
        assert await commit is not None


async def test_a_session_is_unlocked_even_if_its_last_records_could_not_be_written() -> None:
    records = FakeRecords()
    log = open_log(records)
    log.append(numbered(1))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        closing = group.create_task(_closed(log))
        await records.fail(StoreFull("no space left"))
        assert isinstance(await closing, StoreFull)

    assert records.is_released


async def _closed(log: SessionLog) -> BaseException | None:
    try:
        await log.aclose()
    except StoreError as error:
        return error
    return None


async def test_cancelling_a_commit_does_not_cancel_the_write() -> None:
    records = FakeRecords()
    log = open_log(records)
    log.append(numbered(1))
    async with asyncio.timeout(60):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await log.commit()
        await records.succeed()
        await log.commit()

    assert records.numbers() == [1]


async def test_appending_costs_the_event_loop_next_to_nothing(store: Store) -> None:
    """Ours: less than 5 µs of its thread for each chunk, the store's own thread not counted."""
    if sys.gettrace() is not None:
        pytest.skip("measures the tracer when there is one")
    log = await store.create(info("s"))
    log.begin_turn([TextContent("Count")])
    updates = [numbered(number) for number in range(20_000)]
    started = time.thread_time()
    for update in updates:
        log.append(update)
    spent = time.thread_time() - started
    await log.end_turn("end_turn")

    assert spent / len(updates) < 5e-6
    async with asyncio.timeout(60):
        await log.aclose()


async def test_text_that_is_written_together_is_one_record_for_each_message() -> None:
    records = FakeRecords()
    log = open_log(records)
    for text in ("one ", "two\r\n", "\ud800"):
        log.append_text("agent", "a", text)
    log.append_text("thought", "a", "three")
    log.append_text("thought", "b", "four")
    log.append(tool("t", "pending"))
    log.append_text("thought", "b", "five")
    async with asyncio.timeout(60):
        committing = asyncio.ensure_future(log.commit())
        await records.succeed()
        await committing
        log.append_text("thought", "b", "six")
        committing = asyncio.ensure_future(log.commit())
        await records.succeed()
        await committing

    texts = [decode_update(record.body) for batch in records.batches for record in batch.records]
    assert texts == [
        chunk("one two\r\n\ufffd", "a"),
        chunk("three", "a", "thought"),
        chunk("four", "b", "thought"),
        tool("t", "pending"),
        chunk("five", "b", "thought"),
        chunk("six", "b", "thought"),
    ]
    assert records.numbers() == [1, 2, 3, 4, 5, 6]


async def test_a_record_of_text_is_as_long_as_a_merged_chunk_of_a_replay() -> None:
    records = FakeRecords()
    log = open_log(records)
    async with asyncio.timeout(60):
        log.append_text("agent", "a", "begins a write" * GROUP_BYTES)
        for _ in range(10):
            log.append_text("agent", "a", "x" * (MERGED_CHARACTERS // 4))
        await records.succeed()
        await records.succeed()
        await log.commit()

    lengths = [len(record.body) // MERGED_CHARACTERS for record in records.batches[1].records]
    assert lengths == [1, 1, 0]


async def test_text_that_could_not_be_written_is_written_later_in_its_order() -> None:
    records = FakeRecords()
    log = open_log(records)
    log.append_text("agent", "a", "one ")
    committing = asyncio.ensure_future(log.commit())
    async with asyncio.timeout(60):
        await records.fail(StoreFull("no space"))
        with pytest.raises(StoreFull):
            await committing
        log.append_text("agent", "a", "two")
        committing = asyncio.ensure_future(log.commit())
        await records.succeed()
        await committing

    texts = [decode_update(record.body) for batch in records.batches for record in batch.records]
    assert texts == [chunk("one ", "a"), chunk("two", "a")]


async def test_too_much_unwritten_text_is_rejected_and_leaves_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_UNSAVED_BYTES", 1000)
    records = FakeRecords()
    log = open_log(records)
    log.append_text("agent", "a", "é" * 200)
    for message_id in ("a", "b"):
        with pytest.raises(StoreFull):
            log.append_text("agent", message_id, "x")
    committing = asyncio.ensure_future(log.commit())
    async with asyncio.timeout(60):
        await records.succeed()
        await committing

    assert [decode_update(record.body) for record in records.batches[0].records] == [chunk("é" * 200, "a")]


async def next_turn_of_the_loop() -> None:
    await asyncio.sleep(0)


async def test_a_log_is_written_without_a_commit(store: Store) -> None:
    log = await store.create(info("s"))
    for number in range(5):
        log.append(numbered(number))
    records, is_held = await store.read_only("s")
    assert is_held
    async with asyncio.timeout(60):
        while (await records.position()).last < 5:
            await next_turn_of_the_loop()

    assert await replayed_numbers(store, "s") == [0, 1, 2, 3, 4]
