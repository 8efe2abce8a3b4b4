"""Servers that ask the user something while a tool of theirs runs: through an agent, at its client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from duologue import Agent, Turn
from duologue.conversation.session_setup import StdioMcpServer
from duologue.mcp.servers import McpServers
from duologue.protocol.values import Elicitation, ElicitationAnswer
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import RecordingClient, agent_with, client_for
from tests.mcp.server_processes import real, small

FORM = v1.ElicitationFormCapabilities()
URL = v1.ElicitationUrlCapabilities()
BOTH = v1.ElicitationCapabilities(form=FORM, url=URL)

TEA = {"message": "Which tea?", "requestedSchema": {"type": "object", "properties": {"kind": {"type": "string"}}}}
SECRET = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}}}
BILL = {"mode": "url", "message": "Pay here", "url": "https://example.com/pay", "elicitationId": "bill"}


def agent_that_calls() -> Agent[Any]:
    """Return an agent that calls the tool named in the prompt and repeats its result."""

    async def call(turn: Turn[Any]) -> None:
        server, tool, arguments = turn.text.split(" ", 2)
        await turn.say((await turn.mcp.call(server, tool, json.loads(arguments))).text)

    return agent_with(call, mcp=True)


async def open_with(client: RecordingClient, server: StdioMcpServer) -> str:
    named = v1.McpServerStdio(name=server.name, command=server.command, args=server.args, env=[])
    return await client.new(mcp_servers=[named])


def tool_output(client: RecordingClient) -> str:
    chunks = [update.content for update in client.updates if isinstance(update, v1.AgentMessageChunk)]
    return "".join(block.text for block in chunks if isinstance(block, v1.TextContent))


def answer_with(client: RecordingClient, answer: v1.CreateElicitationResponse) -> list[Any]:
    """Have every question answered so; what was asked."""
    asked: list[Any] = []

    @client.handlers.on(v1.ELICITATION_CREATE)
    async def elicit(context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
        asked.append(params)
        return answer

    return asked


async def test_a_question_that_is_part_of_an_answer_reaches_the_user(tmp_path: Path) -> None:
    """MCP 2026-07-28: the call is answered with what is missing, and made again with it."""
    async with asyncio.timeout(60), client_for(agent_that_calls(), tmp_path, validate=True, elicitation=BOTH) as client:
        asked = answer_with(client, v1.ElicitationAcceptAction(content={"kind": "oolong", "sugar": True}))
        session = await open_with(client, real())
        await client.prompt(session, "real order {}")

        assert tool_output(client) == "oolong"
        [question] = asked
        assert (question.message, question.session_id) == ("real: Which tea?", session)
        assert set(question.requested_schema.properties) == {"kind", "sugar"}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (v1.ElicitationAcceptAction(content={"kind": "mint"}), {"action": "accept", "content": {"kind": "mint"}}),
        (v1.ElicitationDeclineAction(), {"action": "decline"}),
        (v1.ElicitationCancelAction(), {"action": "cancel"}),
    ],
)
async def test_a_question_in_the_middle_of_a_call_reaches_the_user(
    answer: v1.CreateElicitationResponse, result: dict[str, Any], tmp_path: Path
) -> None:
    """MCP 2025-11-25: the server sends a request of its own."""
    async with asyncio.timeout(60), client_for(agent_that_calls(), tmp_path, validate=True, elicitation=BOTH) as client:
        asked = answer_with(client, answer)
        await client.prompt(await open_with(client, small()), f"small ask {json.dumps(TEA)}")

        assert json.loads(tool_output(client)) == result
        assert [question.message for question in asked] == ["small: Which tea?"]


async def test_a_url_gets_an_id_of_our_own_by_which_its_completion_is_reported(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(agent_that_calls(), tmp_path, validate=True, elicitation=BOTH) as client:
        done: asyncio.Queue[str] = asyncio.Queue()

        @client.handlers.on(v1.ELICITATION_COMPLETE)
        async def complete(context: Context, params: v1.CompleteElicitationNotification) -> None:
            done.put_nowait(params.elicitation_id)

        asked = answer_with(client, v1.ElicitationAcceptAction())
        await client.prompt(await open_with(client, small()), f"small ask {json.dumps(BILL)}")

        [question] = asked
        assert question.url == BILL["url"]
        assert question.elicitation_id != "bill"
        assert await done.get() == question.elicitation_id
        assert json.loads(tool_output(client)) == {"action": "accept"}


@pytest.mark.rule(127, 129, 135)
@pytest.mark.parametrize(
    ("capabilities", "question", "why"),
    [
        (v1.ElicitationCapabilities(url=URL), TEA, "does not support form"),
        (v1.ElicitationCapabilities(form=FORM), BILL, "does not support URL elicitation"),
        (BOTH, SECRET, "must not ask for a secret"),
        (BOTH, {**BILL, "url": "https://me:word@example.com/"}, "user name or password"),
        (None, TEA, "Elicitation not supported"),
    ],
)
async def test_servers_may_not_elicit_what_their_agent_may_not_elicit(
    capabilities: v1.ElicitationCapabilities | None, question: dict[str, Any], why: str, tmp_path: Path
) -> None:
    agent = agent_that_calls()
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True, elicitation=capabilities) as client:
        asked = answer_with(client, v1.ElicitationAcceptAction(content={"password": "x"}))
        await client.prompt(await open_with(client, small()), f"small ask {json.dumps(question)}")

        assert asked == []
        assert why in json.loads(tool_output(client))["message"]


async def test_a_question_ends_with_its_turn(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(agent_that_calls(), tmp_path, validate=True, elicitation=BOTH) as client:
        asked, withdrawn = asyncio.Event(), asyncio.Event()

        @client.handlers.on(v1.ELICITATION_CREATE)
        async def think(context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
            asked.set()
            try:
                return await asyncio.Future()
            finally:
                withdrawn.set()

        session = await open_with(client, small())
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(client.prompt(session, f"small ask {json.dumps(TEA)}"))
            await asked.wait()
            await client.cancel(session)

        assert turn.result().stop_reason == "cancelled"
        await withdrawn.wait()


class UnusedTarget:
    """Receives elicitations, of which there must be none."""

    async def ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        raise AssertionError("no tool was called")

    async def completed(self, elicitation_id: str) -> None:
        raise AssertionError("nothing was asked")


async def test_a_server_cannot_send_elicitations_without_a_call() -> None:
    """The server exits on the error response; its stderr shows the response."""
    changed: asyncio.Queue[str] = asyncio.Queue()
    curious = McpServers([small("curious")], user=UnusedTarget(), restart_pauses=(), on_change=changed.put_nowait)
    async with asyncio.timeout(60), curious as servers:
        while not servers.errors:
            await changed.get()

        assert "only allowed during a call" in servers.errors["small"]
