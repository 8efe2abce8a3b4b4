"""Agents made with pydantic-ai, served on the wire of version 1, with the library's own test models."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from duologue.errors import InternalError
from duologue.integrations.pydantic_ai import acp_agent
from duologue.integrations.tool_calls import guess_tool_kind
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import client_for
from tests.mcp.server_processes import small


async def test_text_streams_and_tool_calls_are_shown(tmp_path: Path) -> None:
    agent = PydanticAgent(TestModel(custom_output_text="all of it read"))

    @agent.tool_plain
    def read_file(path: str) -> str:
        return f"contents of {path}"

    async with asyncio.timeout(60), client_for(acp_agent(agent, unstable={"usage"}), tmp_path) as client:
        response = await client.prompt(await client.new(), "read something")

        assert response.stop_reason == "end_turn"
        assert response.usage is not None
        assert client.text == "all of it read"
        (call,) = client.of(v1.ToolCall)
        assert (call.title, call.kind) == ('read_file(path="a")', "read")
        assert client.of(v1.ToolCallUpdate)[-1].status == "completed"


async def test_history_is_kept_per_session(tmp_path: Path) -> None:
    prompts: list[int] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        prompts.append(sum(isinstance(message, ModelRequest) for message in messages))
        yield "noted"

    served = acp_agent(PydanticAgent(FunctionModel(stream_function=answer)))
    async with asyncio.timeout(60), client_for(served, tmp_path) as client:
        first, second = await client.new(), await client.new()
        for session in (first, first, second):
            await client.prompt(session, "remember")
        assert prompts == [1, 2, 1]


async def test_a_tool_that_needs_approval_asks_for_permission(tmp_path: Path) -> None:
    deleted: list[str] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        if sum(isinstance(message, ModelRequest) for message in messages) == 1:
            yield {0: DeltaToolCall(name="delete_file", json_args='{"path": "a.txt"}', tool_call_id="c1")}
        else:
            yield "done"

    agent = PydanticAgent(FunctionModel(stream_function=answer))

    @agent.tool_plain(requires_approval=True)
    def delete_file(path: str) -> str:
        deleted.append(path)
        return "deleted"

    async with asyncio.timeout(60), client_for(acp_agent(agent), tmp_path) as client:
        answers = iter(["reject_once", "allow_once"])

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def ask(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            assert params.tool_call.title == 'delete_file(path="a.txt")'
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=next(answers)))

        await client.prompt(await client.new(), "delete a.txt")
        assert deleted == []
        assert client.of(v1.ToolCallUpdate)[-1].status == "failed"
        await client.prompt(await client.new(), "delete a.txt")
        assert deleted == ["a.txt"]
        assert client.of(v1.ToolCallUpdate)[-1].status == "completed"


@pytest.mark.fault("PRM-17")
async def test_an_approval_for_always_covers_the_arguments_it_was_given_for(tmp_path: Path) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart):
            path = "".join(part for part in last.content if isinstance(part, str))
            yield {0: DeltaToolCall(name="delete_file", json_args=json.dumps({"path": path}), tool_call_id=path)}
        else:
            yield "done"

    agent = PydanticAgent(FunctionModel(stream_function=answer))
    deleted: list[str] = []

    @agent.tool_plain(requires_approval=True)
    def delete_file(path: str) -> str:
        deleted.append(path)
        return "deleted"

    async with asyncio.timeout(60), client_for(acp_agent(agent), tmp_path) as client:
        client.answer_permission()
        client.choose = "allow_always"
        session = await client.new()
        for path in ("a.txt", "a.txt", "/", "/"):
            await client.prompt(session, path)

        assert deleted == ["a.txt", "a.txt", "/", "/"]
        assert [asked.tool_call.raw_input for asked in client.asked] == [{"path": "a.txt"}, {"path": "/"}]


async def test_thoughts_are_thoughts_and_cancelling_ends_the_run(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def answer(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaThinkingPart]]:
        yield {0: DeltaThinkingPart(content="hm")}
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    served = acp_agent(PydanticAgent(FunctionModel(stream_function=answer)))
    async with asyncio.timeout(60), client_for(served, tmp_path) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "think"))
        await began.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert ended.is_set()
        assert [chunk.content.text for chunk in client.of(v1.AgentThoughtChunk)] == ["hm"]


async def test_a_tool_that_is_cancelled_with_its_turn_is_not_left_running(tmp_path: Path) -> None:
    began = asyncio.Event()
    assistant = PydanticAgent(TestModel(call_tools=["wait"]))

    @assistant.tool_plain
    async def wait() -> str:
        """Wait forever."""
        began.set()
        return await asyncio.Future()

    async with asyncio.timeout(60), client_for(acp_agent(assistant), tmp_path) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "wait"))
        await began.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        (call,) = client.of(v1.ToolCall)
        last = client.of(v1.ToolCallUpdate)[-1]
        assert (last.tool_call_id, last.status) == (call.tool_call_id, "failed")


def test_kinds_are_guessed_from_names() -> None:
    names = {
        "read_file": "read",
        "runTests": "execute",
        "delete": "delete",
        "web_fetch": "fetch",
        "frobnicate": "other",
    }

    assert {name: guess_tool_kind(name) for name in names} == names


async def test_the_mcp_servers_of_the_client_are_connected_and_their_tools_ask_for_permission(tmp_path: Path) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        if len(messages) == 1:
            assert "small__echo" in [tool.name for tool in info.function_tools]
            yield {0: DeltaToolCall(name="small__echo", json_args='{"a": 1}', tool_call_id="c1")}
        else:
            yield "done"

    agent = PydanticAgent(FunctionModel(stream_function=answer))
    server = small()
    async with asyncio.timeout(60), client_for(acp_agent(agent), tmp_path) as client:
        client.answer_permission()
        stdio = v1.McpServerStdio(name=server.name, command=server.command, args=server.args, env=[])
        response = await client.prompt(await client.new(mcp_servers=[stdio]), "call it")

        assert (response.stop_reason, client.text) == ("end_turn", "done")
        assert client.statuses == ["pending", "in_progress", "completed"]
        assert client.of(v1.ToolCallUpdate)[-1].raw_output is not None


@pytest.mark.fault("PRM-17")
async def test_an_approval_of_an_mcp_tool_for_always_covers_its_arguments_too(tmp_path: Path) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart):
            number = "".join(part for part in last.content if isinstance(part, str))
            yield {0: DeltaToolCall(name="small__echo", json_args=f'{{"a": {number}}}', tool_call_id=number)}
        else:
            yield "done"

    server = small()
    stdio = v1.McpServerStdio(name=server.name, command=server.command, args=server.args, env=[])
    agent = acp_agent(PydanticAgent(FunctionModel(stream_function=answer)))
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        client.answer_permission()
        client.choose = "allow_always"
        session = await client.new(mcp_servers=[stdio])
        for number in ("1", "1", "2", "2"):
            await client.prompt(session, number)

        assert [asked.tool_call.raw_input for asked in client.asked] == [{"a": 1}, {"a": 2}]


async def test_an_agent_without_mcp_servers_needs_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    agent = PydanticAgent(TestModel(custom_output_text="fine"))
    server = v1.McpServerStdio(name="s", command="/bin/false", args=[], env=[])
    async with asyncio.timeout(60), client_for(acp_agent(agent), tmp_path) as client:
        await client.prompt(await client.new(mcp_servers=[server]), "hi")
        assert client.text == "fine"


async def test_the_tool_that_raised_fails_and_another_is_not_blamed_for_it(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[dict[int, DeltaToolCall]]:
        yield {0: DeltaToolCall("wait", "{}", tool_call_id="a"), 1: DeltaToolCall("fail", "{}", tool_call_id="b")}

    agent = PydanticAgent(FunctionModel(stream_function=answer))

    @agent.tool_plain
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    @agent.tool_plain
    async def fail() -> None:
        await started.wait()
        raise ValueError("planted")

    async with asyncio.timeout(60), client_for(acp_agent(agent), tmp_path) as client:
        with pytest.raises(InternalError):
            await client.prompt(await client.new(), "both")

        calls = {call.tool_call_id: call.title for call in client.of(v1.ToolCall)}
        shown = {calls[update.tool_call_id]: update.content for update in client.of(v1.ToolCallUpdate)}
        assert "another tool call failed" in str(shown["wait()"])
        assert "planted" not in str(shown["wait()"])
        assert "ValueError (reference " in str(shown["fail()"])
        assert "planted" not in str(shown["fail()"]), "the text of an exception may have secrets"


async def test_a_model_whose_package_is_missing_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    for name in [name for name in sys.modules if name.startswith("pydantic_ai") and "openai" in name]:
        monkeypatch.delitem(sys.modules, name)
    agent = PydanticAgent("openai:gpt-5", defer_model_check=True)

    async with asyncio.timeout(60), client_for(acp_agent(agent), tmp_path) as client:
        with pytest.raises(InternalError, match=r"pip install .pydantic-ai-slim\[openai\]"):
            await client.prompt(await client.new(), "hello")
