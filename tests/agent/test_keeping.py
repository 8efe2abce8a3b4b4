"""Sessions that outlive their client: load, resume, fork, list, archive, titles, and turns that were cut off."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duologue.agent.agent import Agent
from duologue.agent.session import Session
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.updates import MessageChunk, ToolCallChanged
from duologue.errors import InternalError, InvalidParams, InvalidRequest, ResourceNotFound, StoreError, StoreFull
from duologue.schema import v1
from duologue.schema.base import Method
from duologue.store.base import Store
from duologue.store.log import SessionLog
from duologue.store.memory import MemoryStore
from duologue.store.sqlite import SqliteStore
from tests.agent.complete import Knobs
from tests.agent.editor import EVERYTHING, Editor, agent_with, editor_for


async def tell(turn: Turn[Settings]) -> str | None:
    """A turn with a bit of everything, and the end that was asked for."""
    if turn.text == "wait":
        async with turn.tool("Wait"):
            await asyncio.Event().wait()
    if turn.text.startswith("title "):
        await turn.title(turn.text.removeprefix("title "))
    await turn.think("hm")
    for piece in ("You said: ", turn.text):
        await turn.say(piece)
    await turn.notice("Only now")
    async with turn.tool("Read", kind="read") as read:
        await read.show("text")
    return "refusal" if turn.text == "refuse" else None


def keeping_agent(store: Store | None = None, **options: Any) -> Agent[Any]:
    agent = agent_with(tell, **options)
    agent.keep_sessions(store if store is not None else MemoryStore())
    return agent


TOLD = [
    v1.UserMessageChunk(content=v1.TextContent(text="hi")),
    v1.AgentThoughtChunk(content=v1.TextContent(text="hm")),
    v1.AgentMessageChunk(content=v1.TextContent(text="You said: hi")),
    v1.ToolCall(
        tool_call_id="",
        title="Read",
        kind="read",
        status="completed",
        content=[v1.Content(content=v1.TextContent(text="text"))],
    ),
]
"""What a replay of the turn "hi" tells, without the ids; the notice was only for that moment."""


def without_ids(updates: list[Any]) -> list[Any]:
    known: list[Any] = []
    for update in updates:
        if isinstance(update, v1.ToolCall):
            known.append(msgspec.structs.replace(update, tool_call_id=""))
        else:
            known.append(type(update)(content=update.content))
    return known


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
    async with asyncio.timeout(5), editor_for(keeping_agent(), tmp_path) as editor:
        with pytest.raises(ResourceNotFound) as caught:
            await getattr(editor, method)("unknown")
        assert caught.value.data == {"sessionId": "unknown"}


async def test_a_fork_has_the_past_of_its_source_and_a_future_of_its_own(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(), tmp_path, judged=True) as editor:
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

        await editor.delete(other)
        assert (await editor.sessions_page(cwd=str(there))).sessions == []


@pytest.mark.rule(153)
async def test_archiving_ends_a_session_and_hides_it_until_it_is_taken_out_again(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(), tmp_path, judged=True) as editor:
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
    async with asyncio.timeout(5), editor_for(keeping_agent(), tmp_path, judged=True) as editor:
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
async def test_a_title_the_user_gave_is_normal_told_and_kept_from_the_agent(tmp_path: Path, is_open: bool) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(), tmp_path, judged=True) as editor:
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


async def test_a_title_only_the_list_knows_is_told_when_the_session_is_loaded(tmp_path: Path) -> None:
    async with asyncio.timeout(5), editor_for(keeping_agent(), tmp_path, judged=True) as editor:
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
            await turn.set(mode="write")

    agent = agent_with(count, settings=Knobs)
    agent.keep_sessions(SqliteStore(tmp_path / "kept"))
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
async def test_a_refused_turn_is_told_again_but_leaves_what_the_next_prompt_builds_on(tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(turn: Turn[Settings]) -> str | None:
        chunks = [update async for update in turn.session.history() if isinstance(update, MessageChunk)]
        seen.extend(f"{chunk.role}: {getattr(chunk.content, 'text', '')}" for chunk in chunks)
        await turn.say(f"ok {turn.text}")
        return "refusal" if turn.text == "bad" else None

    agent = agent_with(answer)
    agent.keep_sessions(MemoryStore())
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


# --- two places, and none


@pytest.mark.fault("LIF-07")
async def test_a_session_is_open_in_one_place(tmp_path: Path) -> None:
    """In the wild, agents 4: `session/load` with the same id from two connections."""
    agent = keeping_agent()
    async with asyncio.timeout(5), editor_for(agent, tmp_path) as mine, editor_for(agent, tmp_path) as other:
        session = await mine.new()
        await mine.prompt(session, "hi")
        for attempt in (other.load(session), other.resume(session), other.delete(session)):
            with pytest.raises(InvalidRequest, match="in use") as caught:
                await attempt
            assert caught.value.data == {"sessionId": session}
        with pytest.raises(InvalidRequest, match="in use"):
            await other.connection.request(v1.SESSION_ARCHIVE, v1.ArchiveSessionRequest(session_id=session))
        assert other.updates == []

        await mine.close(session)
        await other.load(session)
        assert without_ids(other.updates) == TOLD


@pytest.mark.fault("LIF-07")
async def test_loading_twice_at_once_tells_it_once_and_refuses_the_second(tmp_path: Path) -> None:
    agent = keeping_agent()
    is_slow, may_open = False, asyncio.Event()

    @agent.on_open
    async def wait(session: Session[Settings]) -> None:
        if is_slow:
            await may_open.wait()

    async with asyncio.timeout(5), editor_for(agent, tmp_path, judged=True) as editor:
        session = await editor.new()
        await editor.prompt(session, "hi")
        await editor.close(session)
        editor.updates.clear()
        is_slow = True
        first = asyncio.ensure_future(editor.load(session))
        await editor.until_told(v1.ToolCall)
        with pytest.raises(InvalidRequest, match="in use"):
            await editor.load(session)
        may_open.set()
        await first

        assert without_ids(editor.updates) == TOLD


@pytest.mark.fault("STO-16")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_turn_cut_off_by_the_end_of_its_client_is_kept_and_marked(tmp_path: Path, kind: str) -> None:
    """In the wild, agents 2: the stream closed in mid-turn."""
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "kept")
    logs: list[SessionLog] = []

    async def work(turn: Turn[Settings]) -> None:
        await turn.say("working")
        await turn.update(ToolCallChanged(is_new=True, tool_call_id="t", title="Work", status="in_progress"))
        if turn.text == "cut":
            await asyncio.Event().wait()

    agent = agent_with(work)
    agent.keep_sessions(store)
    async with asyncio.timeout(10):
        async with editor_for(agent, tmp_path) as editor:
            session = await editor.new()
            turn = asyncio.ensure_future(editor.prompt(session, "cut"))
            await editor.until_told(v1.ToolCall)
        with pytest.raises(Exception, match="closed"):
            await turn
        logs.append(await store.open(session))
        assert logs[0].is_interrupted
        await logs[0].aclose()

        async with editor_for(agent, tmp_path) as editor:
            await editor.load(session)
            assert [type(update) for update in editor.updates] == [
                v1.UserMessageChunk,
                v1.AgentMessageChunk,
                v1.ToolCall,
            ]
            assert editor.of(v1.ToolCall)[0].status == "failed"
            assert (await editor.prompt(session, "go on")).stop_reason == "end_turn"
    await store.aclose()


async def test_the_next_client_need_not_wait_for_the_last_to_be_cleared_away(tmp_path: Path) -> None:
    """`session in use` unless the first connection is gone."""
    agent = keeping_agent()
    cleaning, may_end = asyncio.Event(), asyncio.Event()

    async def work(turn: Turn[Settings]) -> None:
        if turn.text == "wait":
            await turn.say("x")
            try:
                await asyncio.Event().wait()
            finally:
                cleaning.set()
                await may_end.wait()

    agent.on_prompt(work)
    async with asyncio.timeout(10), editor_for(agent, tmp_path) as second:
        async with editor_for(agent, tmp_path) as first:
            session = await first.new()
            turn = asyncio.ensure_future(first.prompt(session, "wait"))
            await first.until_told(v1.AgentMessageChunk)
            await first.connection.aclose()
            await cleaning.wait()
            may_end.set()
            await second.load(session)
            assert (await second.prompt(session, "go on")).stop_reason == "end_turn"
            with pytest.raises(Exception, match="closed"):
                await turn


@pytest.mark.parametrize("method", ["load", "resume"])
async def test_a_session_that_another_process_has_open_is_in_use(tmp_path: Path, method: str) -> None:
    store = MemoryStore()
    async with asyncio.timeout(5), editor_for(keeping_agent(store), tmp_path) as editor:
        session = await editor.new()
        await editor.close(session)
        async with await store.open(session):
            with pytest.raises(InvalidRequest, match="in use"):
                await getattr(editor, method)(session)
            with pytest.raises(InvalidRequest, match="in use"):
                await editor.delete(session)
        await getattr(editor, method)(session)


async def test_a_client_that_leaves_while_its_session_is_being_opened_leaves_none(tmp_path: Path) -> None:
    agent = keeping_agent()
    opening, go_on = asyncio.Event(), asyncio.Event()

    @agent.on_open
    async def wait(session: Session[Settings]) -> None:
        opening.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                go_on.set()

    async with asyncio.timeout(5):
        async with editor_for(agent, tmp_path) as editor:
            attempt = asyncio.ensure_future(editor.new())
            await opening.wait()
        with pytest.raises(Exception, match="closed"):
            await attempt
        assert agent.open_sessions == {}
        async with editor_for(agent, tmp_path) as editor:
            for info in (await editor.sessions_page()).sessions:
                await editor.load(info.session_id)  # nobody holds on to it


class ForgetfulStore(MemoryStore):
    """Its list is damaged, and so is what was kept beside the updates."""

    async def info(self, session_id: str) -> Any:
        raise StoreError("the entry is damaged")


async def test_a_damaged_entry_costs_the_entry_and_not_the_session(tmp_path: Path) -> None:
    store = ForgetfulStore()
    async with asyncio.timeout(5), editor_for(keeping_agent(store), tmp_path) as editor:
        session = await editor.new()
        await editor.prompt(session, "hi")
        await editor.close(session)
        async with await store.open(session) as log:
            log.save_state("duologue", b"not what was written")
        editor.updates.clear()
        await editor.load(session)
        assert without_ids(editor.updates) == TOLD


class FullStore(MemoryStore):
    """A disk that fills up when told."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    async def hold(self, session_id: str, *, new: Any = None) -> Any:
        shelf: Any = await super().hold(session_id, new=new)
        write = shelf.write

        def write_if_room(batch: Any) -> asyncio.Future[None]:
            if not self.is_full:
                return write(batch)  # type: ignore[no-any-return]
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreFull("no space left"))
            return failed

        shelf.write = write_if_room
        return shelf


async def test_a_turn_that_cannot_be_kept_says_so_unless_it_was_cancelled_and_saving_resumes(tmp_path: Path) -> None:
    store = FullStore()
    async with asyncio.timeout(10), editor_for(keeping_agent(store), tmp_path) as editor:
        session = await editor.new()
        store.is_full = True
        with pytest.raises(InternalError, match=r"could not be kept.*no space left"):
            await editor.prompt(session, "hi")
        turn = asyncio.ensure_future(editor.prompt(session, "wait"))
        await editor.until(lambda: editor.of(v1.ToolCall)[-1].title == "Wait")
        await editor.cancel(session)
        assert (await turn).stop_reason == "cancelled"

        store.is_full = False
        assert (await editor.prompt(session, "hi")).stop_reason == "end_turn"
        editor.updates.clear()
        await editor.load(session)
        assert [update.content.text for update in editor.of(v1.UserMessageChunk)] == ["hi", "wait", "hi"]


async def test_state_that_is_no_json_fails_its_turn_and_nothing_else(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        turn.session.state["bad"] = object() if turn.text == "bad" else 1

    agent = agent_with(answer)
    agent.keep_sessions(MemoryStore())
    async with asyncio.timeout(5), editor_for(agent, tmp_path) as editor:
        session = await editor.new()
        with pytest.raises(InternalError, match="could not be kept"):
            await editor.prompt(session, "bad")
        assert (await editor.prompt(session, "good")).stop_reason == "end_turn"
        with pytest.raises(InternalError):
            await editor.prompt(session, "bad")
        await editor.close(session)
