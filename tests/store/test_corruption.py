"""A damaged record costs only that record: it is skipped and reported, never replayed as if it were intact."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from duologue.conversation.content import TextContent
from duologue.conversation.updates import InfoUpdate, MessageChunk, ToolCallUpdate, Update
from duologue.errors import StoreError
from duologue.store.replay import Damage
from duologue.store.replay_merge import UpdateMerger
from duologue.store.sqlite.database import FILE_NAME, Database
from duologue.store.sqlite.store import SqliteStore
from tests.store.messages import chunk, execute, info, numbered, replayed, tool

FLIPS = 300

CHECK_SECONDS = 120.0
"""Time for one damaged file, which takes milliseconds; without it, a reader that counts to a damaged number hangs."""

PATCHES: list[Update] = [
    ToolCallUpdate(tool_call_id="t", title="Read", status="pending", is_new=True),
    ToolCallUpdate(tool_call_id="t", status="in_progress", raw_input={"path": "/a"}),
    ToolCallUpdate(tool_call_id="t", status="completed"),
]


async def make_store(path: Path) -> None:
    """Two sessions with enough in them to fill many pages of every kind."""
    async with SqliteStore(path) as store:
        for session_id in ("s", "other"):
            async with await store.create(info(session_id, title="A title")) as log:
                log.begin_turn([TextContent("Hi")])
                for number in range(90):
                    log.append(numbered(number))
                    if number in (20, 50, 80):
                        log.append(PATCHES[(number - 20) // 30])
                    log.append(tool(f"tool {number}", "completed", is_new=True))
                log.append(chunk("large " * 2000, "large"))
                log.save_state("history", b"remember " * 300)
                log.append(InfoUpdate(title="A title"))
                await log.end_turn("end_turn")


def folded(patches: Sequence[Update]) -> Update | None:
    fold = UpdateMerger()
    for patch in patches:
        fold.add(patch)
    return fold.result()


def possible_tool_calls() -> list[Update | None]:
    """Return the possible forms of the tool call when some of its records are lost."""
    return [folded(patches) for count in range(4) for patches in combinations(PATCHES, count)]


@pytest.mark.fault("STO-05")
@pytest.mark.timeout(14_400)
async def test_a_flipped_bit_is_found_wherever_it_is(
    quick_path: Path, chaos_factor: int, record_property: Callable[[str, object], None]
) -> None:
    original = quick_path / "original"
    await make_store(original)
    async with SqliteStore(original) as store:
        whole = await replayed(store, "s")
    content = (original / FILE_NAME).read_bytes()
    flips = FLIPS * chaos_factor
    record_property("count", flips)
    chance = random.Random()
    outcomes = {"refused": 0, "reported": 0, "harmless": 0}
    for _ in range(flips):
        position, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
        damaged = bytearray(content)
        damaged[position] ^= bit
        directory = quick_path / "damaged"
        directory.mkdir()
        (directory / FILE_NAME).write_bytes(damaged)
        async with asyncio.timeout(CHECK_SECONDS):
            outcomes[await _check(directory, whole)] += 1
        shutil.rmtree(directory)

    assert outcomes["reported"] > 0
    assert outcomes["harmless"] > 0


@pytest.mark.fault("STO-05")
async def test_a_damaged_key_does_not_raise_the_numbers_of_the_events_that_follow(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store, await store.create(info("s")) as log:
        for number in range(10):
            log.append(numbered(number))
        await log.commit()
    execute(tmp_path, "UPDATE events SET key = key + (1 << 29) WHERE key = (SELECT max(key) FROM events)")

    async with SqliteStore(tmp_path) as store:
        async with await store.open("s") as log:
            log.append(numbered(1000))
            await log.commit()
        position = await store.start(Database.position, "s")
        replay = store.replay("s")
        seen = [update async for update in replay]

    assert position.last == 11
    assert seen == [*(numbered(number) for number in range(9)), numbered(1000)]
    assert [(found.first, found.last) for found in replay.damage] == [(10, 10)]


async def _check(directory: Path, whole: list[Update]) -> str:
    """Read all there is, write a little, and say how the damage showed."""
    async with SqliteStore(directory) as store:
        try:
            replay = store.replay("s")
            seen = [update async for update in replay]
            _compare(seen, whole, replay.damage)
            page = await store.list()
            for entry in page.sessions:
                assert entry.session_id in page.damaged or (entry.title, entry.cwd) == ("A title", "/work")
            async with await store.open("s") as log:
                state = await log.load_state("history")
                assert state in (None, b"remember " * 300)
                log.append(numbered(1000))
                await log.commit()
            replay_after = store.replay("s")
            seen_after = [update async for update in replay_after]
            # Writing next to damage may spread it: then that is reported, too.
            assert seen_after[-1] == numbered(1000)
            _compare(seen_after[:-1], whole, replay_after.damage)
        except StoreError:
            return "refused"
    return "reported" if replay.damage or page.damaged or state is None else "harmless"


def _compare(seen: list[Update], whole: list[Update], damage: list[Damage]) -> None:
    """Check that the replay contains only original updates, in order, and that missing ones are reported."""
    patches, rest = _split(seen)
    if damage:
        left = iter(whole)
        assert all(update in left for update in rest)
        assert folded(patches) in possible_tool_calls()
    else:
        # If only the index is damaged, a tool call is replayed in its original parts.
        assert rest == _split(whole)[1]
        assert folded(patches) == folded(PATCHES)


def _split(updates: list[Update]) -> tuple[list[Update], list[Update]]:
    patches: list[Update] = []
    rest: list[Update] = []
    for update in updates:
        is_ours = isinstance(update, ToolCallUpdate) and update.tool_call_id == "t"
        (patches if is_ours else rest).append(update)
    return patches, rest


@pytest.mark.fault("STO-05")
@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ("UPDATE events SET body = replace(body, 'event 3', 'event 4') WHERE rowid % 4294967296 = 3", [(3, 3)]),
        ("DELETE FROM events WHERE rowid % 4294967296 IN (2, 3)", [(2, 3)]),
        ("DELETE FROM events WHERE rowid % 4294967296 >= 4", [(4, 5)]),
        ("DELETE FROM events", [(1, 5)]),
        ("UPDATE events SET key = key + 100 WHERE rowid % 4294967296 = 5", [(5, 105)]),
    ],
)
async def test_lost_records_are_reported(
    tmp_path: Path, change: str, lost: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteStore(tmp_path) as store, await store.create(info("s")) as log:
        for number in range(1, 6):
            log.append(numbered(number))
    execute(tmp_path, change)
    async with SqliteStore(tmp_path) as store:
        replay = store.replay("s")
        seen = [update async for update in replay]

    gone = {number for first, last in lost for number in range(first, last + 1)}
    assert seen == [numbered(number) for number in range(1, 6) if number not in gone]
    assert [(damage.first, damage.last) for damage in replay.damage] == lost
    assert {damage.reason for damage in replay.damage} == {"damaged"}
    assert caplog.text.count("skipped in a replay") == len(lost)


@pytest.mark.fault("STO-05")
async def test_an_event_stored_under_another_session_is_not_replayed_there(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store:
        for session_id in ("a", "b"):
            async with await store.create(info(session_id)) as log:
                log.append(chunk(f"of {session_id}"))
    execute(tmp_path, "DELETE FROM events WHERE rowid >> 32 = 2")
    execute(tmp_path, "UPDATE events SET key = key + 4294967296")
    async with SqliteStore(tmp_path) as store:
        replay = store.replay("b")
        assert [update async for update in replay] == []
        assert replay.damage == [Damage(1, 1, "damaged")]


@pytest.mark.fault("STO-05")
async def test_a_tool_call_that_lost_a_record_is_replayed_from_the_others(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store, await store.create(info("s")) as log:
        for patch in PATCHES:
            log.append(patch)
    execute(tmp_path, "UPDATE events SET checksum = checksum + 1 WHERE rowid % 4294967296 = 1")
    async with SqliteStore(tmp_path) as store:
        replay = store.replay("s")
        assert [update async for update in replay] == [
            ToolCallUpdate(tool_call_id="t", status="completed", raw_input={"path": "/a"})
        ]
        assert replay.damage == [Damage(1, 1, "damaged")]


@pytest.mark.fault("STO-05")
async def test_a_last_word_that_is_lost_gives_way_to_the_one_before(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store, await store.create(info("s")) as log:
        log.append(InfoUpdate(title="First"))
        log.append(InfoUpdate(title="Second"))
    execute(tmp_path, "UPDATE events SET checksum = checksum + 1 WHERE rowid % 4294967296 = 2")
    async with SqliteStore(tmp_path) as store:
        assert [update async for update in store.replay("s")] == [InfoUpdate(title="First")]


@pytest.mark.fault("STO-05")
async def test_an_index_that_forgot_a_record_is_reported(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store, await store.create(info("s")) as log:
        for patch in PATCHES:
            log.append(patch)
    rule = "entity IS NOT NULL"
    rewrite = "UPDATE sqlite_master SET sql = replace(sql, '{}', '{}') WHERE name = 'events_by_entity'"
    execute(tmp_path, "PRAGMA writable_schema = ON", rewrite.format(rule, f"{rule} AND key % 2 = 1"))
    execute(tmp_path, "REINDEX")
    execute(tmp_path, "PRAGMA writable_schema = ON", rewrite.format(f"{rule} AND key % 2 = 1", rule))
    async with SqliteStore(tmp_path) as store:
        replay = store.replay("s")
        assert [update async for update in replay] != PATCHES
        assert replay.damage == [Damage(1, 3, "index")]


async def test_a_damaged_fork_is_as_damaged_and_not_more(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store, await store.create(info("s")) as log:
        for number in range(1, 4):
            log.append(numbered(number))
        log.save_state("history", b"x")
    execute(tmp_path, "UPDATE events SET checksum = checksum + 1 WHERE rowid % 4294967296 = 2")
    execute(tmp_path, "UPDATE state SET value = x'79'")
    async with SqliteStore(tmp_path) as store:
        await store.fork("s", info("copy"))
        replay = store.replay("copy")
        assert [update async for update in replay] == [numbered(1), numbered(3)]
        assert replay.damage == [Damage(2, 2, "damaged")]
        async with await store.open("copy") as log:
            assert await log.load_state("history") is None


async def test_damaged_state_is_as_if_it_had_never_been_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with SqliteStore(tmp_path) as store, await store.create(info("s")) as log:
        log.save_state("history", b"right")
    execute(tmp_path, "UPDATE state SET value = x'00'")
    async with SqliteStore(tmp_path) as store, await store.open("s") as log:
        assert await log.load_state("history") is None
        assert "the state saved as 'history' is damaged" in caplog.text
        log.save_state("history", b"new")
        await log.commit()
        assert await log.load_state("history") == b"new"


@pytest.mark.fault("STO-18")
async def test_a_damaged_entry_is_listed_as_such_and_its_session_can_still_be_opened(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store:
        for session_id in ("a", "b", "c"):
            async with await store.create(info(session_id, title=session_id)) as log:
                log.append(numbered(1))
    execute(tmp_path, "UPDATE sessions SET info = replace(info, '\"b\"', '\"X\"') WHERE id = 'b'")
    async with SqliteStore(tmp_path) as store:
        page = await store.list()
        assert [session.session_id for session in page.sessions] == ["c", "b", "a"]
        assert page.damaged == {"b"}
        with pytest.raises(StoreError, match="damaged"):
            await store.info("b")
        with pytest.raises(StoreError, match="damaged"):
            await store.update_info("b", title="mended?")
        async with await store.open("b") as log:
            log.append(numbered(2))
        assert await replayed(store, "b") == [numbered(1), numbered(2)]
        assert (await store.list()).damaged == {"b"}
        await store.delete("b")
        assert (await store.list()).damaged == frozenset()


async def test_a_replay_with_damage_still_tells_messages_in_whole(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path) as store, await store.create(info("s")) as log:
        for text in "abc":
            log.append(chunk(text, "m"))
    execute(tmp_path, "DELETE FROM events WHERE rowid % 4294967296 = 2")
    async with SqliteStore(tmp_path) as store:
        (update,) = [update async for update in store.replay("s")]
        assert isinstance(update, MessageChunk)
        assert update == chunk("ac", "m")
