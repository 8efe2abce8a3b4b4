"""An agent with a real client library of a model, tested without a key and without a network. Run it with `pytest`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from duologue import Agent as AcpAgent
from duologue.errors import InternalError
from duologue.integrations.pydantic_ai import acp_agent
from duologue.testing import AgentTester, ModelServer, ModelTurn, RequestPattern, tool_call

StartServer = Callable[..., ModelServer]

pytestmark = pytest.mark.asyncio  # or `anyio`; not needed where their mode is "auto"


def file_agent(server: ModelServer) -> AcpAgent:
    """Make the agent under test; in production, its provider has the real URL and key."""
    provider = OpenAIProvider(base_url=server.openai_url, api_key=server.api_key)
    agent = Agent(OpenAIChatModel("any", provider=provider), name="files", system_prompt="You help with files.")

    @agent.tool_plain
    def read_file(path: str) -> str:
        """Read a text file."""
        return Path(path).read_text("utf-8")

    return acp_agent(agent)


async def test_it_reads_the_file_that_the_model_asks_for(
    acp: AgentTester, model_server: StartServer, tmp_path: Path
) -> None:
    (tmp_path / "tea.txt").write_text("Earl Grey")
    server = model_server(
        [
            ModelTurn("I read it. ", tools=[tool_call("read_file", path=str(tmp_path / "tea.txt"))]),
            ModelTurn("It is tea.", expect=RequestPattern(tool_result="Earl Grey", system="You help with files.")),
        ]
    )
    session = await acp.new_session(file_agent(server))
    turn = await session.prompt("What is in tea.txt?")

    assert turn.text == "I read it. It is tea."
    assert server.requests[0].prompt == "What is in tea.txt?"
    server.check()  # every turn of the script was used


async def test_a_cancelled_turn_ends_the_request_to_the_model(acp: AgentTester, model_server: StartServer) -> None:
    server = model_server([ModelTurn(["One ", "two ", "three"], hold_after=1)])
    session = await acp.new_session(file_agent(server))

    async with session.prompt("Count!") as turn:
        request = await server.held()  # the model has sent "One " and waits
        await turn.cancel()

    assert turn.stop_reason == "cancelled"
    assert await server.finished(request) == "abandoned"


@pytest.mark.parametrize("fault", ["unauthorized", "context_length", "reset_midstream"])
async def test_an_error_of_the_model_reaches_the_user(acp: AgentTester, model_server: StartServer, fault: str) -> None:
    server = model_server([ModelTurn("This breaks.", fault=fault, times=0)])
    session = await acp.new_session(file_agent(server))

    with pytest.raises(InternalError):
        await session.prompt("Hello")
