"""Agents of pydantic-ai with its models of OpenAI and Anthropic, against a model server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic_ai import Agent, ModelHTTPError
from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from duologue.integrations.pydantic_ai import acp_agent
from duologue.schema import v1
from duologue.testing import ModelServer, ModelTurn, ModelUsage, RequestPattern, tool_call
from tests.agent.wire_client import client_for
from tests.testing.models.clients import anthropic_client, openai_client

MODELS = ["chat", "responses", "messages"]

SCRIPT = [
    ModelTurn(
        "I look. ",
        thinking="Two files.",
        tools=[tool_call("read", path="a.txt"), tool_call("read", path="b.txt")],
        usage=ModelUsage(input=100, output=10),
        expect=RequestPattern(system="Be brief.", tools=["read"], prompt="compare"),
    ),
    ModelTurn(
        "They differ.",
        usage=ModelUsage(input=200, output=20),
        expect=RequestPattern(tool_result=["text of a.txt", "text of b.txt"]),
    ),
]


@asynccontextmanager
async def model_for(name: str, server: ModelServer) -> AsyncGenerator[Model]:
    """Connect a model of pydantic-ai."""
    async with openai_client(server) as one, anthropic_client(server) as two:
        match name:
            case "chat":
                yield OpenAIChatModel("m", provider=OpenAIProvider(openai_client=one))
            case "responses":
                yield OpenAIResponsesModel("m", provider=OpenAIProvider(openai_client=one))
            case _:
                yield AnthropicModel("m", provider=AnthropicProvider(anthropic_client=two))


def reading_agent(model: Model) -> Agent[None, str]:
    agent = Agent(model, system_prompt="Be brief.")

    @agent.tool_plain
    def read(path: str) -> str:
        return f"text of {path}"

    return agent


@pytest.mark.parametrize("name", MODELS)
async def test_an_agent_runs_a_loop_of_tools(name: str) -> None:
    async with asyncio.timeout(60), ModelServer(SCRIPT) as server, model_for(name, server) as model:
        result = await reading_agent(model).run("compare")
        server.check()

        assert result.output == "They differ."
        assert (result.usage.input_tokens, result.usage.output_tokens) == (300, 30)
        assert any(isinstance(part, ThinkingPart) for message in result.all_messages() for part in message.parts)


@pytest.mark.parametrize("name", MODELS)
async def test_an_agent_streams_a_loop_of_tools(name: str) -> None:
    async with asyncio.timeout(60), ModelServer(SCRIPT) as server, model_for(name, server) as model:
        async with reading_agent(model).iter("compare") as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    async with node.stream(run.ctx) as events:
                        assert [event async for event in events]
        server.check()

        assert run.result is not None
        assert run.result.output == "They differ."
        assert [request.is_streamed for request in server.requests] == [True, True]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("unauthorized", ModelHTTPError),
        ("rate_limited", ModelHTTPError),
        ("overloaded", ModelHTTPError),
        ("context_length", ModelHTTPError),
        ("server_error", ModelHTTPError),
        ("reset", ModelAPIError),
    ],
)
async def test_a_fault_is_an_error_of_the_agent_s_library(name: str, fault: str, expected: type[Exception]) -> None:
    async with asyncio.timeout(60), ModelServer([ModelTurn(fault=fault)]) as server, model_for(name, server) as model:
        with pytest.raises(expected):
            await reading_agent(model).run("compare")


@pytest.mark.parametrize("name", MODELS)
async def test_an_agent_recovers_from_an_unknown_tool(name: str) -> None:
    script = [ModelTurn(fault="unknown_tool"), ModelTurn("Sorry.", expect=RequestPattern(tool_result="no_such_tool"))]
    async with asyncio.timeout(60), ModelServer(script) as server, model_for(name, server) as model:
        result = await reading_agent(model).run("compare")
        server.check()

        assert result.output == "Sorry."


@pytest.mark.parametrize("name", MODELS)
async def test_an_answer_that_stays_empty_ends_with_an_error(name: str) -> None:
    async with asyncio.timeout(60), ModelServer([ModelTurn(fault="empty", times=0)]) as server:
        async with model_for(name, server) as model:
            with pytest.raises(UnexpectedModelBehavior):
                await reading_agent(model).run("compare")


@pytest.mark.parametrize("name", MODELS)
async def test_an_agent_on_the_wire_of_acp_is_tested_without_a_key(name: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60), ModelServer(SCRIPT) as server, model_for(name, server) as model:
        async with client_for(acp_agent(reading_agent(model)), tmp_path) as client:
            response = await client.prompt(await client.new(), "compare")

            assert response.stop_reason == "end_turn"
            assert client.text == "I look. They differ."
            assert len(client.of(v1.ToolCall)) == 2
        server.check()


async def test_the_fixture_is_there(model_server: Callable[..., ModelServer]) -> None:
    server = model_server(["hello"])
    async with asyncio.timeout(60), model_for("chat", server) as model:
        assert (await Agent(model).run("hi")).output == "hello"
    server.check()
