"""A recording as a regression test, for an agent and for a client. Run it with `pytest`.

The recording was made once: `duologue tap -o janitor.acp -- python agent.py`, as the agent's command of an editor.
"""

from pathlib import Path

import pytest

from duologue import Agent, Permissions, Turn
from duologue.testing import AgentTester, replay_agent

RECORDING = Path(__file__).with_name("janitor.acp")

agent = Agent("janitor", version="1.0")


@agent.on_prompt
async def answer(turn: Turn) -> None:
    name = turn.text.removeprefix("delete ")
    async with turn.tool(f"Delete {name}", kind="delete", locations=[name]) as tool:
        if await tool.request_permission():
            await turn.say(f"{name} is gone.")


pytestmark = pytest.mark.asyncio  # or `anyio`; not needed where their mode is "auto"


async def test_the_agent_still_does_what_was_recorded(acp: AgentTester) -> None:
    await acp.replay(RECORDING, agent)


async def test_a_client_shows_what_was_recorded(acp: AgentTester) -> None:
    session = await acp.new_session(replay_agent(RECORDING), permissions=Permissions(delete="allow"))
    turn = await session.prompt("delete old.txt")

    assert turn.text == "old.txt is gone."
    assert [call.kind for call in turn.tool_calls] == ["delete"]
