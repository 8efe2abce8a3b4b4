"""Graphs that wait for the user: breakpoints, interrupts of several tools at once, approvals with edited arguments."""

# LangGraph and LangChain leave much of their types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from pathlib import Path
from random import randrange
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send, interrupt

from duologue.integrations.langgraph import acp_agent
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import EVERYTHING, client_for
from tests.integrations.test_langgraph_conversation import calling, graph_of, must_be_accepted


def counting(*, calls: int = 1) -> AIMessage:
    named: Any = [{"name": "count", "args": {"path": str(each)}, "id": f"c{each}"} for each in range(calls)]
    return AIMessage("", tool_calls=named)


@pytest.mark.parametrize("breakpoint_", [{"interrupt_before": ["tools"]}, {"interrupt_after": ["model"]}])
async def test_a_breakpoint_asks_for_each_tool_call_that_would_run_next(
    tmp_path: Path, breakpoint_: dict[str, Any]
) -> None:
    graph = graph_of(counting(calls=2), AIMessage("Three."), checkpointer=InMemorySaver(), **breakpoint_)
    async with asyncio.timeout(60), client_for(acp_agent(graph), tmp_path, validate=True) as client:
        client.answer_permission()
        assert (await client.prompt(await client.new(), "count")).stop_reason == "end_turn"

        assert client.text == "Three."
        calls = client.of(v1.ToolCall)
        assert [asked.tool_call.tool_call_id for asked in client.asked] == [call.tool_call_id for call in calls]
        assert [asked.tool_call.raw_input for asked in client.asked] == [{"path": "0"}, {"path": "1"}]
        assert client.statuses.count("completed") == 2


async def test_a_rejected_breakpoint_ends_the_turn_and_the_next_prompt_starts_with_a_complete_history(
    tmp_path: Path,
) -> None:
    graph = graph_of(counting(calls=2), AIMessage("Fine."), checkpointer=InMemorySaver(), interrupt_before=["tools"])
    async with asyncio.timeout(60), client_for(acp_agent(graph), tmp_path) as client:
        client.answer_permission()
        client.choose = "reject_once"
        session = await client.new()
        assert (await client.prompt(session, "count")).stop_reason == "end_turn"
        assert (client.text, len(client.asked)) == ("", 1)
        assert client.statuses.count("failed") == 2

        await client.prompt(session, "then do not")  # the node checks what providers require
        assert client.text == "Fine."


async def test_a_breakpoint_without_tool_calls_asks_for_the_next_step(tmp_path: Path) -> None:
    def step(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("stepped. ")]}

    steps = StateGraph(MessagesState)
    steps.add_node("first", step)
    steps.add_node("second", step)
    steps.add_edge(START, "first")
    steps.add_edge("first", "second")
    agent = acp_agent(steps.compile(checkpointer=InMemorySaver(), interrupt_before=["second"]))
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        client.answer_permission()
        client.choose = "allow_always"
        session = await client.new()
        await client.prompt(session, "go")
        await client.prompt(session, "again")

        assert client.text == "stepped. " * 4
        [asked] = client.asked
        assert asked.tool_call.title == "Continue with second"
        assert [option.name for option in asked.options][1] == "Always allow this step"


def test_breakpoints_without_a_checkpointer_are_reported_at_once() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("only", lambda state: {})
    graph.add_edge(START, "only")
    with pytest.raises(ValueError, match=r"breakpoints.*checkpointer=InMemorySaver"):
        acp_agent(graph.compile(interrupt_before=["only"]))


def deleting_graph(*, is_sent: bool, is_nested: bool, deleted: list[str]) -> Any:
    """Return a graph whose tools ask before they delete: all in one task, or each in a task of its own."""

    @tool
    async def delete(path: str) -> str:
        """Delete a file."""
        for _ in range(randrange(4)):  # tools of one task reach their interrupts in any order
            await asyncio.sleep(0)
        if not interrupt(f"Delete {path}?"):
            return "kept"
        deleted.append(path)
        return "deleted"

    def ask(state: MessagesState) -> dict[str, Any]:
        must_be_accepted(list(state["messages"]))
        if len(state["messages"]) > 1:
            return {"messages": [AIMessage("Done.")]}
        named: Any = [{"name": "delete", "args": {"path": path}, "id": path} for path in ("a", "b", "c")]
        return {"messages": [AIMessage("", tool_calls=named)]}

    def send(state: MessagesState) -> Any:
        last = state["messages"][-1]
        calls = last.tool_calls if isinstance(last, AIMessage) else []
        return [Send("tools", [call]) for call in calls] or END

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode([delete]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", send if is_sent else tools_condition, ["tools", END])
    graph.add_edge("tools", "model")
    if not is_nested:
        return graph.compile(checkpointer=InMemorySaver())
    outer = StateGraph(MessagesState)
    outer.add_node("inner", graph.compile())
    outer.add_edge(START, "inner")
    return outer.compile(checkpointer=InMemorySaver())


@pytest.mark.fault("PRM-17")
@pytest.mark.parametrize("is_nested", [False, True], ids=["graph", "subgraph"])
@pytest.mark.parametrize("is_sent", [False, True], ids=["one task", "a task each"])
@pytest.mark.parametrize("allowed", ["abc", "ab", "bc", "b", ""])
async def test_of_tools_that_ask_at_the_same_time_none_runs_that_was_rejected(
    tmp_path: Path, is_sent: bool, is_nested: bool, allowed: str
) -> None:
    deleted: list[str] = []
    graph = deleting_graph(is_sent=is_sent, is_nested=is_nested, deleted=deleted)
    async with asyncio.timeout(60), client_for(acp_agent(graph), tmp_path, validate=True) as client:

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def answer(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            client.asked.append(params)
            path = (params.tool_call.raw_input or {})["path"]
            option = "allow_once" if path in allowed else "reject_once"
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=option))

        session = await client.new()
        await client.prompt(session, "delete them")
        assert set(deleted) <= set(allowed)
        if is_sent or allowed == "abc":
            assert set(deleted) == set(allowed)
        assert len(client.of(v1.ToolCall)) == 3
        for asked in client.asked:  # the question is about the tool call that asked it
            shown = str(asked.tool_call.content)
            assert "Delete" not in shown or f"Delete {asked.tool_call.raw_input['path']}?" in shown
        await client.prompt(session, "and now?")
        assert client.text.endswith("Done.")


async def test_an_interrupt_inside_a_subgraph_is_resumed(tmp_path: Path) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("yes" if interrupt("Sure?") else "no")]}

    inner = StateGraph(MessagesState)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    async with (
        asyncio.timeout(60),
        client_for(acp_agent(outer.compile(checkpointer=InMemorySaver())), tmp_path) as client,
    ):
        client.answer_permission()
        await client.prompt(await client.new(), "go")
        assert (client.text, [asked.tool_call.title for asked in client.asked]) == ("yes", ["Sure?"])


@pytest.mark.parametrize("allowed", [["approve", "edit", "reject"], ["approve", "reject"]])
async def test_the_user_edits_the_arguments_that_a_middleware_lets_them_edit(
    tmp_path: Path, allowed: list[str]
) -> None:
    decisions: list[Any] = []

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [calling("count", 1)]}

    def approve(state: MessagesState) -> dict[str, Any]:
        action = {"name": "count", "args": {"path": "a"}}
        configs = [{"action_name": "count", "allowed_decisions": allowed}]
        decisions.append(interrupt({"action_requests": [action], "review_configs": configs}))
        return {"messages": [AIMessage("decided")]}

    graph = StateGraph(MessagesState)
    graph.add_node("call", call)
    graph.add_node("approve", approve)
    graph.add_edge(START, "call")
    graph.add_edge("call", "approve")
    agent = acp_agent(graph.compile(checkpointer=InMemorySaver()))
    async with asyncio.timeout(60), client_for(agent, tmp_path, **EVERYTHING) as client:

        @client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def answer(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            chosen = params.options[2]  # after "always"
            return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=chosen.option_id))

        @client.handlers.on(v1.ELICITATION_CREATE)
        async def fill_in(context: Context, params: Any) -> Any:
            return v1.ElicitationAcceptAction(content={"path": "b"})

        await client.prompt(await client.new(), "count")
        edited = {"type": "edit", "edited_action": {"name": "count", "args": {"path": "b"}}}
        assert decisions == [{"decisions": [edited if "edit" in allowed else {"type": "reject"}]}]
        if "edit" in allowed:
            shown = [update.title for update in client.of(v1.ToolCallUpdate) if update.title]
            assert shown == ['count(path="b")']
