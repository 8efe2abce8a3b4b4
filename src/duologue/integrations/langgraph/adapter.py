"""An agent of the protocol that answers prompts with a LangGraph graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duologue.agent.agent import Agent
from duologue.agent.diagnostics.checks import check_tool_call
from duologue.agent.session import Session
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.conversation.content import Content
from duologue.conversation.work_state import ToolKind
from duologue.integrations.langgraph.checkpoints import (
    check_checkpointer,
    has_checkpointer,
    open_thread,
    warn_of_memory,
)
from duologue.integrations.langgraph.questions import OnInterrupt
from duologue.integrations.langgraph.run import STATE, GraphOptions, GraphRun, OnCustom
from duologue.integrations.prompt_commands import add_prompt_commands
from duologue.protocol.feature_filter import Unstable
from duologue.store.base import Store
from duologue.store.memory import MemoryStore


class _GraphAgent(Agent[Any]):
    """An agent that answers with a graph, and warns if its sessions are stored for longer than their history."""

    def __init__(self, graph: Any, name: str, **options: Any) -> None:
        check_checkpointer(graph)
        super().__init__(name, **options)
        self._graph = graph

    def persist_sessions(self, where: str | Path | Store) -> None:
        super().persist_sessions(where)
        warn_of_memory(self._graph, self.store)


def acp_agent(
    graph: Any,
    *,
    name: str = "langgraph",
    version: str = "0.0.0",
    kinds: Mapping[str, ToolKind] | None = None,
    settings: type[Settings] | None = None,
    commands: Mapping[str, str] | None = None,
    on_interrupt: OnInterrupt | None = None,
    on_custom: OnCustom | None = None,
    config: Mapping[str, Any] | None = None,
    mcp: bool = False,
    unstable: Unstable = False,
) -> Agent[Any]:
    """Return an `Agent` that answers prompts with this graph; sessions are stored in memory, see `persist_sessions`.

    Args:
        graph: A compiled graph whose state has `messages`.
        name: The agent's name.
        version: The agent's version.
        kinds: Kinds of tools by name, where the name alone is not enough: `{"deploy": "execute"}`.
        settings: Settings that the user can change, such as a model or mode. Nodes find their values by name in
            `config["configurable"]`.
        commands: Prompts by the slash command that sends them: `{"review": "Review the changes in {argument}"}`.
            There is also `/clear`; `@agent.command` registers functions.
        on_interrupt: Handles interrupts. Default: a permission request, resumed with `True` or `False` (or with
            decisions, for the interrupts of LangChain's approval middleware).
        on_custom: Shows what nodes and tools write to the custom stream. Default: in the tool call that is open, or as
            a thought.
        config: Configuration of every run, as for `graph.invoke`: `{"recursion_limit": 50}`.
        mcp: Connect the MCP servers that clients name. The nodes of the graph find their tools (`McpTool`) in
            `config["configurable"]["mcp_tools"]`; needs the extra `mcp`.
        unstable: Unstable features to offer; see `Agent`.

    Raises:
        TypeError: The graph is not compiled.
        ValueError: A node or tool of the graph calls `interrupt()`, or the graph has breakpoints, and it has no
            checkpointer.
    """
    for kind in (kinds or {}).values():
        check_tool_call(kind)
    options = GraphOptions(dict(kinds or {}), on_interrupt, on_custom, config or {})
    served = _GraphAgent(
        graph,
        name,
        version=version,
        settings=settings or Settings,
        accepts=("image", "audio", "resource"),
        mcp=mcp,
        steering=has_checkpointer(graph),
        store=MemoryStore(),
        auto_title=True,
        unstable=unstable,
    )

    async def run(turn: Turn[Any], prompt: list[Content]) -> str:
        return await GraphRun(graph, turn, options).run(prompt)

    @served.on_prompt
    async def answer(turn: Turn[Any]) -> str:
        return await run(turn, turn.prompt)

    @served.on_open
    async def open_session(session: Session[Any]) -> None:
        await open_thread(graph, session)

    @served.command("clear", "Start anew: the graph no longer sees the conversation so far")
    async def clear(turn: Turn[Any], argument: str) -> None:
        turn.session.state.pop(STATE, None)
        if has_checkpointer(graph):
            await graph.checkpointer.adelete_thread(turn.session.id)
        await turn.say("The graph no longer sees the conversation so far.")

    add_prompt_commands(served, commands or {}, run)
    return served
