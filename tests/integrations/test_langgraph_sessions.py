"""Sessions of a LangGraph graph: forks, restarts, settings, slash commands, and turns that were stopped."""

# LangGraph and LangChain leave much of their types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from duologue import Settings, choice
from duologue.errors import RequestError
from duologue.integrations.langgraph import acp_agent
from duologue.schema import v1
from duologue.store.memory import MemoryStore
from tests.agent.wire_client import client_for
from tests.integrations.test_langgraph_conversation import calling, graph_of

CHECKPOINTERS = pytest.mark.parametrize("has_checkpointer", [False, True], ids=["no checkpointer", "checkpointer"])


def counter(has_checkpointer: bool, node: Any = None) -> Any:
    """Return a graph that answers with the number of messages it sees."""

    def count(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{len(state['messages'])} ")]}

    graph = StateGraph(MessagesState)
    graph.add_node("count", node or count)
    graph.add_edge(START, "count")
    return graph.compile(checkpointer=InMemorySaver() if has_checkpointer else None)


@CHECKPOINTERS
async def test_a_fork_begins_with_the_history_of_its_original_and_goes_its_own_way(
    tmp_path: Path, has_checkpointer: bool
) -> None:
    agent = acp_agent(counter(has_checkpointer), unstable=True)
    async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
        original = await client.new()
        await client.prompt(original, "one")
        fork = await client.fork(original)
        await client.prompt(original, "two")
        await client.prompt(fork, "three")
        second = await client.fork(fork)
        for session in (original, second, fork):
            await client.prompt(session, "next")

        assert client.text == "1 3 3 5 5 5 "


@pytest.mark.filterwarnings("ignore:sessions are stored on disk")
@CHECKPOINTERS
async def test_a_session_is_loaded_with_its_history_after_a_restart(tmp_path: Path, has_checkpointer: bool) -> None:
    graph = counter(has_checkpointer)  # with its checkpointer, as if that were on disk
    session = ""
    for prompt in ("one", "two"):
        agent = acp_agent(graph)
        agent.persist_sessions(tmp_path / "sessions")
        async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
            if session:
                await client.load(session)
            session = session or await client.new()
            await client.prompt(session, prompt)
    assert client.text == "1 3 "


def test_sessions_on_disk_with_a_checkpointer_in_memory_are_a_warning_at_the_line_that_stores_them(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    acp_agent(counter(has_checkpointer=False)).persist_sessions(tmp_path)
    agent = acp_agent(counter(has_checkpointer=True))
    agent.persist_sessions(MemoryStore())
    assert list(recwarn) == []

    with pytest.warns(UserWarning, match="history in memory and loses it .* `AsyncSqliteSaver`") as warned:
        agent.persist_sessions(tmp_path)
    assert warned[0].filename == __file__


@pytest.mark.filterwarnings("ignore:sessions are stored on disk")
async def test_a_thread_that_the_checkpointer_lost_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = ""
    for prompt in ("one", "two"):
        agent = acp_agent(counter(has_checkpointer=True))  # another checkpointer in memory each time
        agent.persist_sessions(tmp_path / "sessions")
        async with asyncio.timeout(60), client_for(agent, tmp_path) as client:
            if session:
                await client.resume(session)
            session = session or await client.new()
            await client.prompt(session, prompt)
    assert client.text == "1 "
    assert f"no thread {session}, so the graph starts without its history" in caplog.text


@CHECKPOINTERS
async def test_a_turn_that_was_stopped_or_failed_stays_in_the_history(tmp_path: Path, has_checkpointer: bool) -> None:
    began = asyncio.Event()

    async def work(state: MessagesState) -> dict[str, Any]:
        prompt = str(state["messages"][-1].text)
        if prompt == "wait":
            began.set()
            await asyncio.Event().wait()
        if prompt == "fail":
            raise RuntimeError("broken")
        return {"messages": [AIMessage(f"{len(state['messages'])} ")]}

    async with asyncio.timeout(60), client_for(acp_agent(counter(has_checkpointer, work)), tmp_path) as client:
        session = await client.new()
        turn = asyncio.ensure_future(client.prompt(session, "wait"))
        await began.wait()
        await client.cancel(session)
        assert (await turn).stop_reason == "cancelled"
        with pytest.raises(RequestError):
            await client.prompt(session, "fail")
        await client.prompt(session, "go on")
        assert client.text == "3 "


@CHECKPOINTERS
async def test_settings_reach_the_nodes_and_slash_commands_clear_and_send_prompts(
    tmp_path: Path, has_checkpointer: bool
) -> None:
    class Choices(Settings):
        model = choice("small", "large", category="model")
        mode = choice("ask", "code", category="mode")

    def answer(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        chosen = config.get("configurable", {})
        seen = f"{chosen['model']} {chosen['mode']} {len(state['messages'])} {state['messages'][-1].text}; "
        return {"messages": [AIMessage(seen)]}

    graph = counter(has_checkpointer, answer)
    agent = acp_agent(graph, settings=Choices, commands={"review": "Review {argument}"})
    async with asyncio.timeout(60), client_for(agent, tmp_path, validate=True) as client:
        session = await client.new()
        await client.until_updates(v1.AvailableCommandsUpdate)
        [update] = client.of(v1.AvailableCommandsUpdate)
        assert [each.name for each in update.available_commands] == ["clear", "review"]
        await client.prompt(session, "hi")
        chosen = v1.SetSessionConfigOptionId(session_id=session, config_id="model", value="large")
        await client.connection.request(v1.SESSION_SET_CONFIG_OPTION, chosen)
        await client.set_mode(session, "code")
        await client.prompt(session, "/review a.py")
        assert client.text == "small ask 1 hi; large code 3 Review a.py; "
        await client.prompt(session, "/clear")
        await client.prompt(session, "hi")
        assert client.text.endswith("so far.large code 1 hi; ")


async def test_a_conversation_of_several_turns(tmp_path: Path) -> None:
    """A tool, a tool that asks, a denial, an answer from memory: with the library's fake model."""
    graph = graph_of(
        calling("count", 1),
        AIMessage("Three."),
        calling("delete_file", 2),
        AIMessage("Deleted."),
        calling("delete_file", 3),
        AIMessage("Kept."),
        AIMessage("We counted."),
        checkpointer=InMemorySaver(),
    )
    async with asyncio.timeout(60), client_for(acp_agent(graph, unstable=True), tmp_path, validate=True) as client:
        client.answer_permission()
        session = await client.new()
        await client.prompt(session, "count")
        await client.prompt(session, "delete a")
        client.choose = "reject_once"
        await client.prompt(session, "delete a again")
        ended = await client.prompt(session, "what did we do?")

        assert client.text == "Three.Deleted.Kept.We counted."
        assert [call.title.partition("(")[0] for call in client.of(v1.ToolCall)] == [
            "count",
            "delete_file",
            "delete_file",
        ]
        assert [asked.tool_call.raw_input for asked in client.asked] == [{"path": "a"}] * 2
        assert client.statuses[-1] == "failed"
        assert ended.stop_reason == "end_turn"
