"""Either side killed at any moment: every wait ends within a second, and no process is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from duologue.errors import AgentExited, ConnectionLost
from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.transports.buffered import READ_AHEAD
from duologue.transports.process import process_tree as tree
from duologue.transports.process.transport import ProcessTransport
from tests.chaos.agent import HELLO, HOLD, PROMPT, UPDATE, Params
from tests.chaos.stopwatch import Stopwatch
from tests.transports.waiting import until

AGENT = [sys.executable, str(Path(__file__).with_name("agent.py"))]
AT_ONCE = 4


def seeds(count: int) -> list[int]:
    """Print the seed, so that a failing run can be repeated."""
    first = random.randrange(2**32)
    print("seeds from", first)
    return list(range(first, first + count))


@pytest.mark.fault("PRC-01")
@pytest.mark.timeout(14400)
async def test_an_agent_killed_at_any_moment_fails_every_call_within_a_second(
    chaos_factor: int, record_property: Any, nothing_left: str
) -> None:
    count = 20 * chaos_factor
    record_property("count", count)
    chosen = seeds(count)
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(*(kill_an_agent(random.Random(seed)) for seed in chosen[start : start + AT_ONCE]))
        assert tree.find_by_marker(nothing_left) == []


async def kill_an_agent(chance: random.Random) -> None:
    """After so many updates of its turn; or, once in a while, after so many milliseconds of its start."""
    updates, is_early = chance.randrange(100), chance.random() < 0.25
    handlers = Handlers()
    seen: list[int] = []
    due = asyncio.Event()

    @handlers.on(UPDATE)
    async def update(context: Context, params: Params) -> None:
        seen.append(params.count)
        if len(seen) >= updates:
            due.set()
        await asyncio.sleep(0)

    transport = ProcessTransport(AGENT)
    async with asyncio.timeout(60), Connection(transport, handlers, ignore_stray_output=True) as connection:
        waits = [asyncio.ensure_future(connection.request(HELLO, Params()))]
        if is_early:
            asyncio.get_running_loop().call_later(chance.uniform(0, 0.2), due.set)
        else:
            await waits[0]
        waits += [asyncio.ensure_future(connection.request(method, Params())) for method in (PROMPT, HOLD, HOLD)]
        await due.wait()
        assert transport.pid is not None
        async with Stopwatch() as watch:
            os.kill(transport.pid, signal.SIGKILL)
            for wait in waits[0 if is_early else 1 :]:
                try:
                    await wait
                except AgentExited as lost:
                    assert lost.signal == "SIGKILL"
                else:
                    assert wait is waits[0]  # it may have been answered in time
        assert watch.seconds < 1
        with pytest.raises(ConnectionLost):
            await connection.request(HOLD, Params())
        assert seen == list(range(len(seen)))


@pytest.mark.fault("PRC-02")
@pytest.mark.timeout(14400)
async def test_a_client_killed_at_any_moment_leaves_no_process_of_its_agent(
    chaos_factor: int, record_property: Any, nothing_left: str
) -> None:
    count = 20 * chaos_factor
    record_property("count", count)
    chosen = seeds(count)
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(*(kill_a_client(random.Random(seed)) for seed in chosen[start : start + AT_ONCE]))
        await until(lambda: tree.find_by_marker(nothing_left) == [], seconds=5)


async def kill_a_client(chance: random.Random) -> None:
    """Kill a client while it is busy, or sometimes while it starts."""
    is_early = chance.random() < 0.25
    client = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.chaos.client", stdout=PIPE)
    assert client.stdout is not None
    async with asyncio.timeout(60):
        for line in (b"started\n",) if is_early else (b"started\n", b"busy\n"):
            assert await client.stdout.readline() == line
        # The random moment is the fault itself.
        await asyncio.sleep(chance.uniform(0, 0.3 if is_early else 0.05))
        client.kill()
        await client.wait()


@pytest.mark.fault("LIF-08")
@pytest.mark.parametrize("method", [None, "prompt", "hold"], ids=["idle", "in mid-turn", "while it waits"])
async def test_an_agent_whose_stdin_is_closed_leaves_within_two_seconds_whatever_it_does(
    method: str | None, nothing_left: str
) -> None:
    agent = await asyncio.create_subprocess_exec(*AGENT, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    try:
        async with asyncio.timeout(60):
            agent.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')
            assert b'"id":1' in await agent.stdout.readline()
            if method is not None:
                agent.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"%s"}\n' % method.encode())
                agent.stdin.write(b'{"jsonrpc":"2.0","id":3,"method":"nope"}\n')
                while b'"id":3' not in await agent.stdout.readline():
                    pass
            async with Stopwatch() as watch:
                agent.stdin.close()
                _, complaints = await agent.communicate()
            assert watch.seconds < 2
            assert agent.returncode == 0
            assert complaints == b""
    finally:
        for orphan in tree.find_by_marker(nothing_left):
            os.kill(orphan.pid, signal.SIGKILL)  # its `sleep`: an agent that we did not start has no guard


@pytest.mark.fault("LIF-09")
@pytest.mark.parametrize(
    ("script", "code", "name"),
    [("exit 0", 0, None), ("exit 1", 1, None), ("exit 127", 127, None), ("kill -9 $$", None, "SIGKILL")],
)
async def test_a_call_to_an_agent_that_exits_reports_exit_code_signal_and_stderr(
    script: str, code: int | None, name: str | None
) -> None:
    transport = ProcessTransport(["sh", "-c", f"echo bad config >&2; {script}"])
    async with asyncio.timeout(60), Connection(transport, ignore_stray_output=True) as connection:
        for _ in range(2):
            with pytest.raises(AgentExited, match="bad config") as caught:
                await connection.request(HELLO, Params())
            assert (caught.value.exit_code, caught.value.signal) == (code, name)


@pytest.mark.fault("PRC-13")
@pytest.mark.timeout(3600)
async def test_a_flood_of_updates_is_delivered_in_order_and_in_bounded_memory(
    chaos_factor: int, record_property: Any
) -> None:
    count = min(1_000_000, 20_000 * chaos_factor)
    record_property("count", count)
    handlers = Handlers()
    seen, most, bound = 0, 0, 200_000

    @handlers.on(UPDATE)
    async def update(context: Context, params: Params) -> None:
        nonlocal seen, most
        assert params.count == seen
        seen += 1
        if seen % 100 == 0:
            most = max(most, connection._queues.queued_bytes)
            await asyncio.sleep(0.0001)

    transport = ProcessTransport(AGENT)
    async with asyncio.timeout(3000):
        async with Connection(transport, handlers, ignore_stray_output=True, max_incoming_bytes=bound) as connection:
            await connection.request(HELLO, Params())
            before = resident_bytes()
            await connection.request(PROMPT, Params(count=count))
            assert seen == count
            assert most < bound + 2 * READ_AHEAD  # what is read in one go is not counted before
            assert resident_bytes() - before < 32 * 1024 * 1024


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096
