"""An agent and its tests with the fixture `acp`: in memory, without a process. Run it with `pytest`."""

from pathlib import Path

import pytest

from duologue import Agent, Permissions, Turn
from duologue.testing import AgentTester

agent = Agent("janitor", version="1.0")


@agent.on_prompt
async def answer(turn: Turn) -> str | None:
    name = turn.text.removeprefix("delete ")
    if name == "everything":
        return "refusal"
    async with turn.tool(f"Delete {name}", kind="delete", locations=[name]) as tool:
        if await tool.request_permission():
            (turn.cwd / name).unlink()
    return None


pytestmark = pytest.mark.asyncio  # or `anyio`; not needed where their mode is "auto"


async def test_it_refuses_to_delete_everything(acp: AgentTester) -> None:
    session = await acp.new_session(agent)
    turn = await session.prompt("delete everything")

    assert turn.stop_reason == "refusal"


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_it_deletes_a_file_only_with_permission(acp: AgentTester, tmp_path: Path, is_allowed: bool) -> None:
    (tmp_path / "old.txt").touch()
    session = await acp.new_session(agent, permissions=Permissions(delete="allow" if is_allowed else "reject"))
    turn = await session.prompt("delete old.txt")

    assert [call.title for call in turn.tool_calls] == ["Delete old.txt"]
    assert (tmp_path / "old.txt").exists() == (not is_allowed)
