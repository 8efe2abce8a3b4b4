"""A template sends the frames that `notify` would send, under the same rules."""

from __future__ import annotations

import asyncio

import pytest

from duologue.errors import Deadlock
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.text_template import PLACEHOLDER
from duologue.runtime.writer import BURST_BYTES
from duologue.transports.memory import memory_pair
from tests.runtime.messages import NEW, UPDATE, Nothing, Scoped, Update, connected_pair

TEXTS = {
    "empty": "",
    "plain": "plain",
    "escaped": 'quotes " and \\ and \n and \x00',
    "not ASCII": "é 漢 😀",
    "lone surrogates": "\ud800 lone \udfff",
    "the placeholder": PLACEHOLDER,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_template_sends_the_same_frame_as_notify(text: str) -> None:
    near, far = memory_pair()
    async with far, Connection(near) as connection:
        template = connection.internals.text_template(UPDATE, Update(session_id='s"1', text=PLACEHOLDER))
        assert template.send(text) is None
        [by_template] = await far.receive()
        await connection.notify(UPDATE, Update(session_id='s"1', text=text))
        assert await far.receive() == [by_template]


async def test_a_template_asks_for_a_break_after_a_burst() -> None:
    near, far = memory_pair()
    async with far, Connection(near) as connection:
        template = connection.internals.text_template(UPDATE, Update(session_id="s", text=PLACEHOLDER))
        assert template.send("x" * (BURST_BYTES // 2)) is None
        waiting = template.send("x" * (BURST_BYTES // 2))
        assert waiting is not None
        await waiting
        assert template.send("x") is None


async def test_a_template_waits_while_the_peer_does_not_read() -> None:
    near, far = memory_pair(bound=1000)
    async with asyncio.timeout(60), far, Connection(near) as connection:
        template = connection.internals.text_template(UPDATE, Update(session_id="s", text=PLACEHOLDER))
        waiting = template.send("x" * 1000)
        assert waiting is not None
        drained = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        assert not drained.done()
        await far.receive()
        await drained


async def test_text_for_a_session_that_is_not_announced_follows_its_announcement() -> None:
    received: asyncio.Queue[str] = asyncio.Queue()
    client, agent = Handlers(), Handlers()

    @client.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        received.put_nowait(params.text)

    @agent.on(NEW)
    async def new(context: Context, params: Nothing) -> Scoped:
        template = context.connection.internals.text_template(UPDATE, Update(session_id="new", text=PLACEHOLDER))
        assert template.send("early") is None
        with pytest.raises(Deadlock):
            template.send("x" * 30_000)
        return Scoped(session_id="new")

    async with asyncio.timeout(60), connected_pair(client, agent, max_incoming_bytes=20_000) as (connection, _):
        await connection.request(NEW, Nothing())
        assert await received.get() == "early"
