"""Every queue has a bound, and no bound can wedge a conversation."""

from __future__ import annotations

import asyncio

import pytest

from duologue.errors import ConnectionLost, Deadlock, PeerTooFast
from duologue.runtime.handlers import Context, Handlers
from tests.runtime.vocabulary import NEW, PING, PROMPT, UPDATE, Nothing, Ping, Scoped, Update, talk

BIG = "x" * 1000


def flooding_agent(count: int, sent: list[int]) -> Handlers:
    handlers = Handlers()

    @handlers.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        for _ in range(count):
            await context.connection.notify(UPDATE, Update(session_id=params.session_id, text=BIG))
            sent[0] += 1
        return Ping()

    @handlers.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return params

    return handlers


async def test_a_slow_consumer_pauses_reading_and_loses_nothing() -> None:
    client_side = Handlers()
    sent, handled, most = [0], 0, 0

    async with (
        asyncio.timeout(10),
        talk(client_side, flooding_agent(2000, sent), max_incoming_bytes=20_000) as (client, _),
    ):

        @client_side.on(UPDATE)
        async def update(context: Context, params: Update) -> None:
            nonlocal handled, most
            await asyncio.sleep(0)
            handled += 1
            most = max(most, client._lanes.queued_bytes)

        await client.request(PROMPT, Update(session_id="s", text=""))
        assert handled == 2000
        assert most < 20_000 + 100_000  # the bound, and one read beyond it


async def test_a_handler_that_calls_the_peer_from_a_full_lane_gets_its_answer() -> None:
    client_side = Handlers()
    sent, answers = [0], 0

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        nonlocal answers
        if await context.connection.request(PING, Ping(text="?")) == Ping(text="?"):
            answers += 1

    async with (
        asyncio.timeout(10),
        talk(client_side, flooding_agent(100, sent), max_incoming_bytes=50_000) as (client, _),
    ):
        await client.request(PROMPT, Update(session_id="s", text=""))
        assert answers == 100


async def test_a_loop_over_one_session_may_wait_for_another_while_its_own_lane_is_full() -> None:
    """The case that decides when reading may pause: the consumer of one lane waits for what stands behind it."""
    client_side = Handlers()
    queue: asyncio.Queue[str] = asyncio.Queue(1)
    sent = [0]

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        if params.session_id == "read by a loop":
            await queue.put(params.text)

    async with (
        asyncio.timeout(10),
        talk(client_side, flooding_agent(60, sent), max_incoming_bytes=20_000) as (client, _),
    ):
        turn = asyncio.ensure_future(client.request(PROMPT, Update(session_id="read by a loop", text="")))
        for number in range(60):
            await queue.get()
            if number == 10:
                await client.request(PROMPT, Update(session_id="another", text=""))
                await client.request(PING, Ping())
        await turn


@pytest.mark.fault("PRC-10")
async def test_input_beyond_the_hard_mark_ends_the_connection_with_a_named_error() -> None:
    client_side = Handlers()
    never = asyncio.Event()
    sent = [0]

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        await never.wait()

    async with (
        asyncio.timeout(10),
        talk(client_side, flooding_agent(5000, sent), max_incoming_bytes=20_000) as (client, agent),
    ):

        @agent.handlers.on(PING)
        async def ping(context: Context, params: Ping) -> Ping:
            await never.wait()
            return params

        starving = asyncio.ensure_future(client.request(PING, Ping()))
        with pytest.raises(ConnectionLost):
            await client.request(PROMPT, Update(session_id="s", text=""))
        with pytest.raises(PeerTooFast, match="wait to be handled"):
            await starving
        never.set()


async def test_at_most_max_pending_requests_of_ours_are_in_flight() -> None:
    agent_side = Handlers()
    running = most = 0

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return params

    async with asyncio.timeout(10), talk(None, agent_side, max_pending=8) as (client, _):
        answers = await asyncio.gather(*(client.request(PING, Ping(text=str(n))) for n in range(100)))
        assert [answer.text for answer in answers] == [str(n) for n in range(100)]
        assert most <= 8


async def test_updates_held_back_for_an_unanswered_new_session_are_bounded() -> None:
    agent_side = Handlers()

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        with pytest.raises(Deadlock, match="return that answer first"):
            for _ in range(100):
                await context.connection.notify(UPDATE, Update(session_id="fresh", text=BIG))
        return Scoped(session_id="fresh")

    async with asyncio.timeout(10), talk(None, agent_side, max_incoming_bytes=20_000) as (client, _):
        assert (await client.request(NEW, Nothing())).session_id == "fresh"
