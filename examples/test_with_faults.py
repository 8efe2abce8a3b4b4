"""A client on a connection with faults, and a timeout of minutes that takes no time. Run it with `pytest`."""

import asyncio

import pytest

from duologue import Agent, Turn, connect
from duologue.errors import DuologueError
from duologue.lowlevel import memory_pair
from duologue.testing import AgentTester, FaultyTransport, VirtualClock

agent = Agent("thinker")


@agent.on_prompt
async def answer(turn: Turn) -> None:
    await asyncio.sleep(120)
    await turn.say("42")


pytestmark = pytest.mark.asyncio  # or `anyio`; not needed where their mode is "auto"


async def test_a_slow_answer_arrives(acp: AgentTester, virtual_time: VirtualClock) -> None:
    session = await acp.new_session(agent)

    assert await session.ask("?") == "42"
    assert virtual_time.elapsed >= 120


@pytest.mark.parametrize("seed", range(20))
async def test_the_client_lives_with_faults(virtual_time: VirtualClock, seed: int) -> None:
    near, far = memory_pair()
    async with asyncio.TaskGroup() as group:
        group.create_task(agent.serve(far))
        try:
            async with asyncio.timeout(1000), connect(FaultyTransport(near, seed=seed)) as remote:
                session = await remote.new_session(".")
                await session.ask("?")
        except (DuologueError, TimeoutError):
            pass  # a program would show the error; it must not hang, and must raise nothing else
