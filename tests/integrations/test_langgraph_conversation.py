"""Whole conversations with a LangGraph graph: the library's test model, tools, interrupts, subgraphs and streams."""

# LangGraph and LangChain leave much of their types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from duologue.integrations.langgraph import acp_agent
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import client_for

USAGE: Any = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}" if interrupt({"question": "Delete it?"}) else "kept"


@tool
def count(path: str) -> str:
    """Count the lines of a file."""
    get_stream_writer()("half done")
    return "3"


def calling(name: str, number: int) -> AIMessage:
    call: Any = {"name": name, "args": {"path": "a"}, "id": f"c{number}"}
    return AIMessage("", tool_calls=[call], usage_metadata=USAGE)


def must_be_accepted(messages: list[BaseMessage]) -> None:
    """Check what providers require: the results of all tool calls come directly after the calls."""
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage) and message.tool_calls:
            results = messages[index + 1 : index + 1 + len(message.tool_calls)]
            found = {each.tool_call_id for each in results if isinstance(each, ToolMessage)}
            assert found == {call["id"] for call in message.tool_calls}


def graph_of(*responses: AIMessage, checkpointer: Any = None, **options: Any) -> Any:
    model = FakeMessagesListChatModel(responses=list(responses))

    async def ask(state: MessagesState) -> dict[str, Any]:
        must_be_accepted(list(state["messages"]))
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode([delete_file, count]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer, **options)


async def test_a_cancelled_interrupt_leaves_a_history_that_providers_accept(tmp_path: Path) -> None:
    graph = graph_of(
        calling("delete_file", 1),
        AIMessage("Cancelled, I see.", usage_metadata=USAGE),
        calling("delete_file", 2),
        AIMessage("Done."),
        checkpointer=InMemorySaver(),
    )
    asked, requests = asyncio.Event(), list[v1.RequestPermissionRequest]()
    async with asyncio.timeout(60), client_for(acp_agent(graph), tmp_path) as client:

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def answer(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            requests.append(params)
            asked.set()
            if len(requests) == 1:
                await asyncio.Event().wait()
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id="allow_once"))

        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "delete a"))
        await asked.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        assert (await client.prompt(session, "well?")).stop_reason == "end_turn"
        assert (await client.prompt(session, "delete a after all")).stop_reason == "end_turn"

        assert client.text == "Cancelled, I see.Done."
        calls = client.of(v1.ToolCall)
        assert [call.title for call in calls] == ['delete_file(path="a")'] * 2  # one for each call of the tool
        assert [each.tool_call.tool_call_id for each in requests] == [call.tool_call_id for call in calls]
        assert client.of(v1.ToolCallUpdate)[-1].raw_output == "deleted a"


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["no checkpointer", "checkpointer"])
async def test_a_subgraph_streams_once_and_earlier_turns_are_not_shown_again(tmp_path: Path, checkpointer: Any) -> None:
    inner = graph_of(calling("count", 1), AIMessage("Three."), calling("count", 2), AIMessage("Still three."))
    del inner.nodes["tools"].bound.tools_by_name["delete_file"]
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner)
    outer.add_edge(START, "inner")
    agent = acp_agent(outer.compile(checkpointer=checkpointer))
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        session = await client.new()
        for prompt in ("count", "again"):
            await client.prompt(session, prompt)

        assert client.text == "Three.Still three."
        assert len(client.of(v1.ToolCall)) == 2
        shown = str([update.content for update in client.of(v1.ToolCallUpdate)])
        assert "half done" in shown


async def test_the_tokens_of_all_model_calls_of_a_turn_are_reported(tmp_path: Path) -> None:
    graph = graph_of(calling("count", 1), AIMessage("Three.", usage_metadata=USAGE), checkpointer=InMemorySaver())
    served = acp_agent(graph, unstable=True)
    async with asyncio.timeout(60), client_for(served, tmp_path) as client:
        ended = await client.prompt(await client.new(), "count")
        assert ended.usage is not None
        assert (ended.usage.total_tokens, ended.usage.input_tokens, ended.usage.output_tokens) == (24, 20, 4)


def test_a_graph_that_interrupts_without_a_checkpointer_is_reported_at_once() -> None:
    with pytest.raises(ValueError, match=r"'tools' of this graph calls `interrupt\(\)`.*checkpointer="):
        acp_agent(graph_of(AIMessage("hello")))
