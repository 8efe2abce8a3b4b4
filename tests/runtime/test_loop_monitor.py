"""A blocked event loop is reported, and no message is lost."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

import pytest

from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.runtime.loop_monitor import BLOCKED, INTERVAL, LoopMonitor
from duologue.transports.memory import memory_pair
from tests.runtime.messages import PING, UPDATE, Ping, Update, connected_pair


@pytest.mark.fault("PRC-16")
async def test_user_code_that_blocks_the_event_loop_is_reported_and_no_message_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client_side, agent_side = Handlers(), Handlers()
    seen: list[str] = []
    reported = asyncio.Event()

    @client_side.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        if params.text == "0":
            time.sleep(INTERVAL + BLOCKED + 0.1)  # noqa: ASYNC251  # the very fault
        seen.append(params.text)

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        return params

    async with asyncio.timeout(60), connected_pair(client_side, agent_side) as (client, agent):
        for number in range(100):
            await agent.notify(UPDATE, Update(session_id="s", text=str(number)))
        await client.request(PING, Ping())
        asyncio.get_running_loop().call_later(0.1, reported.set)
        await reported.wait()
        assert seen == [str(number) for number in range(100)]
    assert "the event loop was blocked" in caplog.text


async def test_one_loop_monitor_serves_all_connections_and_stops_after_the_last() -> None:
    watch = LoopMonitor.of_this_loop()
    async with asyncio.timeout(60):
        async with connected_pair():
            async with connected_pair():
                assert LoopMonitor.of_this_loop() is watch
                assert len(watch._users) == 4
            assert len(watch._users) == 2
        assert len(watch._users) == 0
        stopped = asyncio.Event()
        asyncio.get_running_loop().call_later(INTERVAL, stopped.set)
        await stopped.wait()
        assert watch._due is None


def test_a_loop_is_not_kept_alive_by_its_monitor() -> None:
    loop = asyncio.new_event_loop()

    async def connect() -> None:
        await Connection(memory_pair()[0]).__aenter__()

    loop.run_until_complete(connect())
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # what asyncio says of it is not the point
        del task
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None
