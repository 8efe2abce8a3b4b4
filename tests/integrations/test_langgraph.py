"""LangGraph graphs, served on the wire of version 1; the nodes answer by themselves, no model needed."""

# LangGraph and LangChain leave much of their types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from duologue.integrations.langgraph import acp_agent
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.editor import editor_for


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
    async with asyncio.timeout(10), editor_for(acp_agent(graph), tmp_path) as editor:
        assert (await editor.prompt(await editor.new(), "read a")).stop_reason == "end_turn"
        assert editor.text == "read it all"
        assert len(editor.of(v1.AgentMessageChunk)) > 1
        (call,) = editor.of(v1.ToolCall)
        assert (call.title, call.kind, call.raw_input) == ("read_file", "read", {"path": "a"})
        assert editor.of(v1.ToolCallUpdate)[-1].status == "completed"


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["kept by us", "kept by the graph"])
async def test_history_is_kept_per_session(tmp_path: Path, checkpointer: Any) -> None:
    def count(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{len(state['messages'])} ")]}

    async with (
        asyncio.timeout(10),
        editor_for(acp_agent(graph_of(count, checkpointer=checkpointer)), tmp_path) as editor,
    ):
        first, second = await editor.new(), await editor.new()
        for session in (first, first, second):
            await editor.prompt(session, "hello")
        assert editor.text == "1 3 1 "


async def test_an_interrupt_asks_for_permission(tmp_path: Path) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer: {interrupt({'question': 'Delete it?'})}")]}

    agent = acp_agent(graph_of(ask, checkpointer=InMemorySaver()))
    async with asyncio.timeout(10), editor_for(agent, tmp_path) as editor:
        titles: list[str | None] = []

        @editor.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def answer(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            titles.append(params.tool_call.title)
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="allow_once"))

        await editor.prompt(await editor.new(), "go")
        assert titles == ["Delete it?"]
        assert editor.text == "answer: True"


async def test_cancelling_ends_the_run_and_an_endless_graph_reaches_its_limit(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait(state: MessagesState) -> dict[str, Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    async with asyncio.timeout(10), editor_for(acp_agent(graph_of(wait)), tmp_path) as editor:
        session = await editor.new()
        turn = asyncio.ensure_future(editor.prompt(session, "go"))
        await began.wait()
        await editor.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert ended.is_set()

    endless = StateGraph(MessagesState)
    endless.add_node("again", lambda state: {})
    endless.add_edge(START, "again")
    endless.add_edge("again", "again")
    served = acp_agent(endless.compile(), config={"recursion_limit": 10})
    async with asyncio.timeout(10), editor_for(served, tmp_path) as editor:
        assert (await editor.prompt(await editor.new(), "go")).stop_reason == "max_turn_requests"
