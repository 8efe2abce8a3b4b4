"""The guarantees of every store, tested on each of them."""

from __future__ import annotations

import asyncio

import pytest

from duologue.conversation.content import ImageContent, TextContent
from duologue.conversation.updates import (
    InfoUpdate,
    ModeUpdate,
    NoticeUpdate,
    PlanEntry,
    PlanUpdate,
    Update,
)
from duologue.errors import EncodeError, InvalidParams, ResourceNotFound, SessionInUse, StoreError
from duologue.store.base import Store
from duologue.store.pagination import Archived
from tests.store.messages import chunk, info, replayed, tool


async def test_updates_are_replayed_in_order(store: Store) -> None:
    updates: list[Update] = [
        chunk("Hello", "m1"),
        PlanUpdate(entries=[PlanEntry("Read"), PlanEntry("Write")]),
        ModeUpdate(mode_id="ask"),
        chunk("thinking", "m2", role="thought"),
        tool("t1", "completed", is_new=True),
        chunk("Bye", "m3"),
    ]
    async with await store.create(info("s")) as log:
        for update in updates:
            log.append(update)

    assert await replayed(store, "s") == updates


async def test_a_prompt_is_replayed_as_the_user_s_message_block_by_block(store: Store) -> None:
    image = ImageContent("aGk=", "image/png")
    async with await store.create(info("s")) as log:
        log.begin_turn([TextContent("What"), TextContent(" is this?"), image], message_id="u1")
        log.append(chunk("A cat."))
        await log.end_turn("end_turn")

    first, second, third, answer = await replayed(store, "s")
    assert first == chunk("What", "u1", role="user")
    assert second == chunk(" is this?", "u1", role="user")
    assert getattr(third, "content", None) == image
    assert answer == chunk("A cat.")


async def test_a_log_that_is_open_can_be_replayed_with_what_it_has_not_written_yet(store: Store) -> None:
    log = await store.create(info("s"))
    log.append(chunk("just now"))

    assert await replayed(store, "s") == [chunk("just now")]


@pytest.mark.fault("STO-14")
async def test_a_replay_adds_nothing_to_what_is_kept(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.begin_turn([TextContent("Hi")])
        log.append(chunk("Ho"))
        await log.end_turn("end_turn")
    before = await replayed(store, "s")
    async with await store.open("s") as log:
        assert await replayed(store, "s") == before
        log.append(chunk("again"))

    assert await replayed(store, "s") == [*before, chunk("again")]


@pytest.mark.rule(126)
async def test_notices_are_for_the_moment(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.append(NoticeUpdate(severity="warning", title="Rate limit"))
        log.append(chunk("Hi"))

    assert await replayed(store, "s") == [chunk("Hi")]


async def test_values_outside_of_json_are_rejected_and_lone_surrogates_are_replaced(store: Store) -> None:
    async with await store.create(info("s")) as log:
        with pytest.raises(EncodeError):
            log.append(ModeUpdate(mode_id="x", meta={"self": object()}))
        log.append(chunk("half \ud83e a fox"))

    assert await replayed(store, "s") == [chunk("half \ufffd a fox")]


# --- turns


@pytest.mark.fault("STO-16")
async def test_an_interrupted_turn_is_replayed_with_its_unfinished_work_failed(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.begin_turn([TextContent("Fix it")])
        log.append(tool("done", "completed", is_new=True))
        log.append(tool("cut off", "pending", is_new=True))
        log.append(tool("cut off", "in_progress"))
    async with await store.open("s") as log:
        assert log.is_interrupted
        assert await replayed(store, "s") == [
            chunk("Fix it", role="user"),
            tool("done", "completed", is_new=True),
            tool("cut off", "failed", is_new=True),
        ]
        log.begin_turn([TextContent("Go on")])
        log.append(tool("next", "in_progress", is_new=True))

        assert (await replayed(store, "s"))[2:] == [
            tool("cut off", "failed", is_new=True),
            chunk("Go on", role="user"),
            tool("next", "in_progress", is_new=True),
        ]
        await log.end_turn("end_turn")
    async with await store.open("s") as log:
        assert not log.is_interrupted


async def test_an_ended_turn_is_replayed_unchanged(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.begin_turn([TextContent("Start the server")])
        log.append(tool("server", "in_progress", is_new=True))
        await log.end_turn("end_turn")
    log = await store.open("s")

    assert not log.is_interrupted
    assert (await replayed(store, "s"))[-1] == tool("server", "in_progress", is_new=True)


async def test_a_refused_turn_is_shown_but_is_no_part_of_the_context(store: Store) -> None:
    async with await store.create(info("s")) as log:
        for prompt, answer, reason in [("one", "1", "end_turn"), ("bad", "no", "refusal"), ("two", "2", "cancelled")]:
            log.begin_turn([TextContent(prompt)])
            log.append(chunk(answer))
            await log.end_turn(reason)

    assert [update async for update in store.context("s")] == [
        chunk("one", role="user"),
        chunk("1"),
        chunk("two", role="user"),
        chunk("2"),
    ]
    assert len(await replayed(store, "s")) == 6


async def test_a_turn_begins_once_and_ends_once(store: Store) -> None:
    log = await store.create(info("s"))
    with pytest.raises(RuntimeError, match="no turn is running"):
        await log.end_turn("end_turn")
    log.begin_turn([TextContent("Hi")])
    with pytest.raises(RuntimeError, match="running already"):
        log.begin_turn([TextContent("Hi again")])


# --- one place at a time


@pytest.mark.fault("STO-09")
async def test_a_session_is_open_in_one_place(store: Store) -> None:
    log = await store.create(info("s"))
    with pytest.raises(SessionInUse, match="session in use"):
        await store.open("s")
    with pytest.raises(SessionInUse):
        await store.delete("s")
    await log.aclose()

    async with await store.open("s") as log:
        log.append(chunk("mine now"))
    assert await replayed(store, "s") == [chunk("mine now")]


async def test_a_closed_log_takes_nothing_and_may_be_closed_again(store: Store) -> None:
    log = await store.create(info("s"))
    await log.aclose()
    await log.aclose()
    with pytest.raises(StoreError, match="closed"):
        log.append(chunk("too late"))


async def test_leaving_the_store_keeps_what_its_logs_had_not_written(store: Store) -> None:
    log = await store.create(info("s"))
    log.append(chunk("last message"))
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        log.append(chunk("too late"))


# --- names


@pytest.mark.fault("STO-13")
async def test_any_name_will_do_and_no_two_share_a_session(store: Store) -> None:
    names = [
        "..",
        "../../etc/passwd",
        "/",
        "a\0b",
        "a",
        "A",
        "CON",
        "nul.txt",
        "é",
        "e\u0301",
        "x" * 1025,
        " ",
        "%",
        "'",
    ]
    for name in names:
        async with await store.create(info(name)) as log:
            log.append(chunk(repr(name)))

    assert [await replayed(store, name) for name in names] == [[chunk(repr(name))] for name in names]
    assert {session.session_id for session in (await store.list()).sessions} == set(names)


async def test_a_name_is_taken_once(store: Store) -> None:
    await store.create(info("s"))
    with pytest.raises(StoreError):
        await store.create(info("s"))


async def test_a_session_that_does_not_exist_is_not_found(store: Store) -> None:
    for failing in (store.open("nope"), store.info("nope"), store.update_info("nope"), store.fork("nope", info("n"))):
        with pytest.raises(ResourceNotFound) as caught:
            await failing
        assert caught.value.data == {"sessionId": "nope"}
    with pytest.raises(ResourceNotFound):
        await replayed(store, "nope")


# --- state


async def test_an_author_s_state_is_kept_with_the_session(store: Store) -> None:
    async with await store.create(info("s")) as log:
        assert await log.load_state("history") is None
        log.save_state("history", b"[1]")
        assert await log.load_state("history") == b"[1]"
        log.save_state("history", b"\0\xff")
        log.save_state("draft", b"x")
        await log.commit()
        log.save_state("draft", None)
        assert await log.load_state("draft") is None
    async with await store.open("s") as log:
        assert await log.load_state("history") == b"\0\xff"
        assert await log.load_state("draft") is None


# --- the list


async def test_the_entry_of_a_session_is_what_it_was_given(store: Store) -> None:
    await store.create(info("s", "/a", title="First"))
    entry = await store.info("s")
    assert (entry.session_id, entry.cwd, entry.title, entry.archived) == ("s", "/a", "First", False)

    changed = await store.update_info("s", title="Second", cwd="/b", additional_directories=["/c"], meta={"k": 1})
    assert changed == await store.info("s")
    assert (changed.title, changed.cwd, changed.additional_directories, changed.meta) == (
        "Second",
        "/b",
        ["/c"],
        {"k": 1},
    )
    assert changed.updated_at == entry.updated_at
    assert (await store.update_info("s", title=None)).title is None
    assert (await store.update_info("s", archived=True)).archived


async def test_the_last_title_update_is_the_title_in_the_list(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.append(InfoUpdate(title="Told"))
        log.append(InfoUpdate(updated_at="2026-01-01T00:00:00Z"))

    assert (await store.info("s")).title == "Told"
    assert await replayed(store, "s") == [InfoUpdate(title="Told", updated_at="2026-01-01T00:00:00Z")]


async def test_the_list_shows_first_where_something_happened_last(store: Store) -> None:
    logs = [await store.create(info(f"s{number}")) for number in range(3)]
    logs[0].append(chunk("news"))
    await logs[0].commit()
    page = await store.list()

    assert [session.session_id for session in page.sessions] == ["s0", "s2", "s1"]
    assert page.next_cursor is None
    assert [session.updated_at for session in page.sessions] == sorted(
        (session.updated_at or "" for session in page.sessions), reverse=True
    )


async def test_pages_neither_repeat_nor_lose_a_session_while_others_are_made(store: Store) -> None:
    for number in range(25):
        await (await store.create(info(f"s{number}"))).aclose()
    seen: list[str] = []
    page = await store.list(limit=10)
    while True:
        seen += [session.session_id for session in page.sessions]
        await (await store.create(info(f"new {len(seen)}"))).aclose()
        if page.next_cursor is None:
            break
        page = await store.list(cursor=page.next_cursor, limit=10)

    assert seen == [f"s{number}" for number in range(24, -1, -1)]


@pytest.mark.rule(67)
async def test_the_list_can_be_narrowed_to_a_directory(store: Store) -> None:
    for name, cwd in [("a", "/work"), ("b", "/work/sub"), ("c", "/work")]:
        await store.create(info(name, cwd))

    assert [session.session_id for session in (await store.list(cwd="/work")).sessions] == ["c", "a"]
    assert (await store.list(cwd="/wor")).sessions == []


@pytest.mark.parametrize(("archived", "shown"), [("exclude", ["b"]), ("only", ["a"]), ("include", ["b", "a"])])
async def test_archived_sessions_are_listed_on_request(store: Store, archived: Archived, shown: list[str]) -> None:
    await store.create(info("a", archived=True))
    await store.create(info("b"))

    assert [session.session_id for session in (await store.list(archived=archived)).sessions] == shown


@pytest.mark.rule(69)
@pytest.mark.parametrize("cursor", ["zzz", "", "AAAA", "A" * 28, "A" * 27 + "=", "\ud800", "é", "null"])
async def test_a_cursor_that_no_page_gave_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidParams, match="cursor"):
        await store.list(cursor=cursor)


async def test_a_page_is_never_empty_nor_endless_whatever_is_asked(store: Store) -> None:
    await store.create(info("a"))
    await store.create(info("b"))

    assert len((await store.list(limit=0)).sessions) == 1
    assert len((await store.list(limit=10**9)).sessions) == 2


# --- fork and delete


async def test_a_fork_has_the_same_past_and_its_own_future(store: Store) -> None:
    source = await store.create(info("s"))
    source.begin_turn([TextContent("Hi")])
    source.append(tool("t", "completed", is_new=True))
    await source.end_turn("end_turn")
    source.save_state("history", b"[1]")
    source.append(chunk("not written yet", "m"))
    await store.fork("s", info("copy", "/elsewhere", title="Copy"))
    past = await replayed(store, "s")
    assert past[-1] == chunk("not written yet", "m")
    source.append(chunk("only here", "m2"))
    async with await store.open("copy") as copy:
        assert await replayed(store, "copy") == past
        assert await copy.load_state("history") == b"[1]"
        copy.append(chunk("only there", "m2"))

    assert await replayed(store, "s") == [*past, chunk("only here", "m2")]
    assert await replayed(store, "copy") == [*past, chunk("only there", "m2")]
    assert (await store.info("copy")).cwd == "/elsewhere"
    with pytest.raises(StoreError):
        await store.fork("s", info("copy"))


@pytest.mark.rule(72, 73)
async def test_a_deleted_session_is_gone_and_may_be_deleted_again(store: Store) -> None:
    async with await store.create(info("s")) as log:
        log.append(chunk("secret"))
        log.save_state("history", b"secret")
    await store.delete("s")
    await store.delete("s")

    assert (await store.list()).sessions == []
    with pytest.raises(ResourceNotFound):
        await store.open("s")
    async with await store.create(info("s")) as log:
        assert await replayed(store, "s") == []
        assert await log.load_state("history") is None


# --- concurrent use


@pytest.mark.fault("STO-11")
async def test_concurrent_readers_see_a_prefix_of_what_a_writer_wrote(store: Store) -> None:
    log = await store.create(info("s"))
    is_done = False

    async def read() -> int:
        reads = 0
        while not is_done or reads == 0:
            seen = [update async for update in store.replay("s")]
            assert seen == [chunk(str(number), str(number)) for number in range(len(seen))]
            reads += 1
        return reads

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        readers = [group.create_task(read()) for _ in range(2)]
        for number in range(300):
            log.append(chunk(str(number), str(number)))
            await log.commit()
        is_done = True

    assert all(reader.result() >= 1 for reader in readers)
    assert len(await replayed(store, "s")) == 300
