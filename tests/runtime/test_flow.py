"""Flow control: every queue is bounded, and no bound can block a conversation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from duologue.errors import ConnectionLost, Deadlock, InputLimitExceeded, InternalError, ProtocolViolation
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Notification
from duologue.transports.memory import memory_pair
from tests.runtime.messages import FORK, NEW, PING, PROMPT, UPDATE, Nothing, Ping, Scoped, Update, connected_pair, frame

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
        asyncio.timeout(60),
        connected_pair(client_side, flooding_agent(2000, sent), max_incoming_bytes=20_000) as (client, _),
    ):

        @client_side.on(UPDATE)
        async def update(context: Context, params: Update) -> None:
            nonlocal handled, most
            await asyncio.sleep(0)
            handled += 1
            most = max(most, client._queues.queued_bytes)

        await client.request(PROMPT, Update(session_id="s", text=""))
        assert handled == 2000
        assert most < 20_000 + 100_000  # the bound, and one read beyond it


async def test_unread_events_pause_reading_although_no_handler_is_behind() -> None:
    client_side = Handlers()
    handled: asyncio.Queue[str] = asyncio.Queue()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        handled.put_nowait(params.text)

    async with asyncio.timeout(60), connected_pair(client_side, max_incoming_bytes=10_000) as (client, agent):
        client.internals.unread.add("s", ["unread"], 20_000, lambda: None)
        for text in ("on its way", "behind"):
            await agent.notify(UPDATE, Update(session_id="s", text=text))
            for _ in range(100):
                await asyncio.sleep(0)
        assert client.is_paused
        assert handled.get_nowait() == "on its way"
        assert handled.empty()
        client.internals.unread.remove("s", 20_000)
        assert await handled.get() == "behind"


async def test_a_handler_that_calls_the_peer_from_a_full_queue_gets_its_response() -> None:
    client_side = Handlers()
    sent, answers = [0], 0

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        nonlocal answers
        if await context.connection.request(PING, Ping(text="?")) == Ping(text="?"):
            answers += 1

    async with (
        asyncio.timeout(60),
        connected_pair(client_side, flooding_agent(100, sent), max_incoming_bytes=50_000) as (client, _),
    ):
        await client.request(PROMPT, Update(session_id="s", text=""))
        assert answers == 100


async def test_a_reader_of_one_session_may_wait_for_another_while_its_own_queue_is_full() -> None:
    """The case that decides when reading may pause: the consumer of one lane waits for what stands behind it."""
    client_side = Handlers()
    queue: asyncio.Queue[str] = asyncio.Queue(1)
    sent = [0]

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        if params.session_id == "read by a loop":
            await queue.put(params.text)

    async with (
        asyncio.timeout(60),
        connected_pair(client_side, flooding_agent(60, sent), max_incoming_bytes=20_000) as (client, _),
    ):
        turn = asyncio.ensure_future(client.request(PROMPT, Update(session_id="read by a loop", text="")))
        for number in range(60):
            await queue.get()
            if number == 10:
                await client.request(PROMPT, Update(session_id="another", text=""))
                await client.request(PING, Ping())
        await turn


@pytest.mark.fault("PRC-10")
async def test_input_beyond_the_hard_limit_ends_the_connection_with_a_named_error() -> None:
    client_side = Handlers()
    never = asyncio.Event()
    sent = [0]

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        await never.wait()

    async with (
        asyncio.timeout(60),
        connected_pair(client_side, flooding_agent(5000, sent), max_incoming_bytes=20_000) as (client, agent),
    ):

        @agent.handlers.on(PING)
        async def ping(context: Context, params: Ping) -> Ping:
            await never.wait()
            return params

        starving = asyncio.ensure_future(client.request(PING, Ping()))
        with pytest.raises(ConnectionLost):
            await client.request(PROMPT, Update(session_id="s", text=""))
        with pytest.raises(InputLimitExceeded, match="wait to be handled"):
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

    async with asyncio.timeout(60), connected_pair(None, agent_side, max_pending=8) as (client, _):
        answers = await asyncio.gather(*(client.request(PING, Ping(text=str(n))) for n in range(100)))
        assert [answer.text for answer in answers] == [str(n) for n in range(100)]
        assert most <= 8


async def test_updates_deferred_for_an_unanswered_new_session_are_bounded() -> None:
    agent_side = Handlers()

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        with pytest.raises(Deadlock, match="return from that handler first"):
            for _ in range(100):
                await context.connection.notify(UPDATE, Update(session_id="fresh", text=BIG))
        return Scoped(session_id="fresh")

    async with asyncio.timeout(60), connected_pair(None, agent_side, max_incoming_bytes=20_000) as (client, _):
        assert (await client.request(NEW, Nothing())).session_id == "fresh"


async def test_a_cancelled_caller_that_waits_for_a_slot_does_not_block_the_others() -> None:
    agent_side = Handlers()
    gate = asyncio.Event()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        await gate.wait()
        return params

    async with asyncio.timeout(60), connected_pair(None, agent_side, max_pending=1) as (client, _):
        running, *waiting = (asyncio.ensure_future(client.request(PING, Ping(text=str(n)))) for n in range(4))
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        gate.set()
        assert [(await wait).text for wait in (running, *waiting[1:])] == ["0", "2", "3"]


async def test_a_caller_cancelled_as_it_gets_a_slot_passes_the_slot_on() -> None:
    agent_side = Handlers()
    gate = asyncio.Event()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        await gate.wait()
        return params

    def cancel_the_next(direction: str, frame: bytes) -> None:
        if direction == "in" and b"result" in frame:
            # after the answer was read and before the next caller runs
            asyncio.get_running_loop().call_soon(waiting[0].cancel)

    near, far = memory_pair()
    async with (
        asyncio.timeout(60),
        Connection(near, max_pending=1, observers=(cancel_the_next,)) as client,
        Connection(far, agent_side),
    ):
        running, *waiting = (asyncio.ensure_future(client.request(PING, Ping(text=str(n)))) for n in range(3))
        await asyncio.sleep(0)
        gate.set()
        assert (await running).text == "0"
        assert (await waiting[1]).text == "2"
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]


async def test_callers_that_wait_for_a_slot_fail_when_the_connection_ends() -> None:
    agent_side = Handlers()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        await asyncio.Event().wait()
        return params

    async with asyncio.timeout(60), connected_pair(None, agent_side, max_pending=1) as (client, agent):
        waiting = [asyncio.ensure_future(client.request(PING, Ping())) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await agent.aclose()
        for wait in (waiting[0], waiting[2]):
            with pytest.raises(ConnectionLost):
                await wait


async def test_a_caller_that_gets_a_slot_as_the_connection_ends_fails_too() -> None:
    """Its place is freed by an answer, and the end of the stream is read right behind it."""
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(near, max_pending=1) as client, far:
        waiting = [asyncio.ensure_future(client.request(PING, Ping())) for _ in range(2)]
        await far.receive()
        far.send(frame(id=1, result={}))
        await far.aclose()
        assert await waiting[0] == Ping()
        with pytest.raises(ConnectionLost):
            await waiting[1]


async def test_the_response_that_opens_a_session_waits_for_no_other_queue() -> None:
    """A handler without a session, and one of the very session that is forked, may open new ones and wait for them."""
    client_side, agent_side = Handlers(), Handlers()
    opened: list[str] = []
    finished = asyncio.Event()
    notification = Notification("tell", Nothing)

    @client_side.on(notification)
    async def notified(context: Context, params: Nothing) -> None:
        opened.append((await context.connection.request(NEW, Nothing())).session_id)
        with pytest.raises(InternalError):
            await context.connection.request(FORK, Scoped(session_id="bad"))
        finished.set()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        opened.append((await context.connection.request(FORK, Scoped(session_id=params.session_id))).session_id)

    @agent_side.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        return Scoped(session_id="new")

    @agent_side.on(FORK)
    async def fork(context: Context, params: Scoped) -> Scoped:
        if params.session_id == "bad":
            raise InternalError("no")
        return Scoped(session_id=f"fork of {params.session_id}")

    @agent_side.on(PROMPT)
    async def prompt(context: Context, params: Update) -> Ping:
        await context.connection.notify(notification, Nothing())
        await context.connection.notify(UPDATE, params)
        return Ping()

    async with asyncio.timeout(60), connected_pair(client_side, agent_side, max_incoming_bytes=100) as (client, _):
        await client.request(PROMPT, Update(session_id="s", text=""))
        await finished.wait()
        assert sorted(opened) == ["fork of s", "new"]


NODES = b"[" + b"[]," * 100_000 + b"0]"
"""300 KB that take 6 MB once they are read."""


@pytest.mark.fault("PRC-22")
async def test_running_requests_are_bounded_by_the_memory_they_take_decoded() -> None:
    go = asyncio.Event()
    agent_side = Handlers()
    running = 0

    @agent_side.on(Method("_hold", dict[str, Any], Ping))
    async def hold(context: Context, params: dict[str, Any]) -> Ping:
        nonlocal running
        running += 1
        await go.wait()
        return Ping()

    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(far, agent_side, max_request_bytes=21_000_000), near:
        for number in range(20):
            near.send(b'{"jsonrpc":"2.0","id":%d,"method":"_hold","params":{"a":%s}}' % (number, NODES))
        answers: list[Any] = []
        while len(answers) < 17:
            answers += map(json.loads, await near.receive())
        assert running == 3
        assert {answer["error"]["code"] for answer in answers} == {-32603}
        assert "busy" in answers[0]["error"]["message"]
        go.set()
        answers = []
        while len(answers) < 3:
            answers += map(json.loads, await near.receive())
        near.send(frame(id=99, method="_hold", params={}))
        assert json.loads((await near.receive())[0])["result"] == {}


@pytest.mark.fault("PRC-22")
async def test_one_request_is_accepted_however_large_it_is() -> None:
    agent_side = Handlers()

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return Ping(text=str(len(params.text)))

    async with asyncio.timeout(60), connected_pair(None, agent_side, max_request_bytes=10) as (client, _):
        assert await client.request(PING, Ping(text="x" * 1000)) == Ping(text="1000")


@pytest.mark.fault("PRC-22")
async def test_a_message_with_too_many_values_is_rejected_before_decoding(caplog: pytest.LogCaptureFixture) -> None:
    agent_side = Handlers()
    ask, notification = Method("_ask", dict[str, Any], dict[str, Any]), Notification("_tell", dict[str, Any])
    lengths: asyncio.Queue[int] = asyncio.Queue()

    @agent_side.on(ask)
    async def answer(context: Context, params: dict[str, Any]) -> Any:
        return Raw(b'{"a":[%s0]}' % (b"[]," * 600_000))

    @agent_side.on(notification)
    async def note(context: Context, params: dict[str, Any]) -> None:
        lengths.put_nowait(len(params["a"]))

    text = b'"' + b"[],{" * 1_000_000 + b'"'  # looks alike, and is one text
    many = b"[" + b'"",' * 1_200_000 + b"0]"
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(far, agent_side), near:
        near.send(b'{"jsonrpc":"2.0","id":1,"method":"_ask","params":{"a":%s}}' % many)
        assert "bytes of memory" in json.loads((await near.receive())[0])["error"]["message"]
        for value in (many, text):
            near.send(b'{"jsonrpc":"2.0","method":"_tell","params":{"a":%s}}' % value)
        assert await lengths.get() == 4_000_000
    assert "'_tell' dropped" in caplog.text
    async with asyncio.timeout(60), connected_pair(None, agent_side) as (client, _):
        with pytest.raises(ProtocolViolation, match="bytes of memory"):
            await client.request(ask, {})
