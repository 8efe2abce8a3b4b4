"""Sessions that outlive their client: load, resume, fork, list, archive, titles, and turns that were cut off."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.updates import MessageChunk
from duologue.errors import InternalError, InvalidParams, ResourceNotFound
from duologue.schema import v1
from duologue.schema.base import Method
from duologue.store.memory import MemoryStore
from duologue.store.sqlite.store import SqliteStore
from tests.agent.complete import SampleSettings
from tests.agent.persistent_agent import REPLAYED, persistent_agent, without_ids
from tests.agent.wire_client import EVERYTHING, RecordingClient, agent_with, client_for


@pytest.mark.rule(56, 57, 126)
@pytest.mark.fault("ORD-12", "STO-14")
async def test_loading_tells_all_of_it_before_the_answer_and_keeps_none_of_it_twice(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(persistent_agent(), tmp_path, validate=True, **EVERYTHING) as client:
        session = await client.new()
        await client.prompt(session, "hi")
        assert len(client.of(v1.Notice)) == 1
        await client.close(session)

        for _ in range(3):
            client.updates.clear()
            await client.load(session)
            assert without_ids(client.updates) == REPLAYED
            assert set(client.sessions) == {session}
        order = client.validator.order()
        assert order[-1] == "answer to session/load"

        await client.prompt(session, "hi")
        client.updates.clear()
        await client.load(session)  # also while it is open here
        assert without_ids(client.updates) == REPLAYED * 2


@pytest.mark.rule(60)
@pytest.mark.fault("ORD-13")
async def test_resuming_tells_nothing_and_goes_on(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(persistent_agent(), tmp_path, validate=True) as client:
        session = await client.new()
        await client.prompt(session, "hi")
        await client.close(session)
        client.updates.clear()
        await client.resume(session)
        assert client.updates == []

        await client.prompt(session, "hi")
        client.updates.clear()
        await client.load(session)
        assert without_ids(client.updates) == REPLAYED * 2


@pytest.mark.rule(58)
@pytest.mark.parametrize("method", ["load", "resume", "fork"])
async def test_opening_an_unknown_session_is_not_found(tmp_path: Path, method: str) -> None:
    async with asyncio.timeout(60), client_for(persistent_agent(unstable=True), tmp_path) as client:
        with pytest.raises(ResourceNotFound) as caught:
            await getattr(client, method)("unknown")
        assert caught.value.data == {"sessionId": "unknown"}


async def test_a_fork_has_the_past_of_its_source_and_a_future_of_its_own(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(persistent_agent(unstable=True), tmp_path, validate=True) as client:
        source = await client.new()
        await client.prompt(source, "hi")
        await client.prompt(source, "title T")
        copy = await client.fork(source)
        assert copy != source
        await client.prompt(copy, "hi")
        await client.prompt(source, "refuse")

        client.updates.clear()
        await client.load(copy)
        texts = [update.content.text for update in client.of(v1.UserMessageChunk)]
        assert texts == ["hi", "title T", "hi"]
        assert {info.title for info in (await client.sessions_page()).sessions} == {"T"}


@pytest.mark.rule(66, 67, 69, 73)
async def test_listing_pages_filters_and_forgets(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with asyncio.timeout(60), client_for(persistent_agent(), tmp_path, validate=True) as client:
        assert (await client.sessions_page()).sessions == []
        made = [await client.new(here) for _ in range(120)]
        other = await client.new(Path(f"{there}/."))

        found: list[str] = []
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor is not None:
            page = await client.sessions_page(cwd=str(here), cursor=cursor)
            found += [info.session_id for info in page.sessions]
            cursor = page.next_cursor
            pages += 1
        assert pages == 3
        assert sorted(found) == sorted(made)
        for spelt in (f"{there}", f"{there}/", f"{there}/."):
            assert [info.session_id for info in (await client.sessions_page(cwd=spelt)).sessions] == [other]
        assert (await client.sessions_page(cwd=str(tmp_path))).sessions == []
        for bad in ("zzz", "", "AAAA"):
            with pytest.raises(InvalidParams, match="cursor"):
                await client.sessions_page(cursor=bad)
        with pytest.raises(InvalidParams, match="cwd"):
            await client.sessions_page(cwd="relative")
        with pytest.raises(InvalidParams, match="exclude, include, only"):
            await client.sessions_page(archived="from the future")
        await client.load(made[0], there)
        assert len((await client.sessions_page(cwd=str(there))).sessions) == 2
        await client.delete(made[0])

        await client.delete(other)
        assert (await client.sessions_page(cwd=str(there))).sessions == []


@pytest.mark.rule(153)
async def test_archiving_ends_a_session_and_hides_it_until_it_is_taken_out_again(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(persistent_agent(unstable=True), tmp_path, validate=True) as client:
        active, archived = await client.new(), await client.new()
        turn = asyncio.ensure_future(client.prompt(archived, "wait"))
        await client.until_updates(v1.ToolCall)
        put_away = v1.ArchiveSessionRequest(session_id=archived)
        await client.connection.request(v1.SESSION_ARCHIVE, put_away)
        await client.connection.request(v1.SESSION_ARCHIVE, put_away)
        assert (await turn).stop_reason == "cancelled"

        async def listed(which: str | None = None) -> dict[str, bool | None]:
            sessions = (await client.sessions_page(archived=which)).sessions
            return {info.session_id: info.archived for info in sessions}

        assert await listed() == {active: False}
        assert await listed("only") == {archived: True}
        assert await listed("include") == {active: False, archived: True}
        both: tuple[Method[Any, Any], ...] = (v1.SESSION_ARCHIVE, v1.SESSION_UNARCHIVE)
        for method in both:
            with pytest.raises(ResourceNotFound):
                await client.ask(method, session_id="unknown")
        await client.connection.request(v1.SESSION_UNARCHIVE, v1.UnarchiveSessionRequest(session_id=archived))
        assert await listed() == {active: False, archived: False}
        await client.load(archived)


@pytest.mark.rule(154)
async def test_asking_for_the_status_of_a_session_changes_nothing(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(persistent_agent(unstable=True), tmp_path, validate=True) as client:
        session = await client.new()

        async def status(name: str = session) -> str:
            request = v1.SessionStatusRequest(session_id=name)
            return (await client.connection.request(v1.SESSION_STATUS, request)).status

        turn = asyncio.ensure_future(client.prompt(session, "wait"))
        await client.until_updates(v1.ToolCall)
        assert await status() == "open"
        assert not turn.done()
        await client.cancel(session)
        await turn
        await client.close(session)
        before = await client.sessions_page()
        assert [await status(), await status()] == ["saved", "saved"]
        assert await client.sessions_page() == before
        with pytest.raises(ResourceNotFound) as caught:
            await status("unknown")
        assert caught.value.data == {"sessionId": "unknown"}


async def set_title(client: RecordingClient, session: str, title: str) -> str:
    request = v1.SetSessionTitleRequest(session_id=session, title=title)
    return (await client.connection.request(v1.SESSION_SET_TITLE, request)).title


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_title_of_the_user_is_normalized_sent_and_not_replaced_by_the_agent(
    tmp_path: Path, is_open: bool
) -> None:
    async with asyncio.timeout(60), client_for(persistent_agent(unstable=True), tmp_path, validate=True) as client:
        session = await client.new()
        await client.prompt(session, "title A")
        await client.prompt(session, "title B")
        assert [update.title for update in client.of(v1.SessionInfoUpdate)] == ["A", "B"]
        if not is_open:
            await client.close(session)
        client.updates.clear()

        assert await set_title(client, session, "  My\n title ") == "My title"
        assert [update.title for update in client.of(v1.SessionInfoUpdate)] == (["My title"] if is_open else [])
        client.updates.clear()
        await client.load(session)
        assert [update.title for update in client.of(v1.SessionInfoUpdate)] == ["My title"]
        await client.prompt(session, "title C")
        assert (await client.sessions_page()).sessions[0].title == "My title"
        assert len(client.of(v1.SessionInfoUpdate)) == 1

        assert len(await set_title(client, session, "x" * 999)) == 200
        for bad in ("", " \n\t"):
            with pytest.raises(InvalidParams, match="title"):
                await set_title(client, session, bad)
        with pytest.raises(ResourceNotFound):
            await set_title(client, "unknown", "T")


async def test_a_title_that_is_only_in_the_list_is_sent_when_the_session_is_loaded(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(persistent_agent(unstable=True), tmp_path, validate=True) as client:
        session = await client.new()
        await client.close(session)
        await set_title(client, session, "T")
        await client.load(session)

        assert client.updates == [v1.SessionInfoUpdate(title="T")]


@pytest.mark.parametrize("again", ["load", "resume", "fork"])
async def test_settings_and_state_are_kept_and_the_answer_says_them_as_they_are_now(tmp_path: Path, again: str) -> None:
    async def count(turn: Turn[SampleSettings]) -> None:
        turn.session.state["turns"] = turn.session.state.get("turns", 0) + 1
        await turn.say(f"{turn.session.state['turns']} {turn.settings.mode}")
        if turn.text == "switch":
            await turn.set_option(mode="write")

    agent = agent_with(count, settings=SampleSettings, unstable=True)
    agent.persist_sessions(SqliteStore(tmp_path / "kept"))
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        await client.prompt(session, "switch")
        await client.set_mode(session, "ask")
        await client.close(session)
        client.updates.clear()

        methods: dict[str, Method[Any, Any]] = {
            "load": v1.SESSION_LOAD,
            "resume": v1.SESSION_RESUME,
            "fork": v1.SESSION_FORK,
        }
        opened = await client.ask(methods[again], session_id=session, cwd=str(tmp_path), mcp_servers=[])
        session = getattr(opened, "session_id", session)
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "ask"
        assert client.of(v1.CurrentModeUpdate) + client.of(v1.ConfigOptionUpdate) == []
        await client.prompt(session, "again")
        assert client.text.endswith("2 ask")
    assert agent.store is not None
    await agent.store.aclose()


@pytest.mark.rule(158)
async def test_a_refused_turn_is_replayed_but_is_not_part_of_the_history(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(turn: Turn[Settings]) -> str | None:
        chunks = [update async for update in turn.session.history() if isinstance(update, MessageChunk)]
        seen.extend(f"{chunk.role}: {getattr(chunk.content, 'text', '')}" for chunk in chunks)
        await turn.say(f"ok {turn.text}")
        return "refusal" if turn.text == "bad" else None

    agent = agent_with(answer)
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        session = await client.new()
        assert (await client.prompt(session, "one")).stop_reason == "end_turn"
        assert (await client.prompt(session, "bad")).stop_reason == "refusal"
        seen.clear()
        await client.prompt(session, "two")
        assert seen == ["user: one", "agent: ok one", "user: two"]

        client.updates.clear()
        await client.load(session)
        assert [update.content.text for update in client.of(v1.UserMessageChunk)] == ["one", "bad", "two"]


async def test_a_session_in_which_nothing_happened_writes_nothing_when_it_ends(tmp_path: Path) -> None:
    store = MemoryStore()
    agent = agent_with(settings=SampleSettings)
    agent.persist_sessions(store)
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        untouched, changed = await client.new(), await client.new()
        await client.connection.request(
            v1.SESSION_SET_MODE, v1.SetSessionModeRequest(session_id=changed, mode_id="write")
        )

    async with await store.open(untouched) as log:
        assert await log.load_state("duologue") is None
    async with await store.open(changed) as log:
        assert b'"write"' in (await log.load_state("duologue") or b"")


async def test_a_new_session_that_finds_no_file_handle_left_says_so(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(agent_with(), tmp_path) as client:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            with pytest.raises(InternalError, match="too many files are open already"):
                await client.new()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await client.new()


async def test_the_client_receives_the_reason_why_sessions_cannot_be_stored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with (
        asyncio.timeout(60),
        SqliteStore(tmp_path / "file" / "sessions") as store,
        client_for(persistent_agent(store), tmp_path) as client,
    ):
        with pytest.raises(InternalError, match=r"the session store failed: .*file/sessions: "):
            await client.new()
        with pytest.raises(InternalError, match=r"the session store failed: .*file/sessions: "):
            await client.connection.request(v1.SESSION_LIST, v1.ListSessionsRequest())
