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
from tests.agent.complete import Knobs
from tests.agent.persistent_agent import TOLD, keeping_agent, without_ids
from tests.agent.wire_client import EVERYTHING, Editor, agent_with, editor_for


@pytest.mark.rule(56, 57, 126)
@pytest.mark.fault("ORD-12", "STO-14")
async def test_loading_tells_all_of_it_before_the_answer_and_keeps_none_of_it_twice(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(), tmp_path, judged=True, **EVERYTHING) as editor:
        session = await editor.new()
        await editor.prompt(session, "hi")
        assert len(editor.of(v1.Notice)) == 1
        await editor.close(session)

        for _ in range(3):
            editor.updates.clear()
            await editor.load(session)
            assert without_ids(editor.updates) == TOLD
            assert set(editor.sessions) == {session}
        order = editor.judge.order()
        assert order[-1] == "answer to session/load"

        await editor.prompt(session, "hi")
        editor.updates.clear()
        await editor.load(session)  # also while it is open here
        assert without_ids(editor.updates) == TOLD * 2


@pytest.mark.rule(60)
@pytest.mark.fault("ORD-13")
async def test_resuming_tells_nothing_and_goes_on(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(), tmp_path, judged=True) as editor:
        session = await editor.new()
        await editor.prompt(session, "hi")
        await editor.close(session)
        editor.updates.clear()
        await editor.resume(session)
        assert editor.updates == []

        await editor.prompt(session, "hi")
        editor.updates.clear()
        await editor.load(session)
        assert without_ids(editor.updates) == TOLD * 2


@pytest.mark.rule(58)
@pytest.mark.parametrize("method", ["load", "resume", "fork"])
async def test_opening_an_unknown_session_is_not_found(tmp_path: Path, method: str) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(unstable=True), tmp_path) as editor:
        with pytest.raises(ResourceNotFound) as caught:
            await getattr(editor, method)("unknown")
        assert caught.value.data == {"sessionId": "unknown"}


async def test_a_fork_has_the_past_of_its_source_and_a_future_of_its_own(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(unstable=True), tmp_path, judged=True) as editor:
        source = await editor.new()
        await editor.prompt(source, "hi")
        await editor.prompt(source, "title T")
        copy = await editor.fork(source)
        assert copy != source
        await editor.prompt(copy, "hi")
        await editor.prompt(source, "refuse")

        editor.updates.clear()
        await editor.load(copy)
        said = [update.content.text for update in editor.of(v1.UserMessageChunk)]
        assert said == ["hi", "title T", "hi"]
        assert {info.title for info in (await editor.sessions_page()).sessions} == {"T"}


@pytest.mark.rule(66, 67, 69, 73)
async def test_listing_pages_filters_and_forgets(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with asyncio.timeout(10), editor_for(keeping_agent(), tmp_path, judged=True) as editor:
        assert (await editor.sessions_page()).sessions == []
        made = [await editor.new(here) for _ in range(120)]
        other = await editor.new(Path(f"{there}/."))

        found: list[str] = []
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor is not None:
            page = await editor.sessions_page(cwd=str(here), cursor=cursor)
            found += [info.session_id for info in page.sessions]
            cursor = page.next_cursor
            pages += 1
        assert pages == 3
        assert sorted(found) == sorted(made)
        for spelt in (f"{there}", f"{there}/", f"{there}/."):
            assert [info.session_id for info in (await editor.sessions_page(cwd=spelt)).sessions] == [other]
        assert (await editor.sessions_page(cwd=str(tmp_path))).sessions == []
        for bad in ("zzz", "", "AAAA"):
            with pytest.raises(InvalidParams, match="cursor"):
                await editor.sessions_page(cursor=bad)
        with pytest.raises(InvalidParams, match="cwd"):
            await editor.sessions_page(cwd="relative")
        with pytest.raises(InvalidParams, match="exclude, include, only"):
            await editor.sessions_page(archived="from the future")
        await editor.load(made[0], there)
        assert len((await editor.sessions_page(cwd=str(there))).sessions) == 2
        await editor.delete(made[0])

        await editor.delete(other)
        assert (await editor.sessions_page(cwd=str(there))).sessions == []


@pytest.mark.rule(153)
async def test_archiving_ends_a_session_and_hides_it_until_it_is_taken_out_again(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(unstable=True), tmp_path, judged=True) as editor:
        kept, archived = await editor.new(), await editor.new()
        turn = asyncio.ensure_future(editor.prompt(archived, "wait"))
        await editor.until_told(v1.ToolCall)
        put_away = v1.ArchiveSessionRequest(session_id=archived)
        await editor.connection.request(v1.SESSION_ARCHIVE, put_away)
        await editor.connection.request(v1.SESSION_ARCHIVE, put_away)
        assert (await turn).stop_reason == "cancelled"

        async def listed(which: str | None = None) -> dict[str, bool | None]:
            sessions = (await editor.sessions_page(archived=which)).sessions
            return {info.session_id: info.archived for info in sessions}

        assert await listed() == {kept: False}
        assert await listed("only") == {archived: True}
        assert await listed("include") == {kept: False, archived: True}
        both: tuple[Method[Any, Any], ...] = (v1.SESSION_ARCHIVE, v1.SESSION_UNARCHIVE)
        for method in both:
            with pytest.raises(ResourceNotFound):
                await editor.ask(method, session_id="unknown")
        await editor.connection.request(v1.SESSION_UNARCHIVE, v1.UnarchiveSessionRequest(session_id=archived))
        assert await listed() == {kept: False, archived: False}
        await editor.load(archived)


@pytest.mark.rule(154)
async def test_asking_for_the_status_of_a_session_changes_nothing(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(unstable=True), tmp_path, judged=True) as editor:
        session = await editor.new()

        async def status(name: str = session) -> str:
            request = v1.SessionStatusRequest(session_id=name)
            return (await editor.connection.request(v1.SESSION_STATUS, request)).status

        turn = asyncio.ensure_future(editor.prompt(session, "wait"))
        await editor.until_told(v1.ToolCall)
        assert await status() == "open"
        assert not turn.done()
        await editor.cancel(session)
        await turn
        await editor.close(session)
        before = await editor.sessions_page()
        assert [await status(), await status()] == ["saved", "saved"]
        assert await editor.sessions_page() == before
        with pytest.raises(ResourceNotFound) as caught:
            await status("unknown")
        assert caught.value.data == {"sessionId": "unknown"}


async def set_title(editor: Editor, session: str, title: str) -> str:
    request = v1.SetSessionTitleRequest(session_id=session, title=title)
    return (await editor.connection.request(v1.SESSION_SET_TITLE, request)).title


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_title_of_the_user_is_normalized_sent_and_not_replaced_by_the_agent(
    tmp_path: Path, is_open: bool
) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(unstable=True), tmp_path, judged=True) as editor:
        session = await editor.new()
        await editor.prompt(session, "title A")
        await editor.prompt(session, "title B")
        assert [update.title for update in editor.of(v1.SessionInfoUpdate)] == ["A", "B"]
        if not is_open:
            await editor.close(session)
        editor.updates.clear()

        assert await set_title(editor, session, "  My\n title ") == "My title"
        assert [update.title for update in editor.of(v1.SessionInfoUpdate)] == (["My title"] if is_open else [])
        editor.updates.clear()
        await editor.load(session)
        assert [update.title for update in editor.of(v1.SessionInfoUpdate)] == ["My title"]
        await editor.prompt(session, "title C")
        assert (await editor.sessions_page()).sessions[0].title == "My title"
        assert len(editor.of(v1.SessionInfoUpdate)) == 1

        assert len(await set_title(editor, session, "x" * 999)) == 200
        for bad in ("", " \n\t"):
            with pytest.raises(InvalidParams, match="title"):
                await set_title(editor, session, bad)
        with pytest.raises(ResourceNotFound):
            await set_title(editor, "unknown", "T")


async def test_a_title_that_is_only_in_the_list_is_sent_when_the_session_is_loaded(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(unstable=True), tmp_path, judged=True) as editor:
        session = await editor.new()
        await editor.close(session)
        await set_title(editor, session, "T")
        await editor.load(session)

        assert editor.updates == [v1.SessionInfoUpdate(title="T")]


@pytest.mark.parametrize("again", ["load", "resume", "fork"])
async def test_settings_and_state_are_kept_and_the_answer_says_them_as_they_are_now(tmp_path: Path, again: str) -> None:
    async def count(turn: Turn[Knobs]) -> None:
        turn.session.state["turns"] = turn.session.state.get("turns", 0) + 1
        await turn.say(f"{turn.session.state['turns']} {turn.settings.mode}")
        if turn.text == "switch":
            await turn.set_option(mode="write")

    agent = agent_with(count, settings=Knobs, unstable=True)
    agent.persist_sessions(SqliteStore(tmp_path / "kept"))
    async with asyncio.timeout(10), editor_for(agent, tmp_path, judged=True) as editor:
        session = await editor.new()
        await editor.prompt(session, "switch")
        await editor.set_mode(session, "ask")
        await editor.close(session)
        editor.updates.clear()

        methods: dict[str, Method[Any, Any]] = {
            "load": v1.SESSION_LOAD,
            "resume": v1.SESSION_RESUME,
            "fork": v1.SESSION_FORK,
        }
        opened = await editor.ask(methods[again], session_id=session, cwd=str(tmp_path), mcp_servers=[])
        session = getattr(opened, "session_id", session)
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "ask"
        assert editor.of(v1.CurrentModeUpdate) + editor.of(v1.ConfigOptionUpdate) == []
        await editor.prompt(session, "again")
        assert editor.text.endswith("2 ask")
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
    async with asyncio.timeout(5), editor_for(agent, tmp_path) as editor:
        session = await editor.new()
        assert (await editor.prompt(session, "one")).stop_reason == "end_turn"
        assert (await editor.prompt(session, "bad")).stop_reason == "refusal"
        seen.clear()
        await editor.prompt(session, "two")
        assert seen == ["user: one", "agent: ok one", "user: two"]

        editor.updates.clear()
        await editor.load(session)
        assert [update.content.text for update in editor.of(v1.UserMessageChunk)] == ["one", "bad", "two"]


async def test_a_session_in_which_nothing_happened_writes_nothing_when_it_ends(tmp_path: Path) -> None:
    store = MemoryStore()
    agent = agent_with(settings=Knobs)
    agent.persist_sessions(store)
    async with asyncio.timeout(5), editor_for(agent, tmp_path) as editor:
        untouched, changed = await editor.new(), await editor.new()
        await editor.connection.request(
            v1.SESSION_SET_MODE, v1.SetSessionModeRequest(session_id=changed, mode_id="write")
        )

    async with await store.open(untouched) as log:
        assert await log.load_state("duologue") is None
    async with await store.open(changed) as log:
        assert b'"write"' in (await log.load_state("duologue") or b"")


async def test_a_new_session_that_finds_no_file_handle_left_says_so(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(agent_with(), tmp_path) as editor:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            with pytest.raises(InternalError, match="too many files are open already"):
                await editor.new()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await editor.new()


async def test_the_client_receives_the_reason_why_sessions_cannot_be_stored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with (
        asyncio.timeout(5),
        SqliteStore(tmp_path / "file" / "sessions") as store,
        editor_for(keeping_agent(store), tmp_path) as editor,
    ):
        with pytest.raises(InternalError, match=r"the session store failed: .*file/sessions: "):
            await editor.new()
        with pytest.raises(InternalError, match=r"the session store failed: .*file/sessions: "):
            await editor.connection.request(v1.SESSION_LIST, v1.ListSessionsRequest())
