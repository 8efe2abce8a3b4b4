"""One place per session, turns that were cut off, and disks that are slow, full or damaged."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from duologue.agent.session import Session
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.updates import ToolCallUpdate
from duologue.errors import InternalError, InvalidRequest, StoreError, StoreFull
from duologue.schema import v1
from duologue.store.memory import MemoryStore
from duologue.store.session_log import SessionLog
from duologue.store.sqlite.store import SqliteStore
from tests.agent.persistent_agent import REPLAYED, persistent_agent, without_ids
from tests.agent.wire_client import agent_with, client_for


@pytest.mark.fault("LIF-07")
async def test_a_session_is_open_in_one_place(tmp_path: Path) -> None:
    """In the wild, agents 4: `session/load` with the same id from two connections."""
    agent = persistent_agent(unstable={"archive"})
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client, client_for(agent, tmp_path) as other:
        session = await client.new()
        await client.prompt(session, "hi")
        for attempt in (other.load(session), other.resume(session), other.delete(session)):
            with pytest.raises(InvalidRequest, match="in use") as caught:
                await attempt
            assert caught.value.data == {"sessionId": session}
        with pytest.raises(InvalidRequest, match="in use"):
            await other.connection.request(v1.SESSION_ARCHIVE, v1.ArchiveSessionRequest(session_id=session))
        assert other.updates == []

        await client.close(session)
        await other.load(session)
        assert without_ids(other.updates) == REPLAYED


@pytest.mark.fault("LIF-07")
async def test_loading_twice_at_once_tells_it_once_and_refuses_the_second(tmp_path: Path) -> None:
    agent = persistent_agent()
    is_slow, may_open = False, asyncio.Event()

    @agent.on_open
    async def wait(session: Session[Settings]) -> None:
        if is_slow:
            await may_open.wait()

    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        await client.prompt(session, "hi")
        await client.close(session)
        client.updates.clear()
        is_slow = True
        first = asyncio.ensure_future(client.load(session))
        await client.until_updates(v1.ToolCall)
        with pytest.raises(InvalidRequest, match="in use"):
            await client.load(session)
        may_open.set()
        await first

        assert without_ids(client.updates) == REPLAYED


@pytest.mark.fault("STO-16")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_turn_cut_off_by_the_end_of_its_client_is_kept_and_marked(tmp_path: Path, kind: str) -> None:
    """In the wild, agents 2: the stream closed in mid-turn."""
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "kept")
    logs: list[SessionLog] = []

    async def work(turn: Turn[Settings]) -> None:
        await turn.say("working")
        await turn.update(ToolCallUpdate(is_new=True, tool_call_id="t", title="Work", status="in_progress"))
        if turn.text == "cut":
            await asyncio.Event().wait()

    agent = agent_with(work)
    agent.persist_sessions(store)
    async with asyncio.timeout(60):
        async with client_for(agent, tmp_path) as client:
            session = await client.new()
            turn = asyncio.ensure_future(client.prompt(session, "cut"))
            await client.until_updates(v1.ToolCall)
        with pytest.raises(Exception, match="closed"):
            await turn
        logs.append(await store.open(session))
        assert logs[0].is_interrupted
        await logs[0].aclose()

        async with client_for(agent, tmp_path) as client:
            await client.load(session)
            assert [type(update) for update in client.updates] == [
                v1.UserMessageChunk,
                v1.AgentMessageChunk,
                v1.ToolCall,
            ]
            assert client.of(v1.ToolCall)[0].status == "failed"
            assert (await client.prompt(session, "go on")).stop_reason == "end_turn"
    await store.aclose()


async def test_the_next_client_need_not_wait_for_the_last_to_be_cleared_away(tmp_path: Path) -> None:
    """`session in use` unless the first connection is gone."""
    agent = persistent_agent()
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
    async with asyncio.timeout(60), client_for(agent, tmp_path) as second:
        async with client_for(agent, tmp_path) as first:
            session = await first.new()
            turn = asyncio.ensure_future(first.prompt(session, "wait"))
            await first.until_updates(v1.AgentMessageChunk)
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
    async with asyncio.timeout(60), client_for(persistent_agent(store), tmp_path) as client:
        session = await client.new()
        await client.close(session)
        async with await store.open(session):
            with pytest.raises(InvalidRequest, match="in use"):
                await getattr(client, method)(session)
            with pytest.raises(InvalidRequest, match="in use"):
                await client.delete(session)
        await getattr(client, method)(session)


async def test_a_client_that_leaves_while_its_session_is_being_opened_leaves_none(tmp_path: Path) -> None:
    agent = persistent_agent()
    opening, go_on = asyncio.Event(), asyncio.Event()

    @agent.on_open
    async def wait(session: Session[Settings]) -> None:
        opening.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                go_on.set()

    async with asyncio.timeout(60):
        async with client_for(agent, tmp_path) as client:
            attempt = asyncio.ensure_future(client.new())
            await opening.wait()
        with pytest.raises(Exception, match="closed"):
            await attempt
        assert agent._open_sessions == {}
        async with client_for(agent, tmp_path) as client:
            for info in (await client.sessions_page()).sessions:
                await client.load(info.session_id)  # no lock is left


class ForgetfulStore(MemoryStore):
    """The list is damaged, and so is the state that is stored with the updates."""

    async def info(self, session_id: str) -> Any:
        raise StoreError("the entry is damaged")


async def test_a_damaged_entry_costs_the_entry_and_not_the_session(tmp_path: Path) -> None:
    store = ForgetfulStore()
    async with asyncio.timeout(60), client_for(persistent_agent(store), tmp_path) as client:
        session = await client.new()
        await client.prompt(session, "hi")
        await client.close(session)
        async with await store.open(session) as log:
            log.save_state("duologue", b"not what was written")
        client.updates.clear()
        await client.load(session)
        assert without_ids(client.updates) == REPLAYED


class SlowStore(MemoryStore):
    """A disk that writes nothing until the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[asyncio.Future[None]] = []
        self.is_slow = False

    async def acquire(self, session_id: str, *, new: Any = None) -> Any:
        records: Any = await super().acquire(session_id, new=new)
        write = records.write

        def write_later(batch: Any) -> asyncio.Future[None]:
            written: asyncio.Future[None] = write(batch)
            if not self.is_slow:
                return written
            self.waiting.append(asyncio.get_running_loop().create_future())
            return self.waiting[-1]

        records.write = write_later
        return records

    def finish(self) -> None:
        for future in self.waiting:
            future.set_result(None)
        self.waiting.clear()


async def test_a_question_the_end_of_a_tool_call_and_the_answer_wait_until_all_before_them_is_safe(
    tmp_path: Path,
) -> None:
    async def work(turn: Turn[Settings]) -> None:
        await turn.say("not yet safe")
        async with turn.tool("Work") as tool:
            await tool.request_permission()

    store = SlowStore()
    agent = agent_with(work)
    agent.persist_sessions(store)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        client.answer_permission()
        session = await client.new()
        store.is_slow = True
        turn = asyncio.ensure_future(client.prompt(session, "go"))
        written = ["agent_message_chunk", "tool_call"]
        for step in (
            ["session/request_permission", "tool_call_update"],
            ["tool_call_update"],
            ["answer to session/prompt"],
        ):
            while not store.waiting:  # noqa: ASYNC110
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
            assert client.validator.order()[2:] == written
            store.finish()
            written += step
        await turn
        assert client.validator.order()[2:] == written
        store.is_slow = False


async def test_late_updates_of_a_cancelled_turn_are_saved_and_come_before_its_response(tmp_path: Path) -> None:
    async def work(turn: Turn[Settings]) -> None:
        async with turn.tool("One"), turn.tool("Two"):
            await asyncio.Event().wait()

    store = SqliteStore(tmp_path / "kept")
    agent = agent_with(work)
    agent.persist_sessions(store)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        for _ in range(10):
            turn = asyncio.ensure_future(client.prompt(session, "go"))
            count = len(client.of(v1.ToolCall))
            await client.until_updates(v1.ToolCall, count + 2)
            await client.cancel(session)
            assert (await turn).stop_reason == "cancelled"
            assert client.validator.order()[-3:] == ["tool_call_update"] * 2 + ["answer to session/prompt"]
        client.updates.clear()
        await client.load(session)
        assert [call.status for call in client.of(v1.ToolCall)] == ["failed"] * 20
    await store.aclose()


class FullStore(MemoryStore):
    """A disk that fills up on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    async def acquire(self, session_id: str, *, new: Any = None) -> Any:
        records: Any = await super().acquire(session_id, new=new)
        write = records.write

        def write_if_possible(batch: Any) -> asyncio.Future[None]:
            if not self.is_full:
                return write(batch)  # type: ignore[no-any-return]  # the store has its own type for it
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreFull("no space left"))
            return failed

        records.write = write_if_possible
        return records


async def test_a_turn_that_cannot_be_kept_says_so_unless_it_was_cancelled_and_saving_resumes(tmp_path: Path) -> None:
    store = FullStore()
    async with asyncio.timeout(60), client_for(persistent_agent(store), tmp_path) as client:
        session = await client.new()
        store.is_full = True
        with pytest.raises(InternalError, match=r"could not be stored.*no space left"):
            await client.prompt(session, "hi")
        turn = asyncio.ensure_future(client.prompt(session, "wait"))
        await client.until(lambda: client.of(v1.ToolCall)[-1].title == "Wait")
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"

        store.is_full = False
        assert (await client.prompt(session, "hi")).stop_reason == "end_turn"
        client.updates.clear()
        await client.load(session)
        assert [update.content.text for update in client.of(v1.UserMessageChunk)] == ["hi", "wait", "hi"]


async def test_state_that_is_no_json_fails_its_turn_and_nothing_else(tmp_path: Path) -> None:
    async def answer(turn: Turn[Settings]) -> None:
        turn.session.state["bad"] = object() if turn.text == "bad" else 1

    agent = agent_with(answer)
    agent.persist_sessions(MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        session = await client.new()
        with pytest.raises(
            InternalError, match=r"could not be stored: `session.state\['bad'\]` cannot be stored as JSON"
        ):
            await client.prompt(session, "bad")
        assert (await client.prompt(session, "good")).stop_reason == "end_turn"
        with pytest.raises(InternalError):
            await client.prompt(session, "bad")
        await client.close(session)


async def test_a_state_that_json_changes_is_a_warning_with_its_key_and_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values: list[Any] = [{1, 2}, (1, 2), {1: "x"}, float("nan"), [1, 2.5, None, "é", {"deep": [True]}]]

    async def answer(turn: Turn[Settings]) -> None:
        turn.session.state.update({f"value {index}": value for index, value in enumerate(values)})
        turn.session.state["turn"] = turn.text

    agent = agent_with(answer, store=MemoryStore())
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        session = await client.new()
        for text in ("one", "two"):
            await client.prompt(session, text)

    warned = re.findall(r"`session.state\['(.*)'\]` will be another value", caplog.text)
    assert warned == ["value 0", "value 1", "value 2", "value 3"]
