"""Steering on the agent's side: each text is taken by the running turn, or is the client's again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn, connect
from duologue.agent.turns.steering import MAX_WAITING
from duologue.errors import InternalError, InvalidParams, MethodNotFound
from duologue.protocol.steering import PROMPT_REQUIRED_META
from duologue.store.memory import MemoryStore
from duologue.types import ClientTurn, ImageContent, RequestMeta, SteeringMessage, TextContent
from tests.agent.wire_client import raw_client

pytestmark = pytest.mark.timeout(60)

VERSIONS = pytest.mark.parametrize("version", [1, 2])


def steered_agent(**options: Any) -> Agent[Any]:
    return Agent("steered", steering=True, protocol_versions=(1, 2), **options)


def messages_of(turn: ClientTurn) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in turn.session.transcript.messages]


def texts_received(agent: Agent[Any]) -> asyncio.Semaphore:
    """Return a semaphore that is released for each text that the agent gets."""
    arrived = asyncio.Semaphore(0)

    @agent.on_request
    def count(request: RequestMeta) -> None:
        if request.method == "_session/steering":
            arrived.release()

    return arrived


async def taken(turn: Turn[Any]) -> SteeringMessage:
    """Take one text, as soon as there is one."""
    return await anext(aiter(turn.steering()))


@VERSIONS
async def test_a_text_that_the_handler_takes_is_part_of_the_turn_where_it_was_taken(
    tmp_path: Path, version: int
) -> None:
    agent = steered_agent()

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await turn.say("with unittest")
        message = await taken(turn)
        await turn.say(f"now: {message.text}")

    async with connect(agent, protocol_versions=(version,)) as remote, remote.new_session(tmp_path) as session:
        assert remote.capabilities.steering
        async with session.prompt("write a test") as turn:
            result = await turn.steer("use pytest")

        assert (result.outcome, result.reason, result.turn) == ("injected", None, None)
        assert result.is_taken
        assert messages_of(turn) == [
            ("user", "write a test"),
            ("agent", "with unittest"),
            ("user", "use pytest"),
            ("agent", "now: use pytest"),
        ]
        assert session.transcript.messages[2].meta == {"steering": {"injected": True}}


async def test_texts_wait_until_the_handler_looks_and_keep_their_order(tmp_path: Path) -> None:
    agent, looks = steered_agent(), asyncio.Event()
    arrived = texts_received(agent)

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        assert await turn.take_steering() == []
        await looks.wait()
        await turn.say(" ".join(message.text for message in await turn.take_steering()))

    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn, asyncio.TaskGroup() as group:
            sent = [group.create_task(turn.steer(text)) for text in ("one", "two", "three")]
            for _ in sent:
                await arrived.acquire()
            looks.set()
        assert [each.result().outcome for each in sent] == ["injected"] * 3
        assert turn.text == "one two three"


@VERSIONS
async def test_a_text_that_the_handler_never_takes_is_the_clients_again_when_the_turn_ends(
    tmp_path: Path, version: int
) -> None:
    agent, ends = steered_agent(), asyncio.Event()
    arrived = texts_received(agent)

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await ends.wait()

    async with connect(agent, protocol_versions=(version,)) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn, asyncio.TaskGroup() as group:
            steering = group.create_task(turn.steer("faster"))
            await arrived.acquire()
            ends.set()
        result = steering.result()
        assert (result.outcome, result.reason) == ("prompt_required", "noRunningTurn")
        assert messages_of(turn) == [("user", "go")]


async def test_more_texts_than_the_bound_are_the_clients_again_at_once(tmp_path: Path) -> None:
    agent, ends = steered_agent(), asyncio.Event()
    arrived = texts_received(agent)

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await ends.wait()
        assert len(await turn.take_steering()) == MAX_WAITING

    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn, asyncio.TaskGroup() as group:
            sent = [group.create_task(turn.steer(str(number))) for number in range(MAX_WAITING)]
            for _ in sent:
                await arrived.acquire()
            result = await turn.steer("one too many")
            assert (result.outcome, result.reason) == ("prompt_required", "queueFull")
            ends.set()
        assert {each.result().outcome for each in sent} == {"injected"}


async def test_a_handler_of_its_own_takes_the_texts_or_says_that_they_came_too_late(tmp_path: Path) -> None:
    agent, ends = Agent[Any]("steered"), asyncio.Event()

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await ends.wait()

    @agent.on_steer
    async def steer(turn: Turn[Any], message: SteeringMessage) -> bool | None:
        if message.text == "fail":
            raise ValueError("no")
        if message.text == "exit":
            raise SystemExit
        await turn.say(f"[{message.text}]")
        return None if message.text == "yes" else False

    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            assert (await turn.steer("yes")).outcome == "injected"
            assert (await turn.steer("no")).outcome == "prompt_required"
            for text in ("fail", "exit"):
                with pytest.raises(InternalError):
                    await turn.steer(text)
            ends.set()
        assert turn.text == "[yes][no]"
        assert ("user", "yes") in messages_of(turn)
        assert ("user", "no") not in messages_of(turn)


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_a_handler_that_outlives_the_turn_is_cancelled_and_its_text_is_the_clients_again(
    tmp_path: Path, is_stubborn: bool
) -> None:
    agent, begun, freed = Agent[Any]("steered", cancel_timeout=0.05), asyncio.Event(), asyncio.Event()

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await begun.wait()

    @agent.on_steer
    async def steer(turn: Turn[Any], message: SteeringMessage) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            if is_stubborn:
                await freed.wait()

    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            assert (await turn.steer("hm")).outcome == "prompt_required"
        freed.set()


async def test_only_an_agent_that_takes_texts_advertises_and_serves_it(tmp_path: Path) -> None:
    plain = Agent[Any]("plain")

    @plain.on_prompt
    async def work(turn: Turn[Any]) -> None: ...

    async with connect(plain) as remote, remote.new_session(tmp_path) as session:
        assert not remote.capabilities.steering
        with pytest.raises(MethodNotFound):
            await remote.call("_session/steering", {"sessionId": session.id, "prompt": []})
        async with session.prompt("go") as turn:
            assert (await turn.steer("x")).outcome == "not_supported"


async def test_unsuitable_texts_are_rejected_before_the_turn_sees_them(tmp_path: Path) -> None:
    agent, ends = steered_agent(), asyncio.Event()

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await ends.wait()
        assert await turn.take_steering() == []

    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
            for prompt in ([], [image]):
                with pytest.raises(InvalidParams):
                    await remote.call("_session/steering", {"sessionId": session.id, "prompt": prompt})
            with pytest.raises(InvalidParams):
                await turn.steer(ImageContent("aGk=", "image/png"))
            ends.set()


async def test_a_cancelled_turn_takes_nothing_and_no_text_is_lost(tmp_path: Path) -> None:
    agent = steered_agent()
    arrived = texts_received(agent)

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await asyncio.Event().wait()

    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn, asyncio.TaskGroup() as group:
            steering = group.create_task(turn.steer("x"))
            await arrived.acquire()
            await turn.cancel()
        assert steering.result().outcome == "prompt_required"
        assert turn.stop_reason == "cancelled"


@VERSIONS
@pytest.mark.parametrize("steps", range(6))
async def test_cancelling_the_task_that_reads_texts_loses_none(tmp_path: Path, steps: int, version: int) -> None:
    agent = steered_agent()
    arrived, seen = texts_received(agent), list[str]()

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        async def read() -> None:
            async for message in turn.steering():
                seen.insert(0, message.text)

        reading = turn.session.tasks.start(read())
        await arrived.acquire()
        for _ in range(steps):  # the reader takes the text in one of them
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading})

    async with connect(agent, protocol_versions=(version,)) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("go") as turn:
            result = await turn.steer("x")
        assert result.outcome == ("injected" if seen else "prompt_required")


async def test_a_client_that_does_not_know_prompt_required_gets_failed(tmp_path: Path) -> None:
    agent = steered_agent()

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None: ...

    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        params = {"sessionId": session.id, "prompt": [{"type": "text", "text": "x"}]}
        assert await remote.call("_session/steering", params) == {"outcome": "failed", "reason": "noRunningTurn"}
        opted = await remote.call("_session/steering", {**params, "_meta": PROMPT_REQUIRED_META})
        assert opted == {"outcome": "promptRequired", "reason": "noRunningTurn"}


@VERSIONS
async def test_a_steered_text_is_a_message_of_the_user_in_the_stored_session(tmp_path: Path, version: int) -> None:
    store = MemoryStore()
    agent = steered_agent(store=store)
    history: list[Any] = []

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        if turn.text == "what was said":
            history.extend([update async for update in turn.session.history()])
            return
        await turn.say("one")
        await taken(turn)
        await turn.say("two")

    async with connect(agent, protocol_versions=(version,)) as remote:
        async with remote.new_session(tmp_path) as session:
            async with session.prompt("go") as turn:
                await turn.steer("use pytest")
            saved = messages_of(turn)
        async with remote.load_session(session.id, tmp_path) as again:
            assert [(each.role, each.text) for each in again.transcript.messages] == saved
            assert again.transcript.messages[2].meta == {"steering": {"injected": True}}
            await again.prompt("what was said")
    texts = [update.content.text for update in history if isinstance(update.content, TextContent)]
    assert texts[:4] == ["go", "one", "use pytest", "two"]


async def test_the_wire_has_the_request_of_the_official_adapters(tmp_path: Path) -> None:
    agent = steered_agent()

    @agent.on_prompt
    async def work(turn: Turn[Any]) -> None:
        await taken(turn)

    async with raw_client(agent) as client:
        welcome = await client.initialize()
        assert welcome["result"]["_meta"] == {"steering": {"supported": True}}
        opened = await client.ask(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        params = {"sessionId": opened["result"]["sessionId"], "prompt": [{"type": "text", "text": "x"}]}
        client.send(id=3, method="session/prompt", params=params)
        answer = await client.ask(4, "_session/steering", params)
        assert answer["result"] == {"outcome": "injected"}
