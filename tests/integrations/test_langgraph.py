"""LangGraph graphs, served on the wire of version 1; the nodes answer by themselves, no model needed."""

# LangGraph and LangChain leave much of their types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from duologue.integrations.langgraph import acp_agent
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import EVERYTHING, client_for
from tests.mcp.server_processes import small


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"contents of {path}"


def graph_of(node: Any, *more: tuple[str, Any], checkpointer: Any = None) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("first", node)
    graph.add_edge(START, "first")
    before = "first"
    for name, step in more:
        graph.add_node(name, step)
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph.compile(checkpointer=checkpointer)


async def test_a_model_streams_and_tools_are_shown(tmp_path: Path) -> None:
    model = FakeListChatModel(responses=["read it all"])

    def call_tool(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", tool_calls=[{"name": "read_file", "args": {"path": "a"}, "id": "c1"}])]}

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = graph_of(call_tool, ("tools", ToolNode([read_file])), ("answer", answer))
    async with asyncio.timeout(60), client_for(acp_agent(graph), tmp_path) as client:
        assert (await client.prompt(await client.new(), "read a")).stop_reason == "end_turn"
        assert client.text == "read it all"
        assert len(client.of(v1.AgentMessageChunk)) > 1
        (call,) = client.of(v1.ToolCall)
        assert (call.title, call.kind, call.raw_input) == ('read_file(path="a")', "read", {"path": "a"})
        assert client.of(v1.ToolCallUpdate)[-1].status == "completed"


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["kept by us", "kept by the graph"])
async def test_history_is_kept_per_session(tmp_path: Path, checkpointer: Any) -> None:
    def count(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{len(state['messages'])} ")]}

    async with (
        asyncio.timeout(60),
        client_for(acp_agent(graph_of(count, checkpointer=checkpointer)), tmp_path) as client,
    ):
        first, second = await client.new(), await client.new()
        for session in (first, first, second):
            await client.prompt(session, "hello")
        assert client.text == "1 3 1 "


async def test_an_interrupt_asks_for_permission(tmp_path: Path) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer: {interrupt({'question': 'Delete it?'})}")]}

    agent = acp_agent(graph_of(ask, checkpointer=InMemorySaver()))
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        titles: list[str | None] = []

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def answer(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            titles.append(params.tool_call.title)
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="allow_once"))

        await client.prompt(await client.new(), "go")
        assert titles == ["Delete it?"]
        assert client.text == "answer: True"


async def test_cancelling_ends_the_run_and_an_endless_graph_reaches_its_limit(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait(state: MessagesState) -> dict[str, Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    async with asyncio.timeout(60), client_for(acp_agent(graph_of(wait)), tmp_path) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "go"))
        await began.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert ended.is_set()

    endless = StateGraph(MessagesState)
    endless.add_node("again", lambda state: {})
    endless.add_edge(START, "again")
    endless.add_edge("again", "again")
    served = acp_agent(endless.compile(), config={"recursion_limit": 10})
    async with asyncio.timeout(60), client_for(served, tmp_path) as client:
        assert (await client.prompt(await client.new(), "go")).stop_reason == "max_turn_requests"


class Thinker(BaseChatModel):
    """A model that thinks before it speaks, piece by piece."""

    @property
    def _llm_type(self) -> str:
        return "thinker"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any
    ) -> Iterator[ChatGenerationChunk]:
        for block in (
            {"type": "reasoning", "reasoning": "Let me "},
            {"type": "reasoning", "reasoning": "see."},
            {"type": "text", "text": "Here "},
            {"type": "text", "text": "it is."},
        ):
            yield ChatGenerationChunk(message=AIMessageChunk(content=[block]))


async def test_thoughts_are_thoughts(tmp_path: Path) -> None:
    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await Thinker().ainvoke(state["messages"])]}

    async with asyncio.timeout(60), client_for(acp_agent(graph_of(answer)), tmp_path) as client:
        await client.prompt(await client.new(), "go")

        thoughts = [chunk.content for chunk in client.of(v1.AgentThoughtChunk)]
        assert [block.text for block in thoughts if isinstance(block, v1.TextContent)] == ["Let me ", "see."]
        assert client.text == "Here it is."


@pytest.mark.parametrize(("option", "status"), [("allow_once", "completed"), ("reject_once", "failed")])
async def test_an_approval_is_about_the_tool_call_that_waits_for_it(tmp_path: Path, option: str, status: str) -> None:
    """As LangChain's middleware does it: the interrupt names the calls, and the message with them comes again."""
    asked = AIMessage("", id="m1", tool_calls=[{"name": "read_file", "args": {"path": "a"}, "id": "c1"}])

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [asked]}

    def approve(state: MessagesState) -> dict[str, Any]:
        answer = interrupt({"action_requests": [{"name": "read_file", "args": {"path": "a"}}]})
        if answer["decisions"][0]["type"] == "reject":
            return {"messages": [ToolMessage("no", tool_call_id="c1", status="error")]}
        return {"messages": [asked]}

    def run(state: MessagesState) -> dict[str, Any]:
        last = state["messages"][-1]
        return {} if isinstance(last, ToolMessage) else {"messages": [ToolMessage("text", tool_call_id="c1")]}

    graph = graph_of(call, ("approve", approve), ("run", run), checkpointer=InMemorySaver())
    async with asyncio.timeout(60), client_for(acp_agent(graph), tmp_path, validate=True) as client:
        about: list[str] = []

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def answer(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            about.append(params.tool_call.tool_call_id)
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=option))

        await client.prompt(await client.new(), "read a")
        (announced,) = client.of(v1.ToolCall)
        assert about == [announced.tool_call_id]
        assert [update.status for update in client.of(v1.ToolCallUpdate) if update.status][-1] == status


class Unreadable(Exception):
    def __repr__(self) -> str:
        return "<no class, key=secret>"


@pytest.mark.parametrize(
    ("error", "debug", "shown"),
    [
        (ValueError("key=secret"), False, "ValueError (its text is in the log of the agent)"),
        (Unreadable(), False, "an exception (its text is in the log of the agent)"),
        (ValueError("key=secret"), True, "Error: ValueError('key=secret')\n Please fix your mistakes."),
        (ToolException("no such file"), False, "Error: ToolException('no such file')\n Please fix your mistakes."),
    ],
)
async def test_the_text_of_an_exception_of_a_tool_stays_in_the_log_unless_it_is_for_the_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, debug: bool, shown: str
) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise error

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", tool_calls=[{"name": "fail", "args": {}, "id": "c1"}])]}

    graph = graph_of(call, ("tools", ToolNode([fail], handle_tool_errors=True)))
    agent = acp_agent(graph)
    agent._debug = debug
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        await client.prompt(await client.new(), "go")
        failed = [update for update in client.of(v1.ToolCallUpdate) if update.status == "failed"]
        texts = [part.content.text for update in failed for part in update.content or []]
    assert texts == [shown]
    assert ("key=secret" in caplog.text) == shown.endswith("(its text is in the log of the agent)")


@pytest.mark.fault("PRM-17")
@pytest.mark.parametrize("is_announced", [True, False])
async def test_an_approval_for_always_covers_the_arguments_it_was_given_for(tmp_path: Path, is_announced: bool) -> None:
    def arguments(state: MessagesState) -> dict[str, Any]:
        prompts = [each for each in state["messages"] if isinstance(each, HumanMessage)]
        return {"path": str(prompts[-1].text)}

    def call(state: MessagesState) -> dict[str, Any]:
        number = len(state["messages"])
        named = [{"name": "delete_file", "args": arguments(state), "id": f"c{number}"}]
        return {"messages": [AIMessage("", id=f"m{number}", tool_calls=named if is_announced else [])]}

    def approve(state: MessagesState) -> dict[str, Any]:
        decided = interrupt({"action_requests": [{"name": "delete_file", "args": arguments(state)}]})
        return {"messages": [AIMessage(decided["decisions"][0]["type"])]}

    graph = graph_of(call, ("approve", approve), checkpointer=InMemorySaver())
    async with asyncio.timeout(60), client_for(acp_agent(graph), tmp_path) as client:
        client.answer_permission()
        client.choose = "allow_always"
        session = await client.new()
        for path in ("a.txt", "a.txt", "/", "/"):
            await client.prompt(session, path)

        assert client.text == "approve" * 4
        assert [asked.tool_call.raw_input for asked in client.asked] == [{"path": "a.txt"}, {"path": "/"}]


async def test_a_tool_that_is_cancelled_with_its_turn_is_not_left_running(tmp_path: Path) -> None:
    began = asyncio.Event()

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", tool_calls=[{"name": "read_file", "args": {"path": "a"}, "id": "c1"}])]}

    async def wait(state: MessagesState) -> dict[str, Any]:
        began.set()
        return await asyncio.Future()

    async with asyncio.timeout(60), client_for(acp_agent(graph_of(call, ("wait", wait))), tmp_path) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "go"))
        await began.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert client.of(v1.ToolCallUpdate)[-1].status == "failed"


def graph_with_mcp(checkpointer: Any = None) -> Any:
    """Return a graph whose model calls the tool `echo` of an MCP server once, and then answers."""
    call = {"name": "small__echo", "args": {"path": "a.txt"}, "id": "c1"}
    model = FakeMessagesListChatModel(responses=[AIMessage("", tool_calls=[call]), AIMessage("echoed")])

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def run(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        tools = {each.function_name: each for each in config.get("configurable", {}).get("mcp_tools", [])}
        message = state["messages"][-1]
        assert isinstance(message, AIMessage)
        [asked] = message.tool_calls
        if asked["name"] not in tools:
            return {"messages": [ToolMessage("no such tool", tool_call_id=asked["id"], status="error")]}
        result = await tools[asked["name"]](**asked["args"])
        return {"messages": [ToolMessage(result.text, tool_call_id=asked["id"])]}

    return graph_of(ask, ("run", run), ("answer", ask), checkpointer=checkpointer)


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["kept by us", "kept by the graph"])
async def test_the_mcp_servers_of_the_client_are_connected_and_nodes_call_their_tools(
    tmp_path: Path, checkpointer: Any
) -> None:
    server = small(env={"STARTS": str(tmp_path / "starts")})
    agent = acp_agent(graph_with_mcp(checkpointer), mcp=True)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        assert client.hello.agent_capabilities.mcp_capabilities.http
        environment = [v1.EnvVariable(name=name, value=value) for name, value in server.env.items()]
        stdio = v1.McpServerStdio(name=server.name, command=server.command, args=server.args, env=environment)
        session = await client.new(mcp_servers=[stdio])

        assert (await client.prompt(session, "echo a.txt")).stop_reason == "end_turn"
        assert client.text == "echoed"
        (call,) = client.of(v1.ToolCall)
        assert (call.title, call.raw_input) == ('small__echo(path="a.txt")', {"path": "a.txt"})
        last = client.of(v1.ToolCallUpdate)[-1]
        assert (last.status, last.raw_output) == ("completed", '{"path": "a.txt"}')
    assert (tmp_path / "starts").read_text() == "+-"  # one process, which listed its tools once


@pytest.mark.fault("MCP-11")
@pytest.mark.parametrize("has_extra", [True, False])
async def test_a_graph_that_cannot_use_mcp_answers_and_says_so_once(
    tmp_path: Path, has_extra: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `mcp=True`, and with it where the extra is not installed."""
    if not has_extra:
        monkeypatch.setitem(sys.modules, "mcp", None)
    starts = tmp_path / "starts"
    agent = acp_agent(graph_with_mcp(), mcp=not has_extra)
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True, **EVERYTHING) as client:
        stdio = v1.McpServerStdio(name="small", command="/bin/sh", args=["-c", f"echo > {starts}"], env=[])
        session = await client.new(mcp_servers=[stdio])

        assert (await client.prompt(session, "echo a.txt")).stop_reason == "end_turn"
        assert client.text == "echoed"
        assert client.of(v1.ToolCallUpdate)[-1].status == "failed"
        (notice,) = client.of(v1.Notice)
        reason = "this agent does not use them" if has_extra else "pip install 'duologue[mcp]'"
        assert reason in (notice.description or "")
    assert not starts.exists()


def test_a_graph_that_is_not_compiled_is_rejected_at_construction() -> None:
    with pytest.raises(TypeError, match=r"is not compiled; write `acp_agent\(graph.compile\(\), …\)`"):
        acp_agent(StateGraph(MessagesState))
