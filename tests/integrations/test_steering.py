"""Steering of adapters: what the user sends into a turn reaches the model in its next request, in order."""

# LangGraph and LangChain leave much of their types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from duologue import Agent, connect
from duologue.integrations import langgraph, pydantic_ai
from duologue.types import ClientTurn
from tests.agent.test_steering import texts_received
from tests.integrations.test_langgraph_conversation import must_be_accepted

pytestmark = pytest.mark.timeout(60)


class Gates:
    """Points at which a model or tool waits, so that a text arrives exactly there."""

    def __init__(self) -> None:
        self.reached: dict[str, asyncio.Event] = {}
        self.opened: dict[str, asyncio.Event] = {}

    async def wait_at(self, name: str) -> None:
        if name in self.opened:
            self.reached[name].set()
            await self.opened[name].wait()

    def add(self, name: str) -> None:
        self.reached[name], self.opened[name] = asyncio.Event(), asyncio.Event()


def pydantic_agent(gates: Gates, seen: list[list[str]]) -> Agent[Any]:
    """Return an agent that calls a tool once in each turn and then says what it was asked last."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        parts = [part for message in messages for part in message.parts]
        shown = [_text(part) for part in parts if isinstance(part, UserPromptPart | ToolReturnPart)]
        seen.append(shown)
        if shown[-1].startswith("work"):
            await gates.wait_at("first request")
            yield {0: DeltaToolCall(name="step", json_args="{}", tool_call_id=f"c{len(messages)}")}
            return
        yield f"[{shown[-1]}]"
        await gates.wait_at("answer")

    assistant = PydanticAgent(FunctionModel(stream_function=stream))

    @assistant.tool_plain
    async def step() -> str:
        await gates.wait_at("tool")
        return "stepped"

    return pydantic_ai.acp_agent(assistant)


def _text(part: UserPromptPart | ToolReturnPart) -> str:
    if isinstance(part, ToolReturnPart):
        return str(part.content)
    return part.content if isinstance(part.content, str) else "".join(str(item) for item in part.content)


def langgraph_agent(gates: Gates, seen: list[list[str]], checkpointer: Any = None) -> Agent[Any]:
    """Return an agent that does the same with a graph."""

    @tool
    async def step() -> str:
        """Take a step."""
        await gates.wait_at("tool")
        return "stepped"

    async def ask(state: MessagesState) -> dict[str, Any]:
        messages: list[BaseMessage] = list(state["messages"])
        must_be_accepted(messages)
        shown = [str(each.text) for each in messages if not isinstance(each, AIMessage)]
        seen.append(shown)
        if shown[-1].startswith("work") and not isinstance(messages[-1], ToolMessage):
            await gates.wait_at("first request")
            call: Any = {"name": "step", "args": {}, "id": f"c{len(messages)}"}
            return {"messages": [AIMessage("", tool_calls=[call])]}
        await gates.wait_at("answer")
        return {"messages": [AIMessage(f"[{shown[-1]}]")]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode([step]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return langgraph.acp_agent(graph.compile(checkpointer=checkpointer or InMemorySaver()))


ADAPTERS = pytest.mark.parametrize("made", [pydantic_agent, langgraph_agent])


async def steer_at(gates: Gates, name: str, turn: ClientTurn, arrived: asyncio.Semaphore, *texts: str) -> list[str]:
    """Send texts while the agent waits at a gate, and return their outcomes."""
    await gates.reached[name].wait()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for text in texts:
            tasks.append(group.create_task(turn.steer(text)))
            await arrived.acquire()
        gates.opened[name].set()
    return [task.result().outcome for task in tasks]


@ADAPTERS
@pytest.mark.parametrize("gate", ["first request", "tool", "answer"])
async def test_a_text_reaches_the_model_after_the_results_of_its_tools(tmp_path: Path, made: Any, gate: str) -> None:
    gates, seen = Gates(), list[list[str]]()
    gates.add(gate)
    agent = made(gates, seen)
    arrived = texts_received(agent)
    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        assert remote.capabilities.steering
        async with session.prompt("work") as turn:
            assert await steer_at(gates, gate, turn, arrived, "use pytest", "in Python") == ["injected"] * 2
            await turn
        assert turn.stop_reason == "end_turn"
        expected = ["work", "stepped", "use pytest", "in Python"]
        assert seen[-1] == expected
        assert turn.text.endswith("[in Python]")
        assert ("[stepped]" in turn.text) == (gate == "answer")

        await session.ask("and then?")  # the next turn has it in its history
        assert seen[-1] == [*expected, "and then?"]


@ADAPTERS
async def test_a_text_that_comes_too_late_is_the_clients_again(tmp_path: Path, made: Any) -> None:
    agent = made(Gates(), list[list[str]]())
    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        turn = await session.prompt("work")
        assert (await turn.steer("too late")).outcome == "prompt_required"


@ADAPTERS
async def test_a_cancelled_turn_gives_back_what_it_did_not_take(tmp_path: Path, made: Any) -> None:
    gates, seen = Gates(), list[list[str]]()
    gates.add("tool")
    agent = made(gates, seen)
    arrived = texts_received(agent)
    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("work") as turn:
            await gates.reached["tool"].wait()
            async with asyncio.TaskGroup() as group:
                steering = group.create_task(turn.steer("use pytest"))
                await arrived.acquire()
                await turn.cancel()
        assert (turn.stop_reason, steering.result().outcome) == ("cancelled", "prompt_required")
        await session.ask("go on")
        assert "use pytest" not in seen[-1]


@ADAPTERS
async def test_at_any_moment_a_text_reaches_the_model_once_or_is_the_clients_again(tmp_path: Path, made: Any) -> None:
    random, seen = Random(7), list[list[str]]()
    agent = made(Gates(), seen)
    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        given: dict[str, str] = {}

        async def send(turn: ClientTurn, text: str) -> None:
            for _ in range(random.randrange(120)):
                await asyncio.sleep(0)
            given[text] = (await turn.steer(text)).outcome

        for number in range(40):
            async with session.prompt(f"work {number}") as turn, asyncio.TaskGroup() as group:
                for each in range(3):
                    group.create_task(send(turn, f"text {number}.{each}"))
                await turn
            assert turn.stop_reason == "end_turn"

        assert set(given.values()) <= {"injected", "prompt_required"}
        await session.ask("and then?")
        received = [text for text in seen[-1] if text.startswith("text ")]
        assert sorted(received) == sorted(text for text, outcome in given.items() if outcome == "injected")


async def test_a_text_that_a_graph_took_before_it_was_cancelled_is_in_the_next_prompt(tmp_path: Path) -> None:
    gates, seen = Gates(), list[list[str]]()
    gates.add("first request")
    gates.add("tool")
    agent = langgraph_agent(gates, seen)
    arrived = texts_received(agent)
    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("work") as turn:
            assert await steer_at(gates, "first request", turn, arrived, "use pytest") == ["injected"]
            await gates.reached["tool"].wait()
            await turn.cancel()
        assert turn.stop_reason == "cancelled"
        await session.ask("go on")
        assert seen[-1][-2:] == ["use pytest", "go on"]


async def test_a_graph_that_never_answers_its_tool_calls_still_ends_and_then_gets_the_text(tmp_path: Path) -> None:
    steps = 0
    gate, arrived_at = asyncio.Event(), asyncio.Event()

    async def step(state: MessagesState) -> dict[str, Any]:
        nonlocal steps
        steps += 1
        if state["messages"][-1].text == "use pytest":
            return {"messages": [AIMessage("pytest it is")]}
        arrived_at.set()
        await gate.wait()
        call: Any = {"name": "answer", "args": {}, "id": "same"}
        return {"messages": [AIMessage("", id="same", tool_calls=[call])]}

    def following(state: MessagesState) -> str:
        return "step" if steps < 8 else END

    graph = StateGraph(MessagesState)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", following, ["step", END])
    agent = langgraph.acp_agent(graph.compile(checkpointer=InMemorySaver()))
    arrived = texts_received(agent)
    async with connect(agent) as remote, remote.new_session(tmp_path) as session:
        async with session.prompt("work") as turn:
            await arrived_at.wait()
            async with asyncio.TaskGroup() as group:
                steering = group.create_task(turn.steer("use pytest"))
                await arrived.acquire()
                gate.set()
            await turn
        assert steering.result().outcome == "injected"
        assert (turn.stop_reason, turn.text, steps) == ("end_turn", "pytest it is", 9)


async def test_a_graph_without_a_checkpointer_does_not_offer_steering(tmp_path: Path) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("only", lambda state: {"messages": [AIMessage("hello")]})
    graph.add_edge(START, "only")
    async with connect(langgraph.acp_agent(graph.compile())) as remote:
        assert not remote.capabilities.steering
