"""A turn whose events are not read to the end, without `async with`: what its caller does next cancels it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from duologue import sync
from duologue.client.connect import connect
from duologue.client.session import ClientSession
from duologue.client.turn import ClientTurn
from duologue.errors import EventBufferOverflow
from duologue.events import Event, Text
from tests.client.scripted_agent import Json, ScriptedAgent, result, text_chunk

pytestmark = [pytest.mark.timeout(60), pytest.mark.fault("CAN-15")]


class Endless(ScriptedAgent):
    """Sends chunks until it is cancelled if the prompt is `talk`; ends at once otherwise."""

    def __init__(self) -> None:
        super().__init__({"sessionCapabilities": {"close": {}}}, prompt=self._prompt)

    async def _prompt(self, params: Json) -> Json:
        text = params["prompt"][0]["text"]
        self.update(text_chunk(text))
        if text != "talk":
            return result(stopReason="end_turn")
        before = len(self.calls("session/cancel"))
        for _ in range(1000):
            self.update(text_chunk("x" * 65536))  # far more than may wait for a reader
            if self.transport.is_congested:
                await self.transport.drain()
            if len(self.calls("session/cancel")) > before:
                break
        await self.until("session/cancel", before + 1)
        return result(stopReason="cancelled")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def is_logged_once(caplog: pytest.LogCaptureFixture) -> bool:
    return sum("not read to the end" in text for text in warnings(caplog)) == 1


async def leave(turn: ClientTurn) -> AsyncIterator[Event]:
    """Read one event; the iterator is kept, so that no garbage collection closes it."""
    events = aiter(turn)
    await anext(events)
    return events


async def test_the_next_prompt_cancels_a_turn_that_was_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent = Endless()
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turn = session.prompt("talk")
        iterator = await leave(turn)
        assert await session.ask("short") == "short"

        assert turn.stop_reason == "cancelled"
        assert [event async for event in iterator] == []
    assert len(agent.calls("session/cancel")) == 1
    assert is_logged_once(caplog)


async def test_a_loop_that_is_left_with_break_is_a_turn_that_was_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(60), connect(Endless()) as remote, remote.new_session(tmp_path) as session:
        for _ in range(3):
            async for _event in session.prompt("talk"):
                break
        assert await session.ask("short") == "short"
    assert sum("not read to the end" in text for text in warnings(caplog)) == 3


async def test_a_loop_that_is_cancelled_is_a_turn_that_was_left(tmp_path: Path) -> None:
    async def quiet(params: Json) -> Json:
        await agent.until("session/cancel")
        return result(stopReason="cancelled")

    agent = ScriptedAgent(prompt=quiet)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turn = session.prompt("hm")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                async for _event in turn:
                    pass
        await session.prompt("again")
        assert turn.stop_reason == "cancelled"


async def test_closing_the_session_cancels_a_turn_that_was_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Endless()
    async with asyncio.timeout(60), connect(agent) as remote:
        session = await remote.new_session(tmp_path)
        turn = session.prompt("talk")
        iterator = await leave(turn)
        await session.aclose()
        assert turn.stop_reason == "cancelled"
        assert [message["method"] for message in agent.received][-2:] == ["session/cancel", "session/close"]
        del iterator
    assert is_logged_once(caplog)


async def test_leaving_connect_cancels_a_turn_that_was_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent = Endless()
    async with asyncio.timeout(60):
        async with connect(agent) as remote:
            turn = (await remote.new_session(tmp_path)).prompt("talk")
            iterator = await leave(turn)
    assert turn.stop_reason == "cancelled"
    assert len(agent.calls("session/cancel")) == 1
    assert is_logged_once(caplog)
    del iterator


async def test_a_reader_whose_task_has_ended_has_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(60), connect(Endless()) as remote, remote.new_session(tmp_path) as session:
        turn = session.prompt("talk")
        iterator = await asyncio.create_task(leave(turn))
        assert await session.ask("short") == "short"
        assert turn.stop_reason == "cancelled"
        del iterator
    assert is_logged_once(caplog)


# --- what is not left


async def in_a_task_of_its_own(session: ClientSession, turn: ClientTurn) -> list[str]:
    """Prompt from another task while this one is in the body of its loop."""
    texts: list[str] = []
    others: list[asyncio.Task[str]] = []
    async for event in turn:
        if not texts:
            others.append(asyncio.create_task(session.ask("short")))
            await asyncio.sleep(0)
        assert isinstance(event, Text)
        texts.append(event.text)
    assert await others[0] == "short"
    return texts


async def within_async_with(session: ClientSession, turn: ClientTurn) -> list[str]:
    """Prompt in the very body of the loop; the turn is not left before its block is."""
    texts: list[str] = []
    async with turn:
        async for event in turn:
            if not texts:
                assert await session.ask("short") == "short"
            assert isinstance(event, Text)
            texts.append(event.text)
    return texts


async def one_event_per_task(session: ClientSession, turn: ClientTurn) -> list[str]:
    """Read each event in a task that ends, as `wait_for` does."""
    events, texts, others = aiter(turn), list[str](), list[asyncio.Task[str]]()
    while (event := await asyncio.create_task(next_or_none(events))) is not None:
        if not texts:
            others.append(asyncio.create_task(session.ask("short")))
            await asyncio.sleep(0)
        assert isinstance(event, Text)
        texts.append(event.text)
    assert await others[0] == "short"
    return texts


async def next_or_none(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)


@pytest.mark.parametrize("read", [in_a_task_of_its_own, within_async_with, one_event_per_task])
async def test_a_turn_that_is_still_read_is_not_cancelled_by_the_next_prompt(
    read: Callable[[ClientSession, ClientTurn], Awaitable[list[str]]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def prompt(params: Json) -> Json:
        text = params["prompt"][0]["text"]
        agent.update(*[text_chunk(text)] * (1 if text == "short" else 600))
        return result(stopReason="end_turn")

    agent = ScriptedAgent(prompt=prompt)
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turn = session.prompt("long")
        assert await read(session, turn) == ["long"] * 600
        assert turn.stop_reason == "end_turn"
    assert warnings(caplog) == []


async def test_turns_that_are_begun_and_not_read_yet_are_not_left(tmp_path: Path) -> None:
    async with asyncio.timeout(60), connect(Endless()) as remote, remote.new_session(tmp_path) as session:
        both = [aiter(session.prompt(text)) for text in ("one", "two")]
        texts = [[event.text async for event in events if isinstance(event, Text)] for events in both]
    assert texts == [["one"], ["two"]]


# --- without an event loop


def test_a_blocking_loop_that_was_left_is_cancelled_by_the_next_prompt_of_its_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with sync.connect(Endless()) as agent, agent.new_session(tmp_path) as session:
        turn = session.prompt("talk")
        iterator = iter(turn)
        next(iterator)
        assert session.ask("short") == "short"
        assert turn.stop_reason == "cancelled"
        del iterator
    assert is_logged_once(caplog)


def test_a_blocking_loop_is_not_cancelled_by_the_prompt_of_another_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[str] = []
    with sync.connect(Endless()) as agent, agent.new_session(tmp_path) as session:
        other = threading.Thread(target=lambda: answers.append(session.ask("two")))
        texts: list[str] = []
        for event in session.prompt("one"):
            if not texts:
                other.start()
            assert isinstance(event, Text)
            texts.append(event.text)
        other.join()
    assert (texts, answers) == (["one"], ["two"])
    assert warnings(caplog) == []


async def test_an_iterator_that_was_never_used_is_a_turn_that_was_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Endless()
    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turn = session.prompt("talk")
        iterator = aiter(turn)
        assert await session.ask("short") == "short"

        assert turn.stop_reason == "cancelled"
        assert [event async for event in iterator] == []
    assert is_logged_once(caplog)


async def test_an_iterator_given_to_a_task_that_has_not_begun_is_not_left(tmp_path: Path) -> None:
    async def read(events: AsyncIterator[Event]) -> int:
        return len([event async for event in events])

    async with asyncio.timeout(60), connect(Endless()) as remote, remote.new_session(tmp_path) as session:
        turn = session.prompt("one")
        reading = asyncio.create_task(read(aiter(turn)))
        assert await session.ask("two") == "two"

        assert await reading == 1
        assert turn.stop_reason == "end_turn"


async def test_a_prompt_of_another_task_is_not_held_up_by_a_reader_that_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = ScriptedAgent(prompt=lambda params: flood(agent, params))
    resume = asyncio.Event()

    async def read_one(turn: ClientTurn) -> None:
        events = aiter(turn)
        await anext(events)
        await resume.wait()
        with pytest.raises(EventBufferOverflow):
            async for _ in events:
                pass

    async with asyncio.timeout(60), connect(agent) as remote, remote.new_session(tmp_path) as session:
        turn = session.prompt("much")
        reading = asyncio.create_task(read_one(turn))
        await agent.until("session/prompt")
        assert await session.ask("short") == "short"
        resume.set()
        await reading
        assert turn.stop_reason == "end_turn"
    assert any("were dropped" in text for text in warnings(caplog))


async def flood(agent: ScriptedAgent, params: Json) -> Json:
    """Say what was asked, and before that 48 MiB if it was `much`."""
    text = params["prompt"][0]["text"]
    for _ in range(768 if text == "much" else 0):
        agent.update(text_chunk("x" * 65536))
        if agent.transport.is_congested:
            await agent.transport.drain()
    agent.update(text_chunk(text))
    return result(stopReason="end_turn")
