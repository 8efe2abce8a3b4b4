"""Serve a LangGraph graph as an ACP agent.

    from duologue.integrations.langgraph import acp_agent

    acp_agent(graph, name="my-graph").run()

The graph's state must have `messages`. Text and thoughts stream, tool calls are shown, interrupts request permission,
cancelling ends the run. A graph with a checkpointer stores its own history under the session's id; otherwise the
session stores it.
"""

# LangGraph and LangChain are only partly typed.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from duologue.agent.agent import Agent
from duologue.agent.diagnostics.values import check_tool_call
from duologue.agent.turn import Turn
from duologue.conversation.content import AudioContent, Content, ImageContent, Resource, ResourceLink, TextContent
from duologue.conversation.work_state import ToolKind
from duologue.integrations.tool_calls import ToolCalls, missing_extra
from duologue.protocol.feature_filter import Unstable
from duologue.store.memory import MemoryStore

try:
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        HumanMessage,
        ToolMessage,
        messages_from_dict,
        messages_to_dict,
    )
    from langgraph.errors import GraphRecursionError
    from langgraph.types import Command
except ImportError as error:
    raise missing_extra(error, "langgraph") from error

__all__ = ["acp_agent"]

STATE = "langgraph.messages"
"""Key in `session.state` of the messages of a graph without a checkpointer."""

OnInterrupt: TypeAlias = Callable[[Turn[Any], Any], Awaitable[Any]]
"""Returns the value to resume with for the value of an interrupt."""


def acp_agent(
    graph: Any,
    *,
    name: str = "langgraph",
    version: str = "0.0.0",
    kinds: Mapping[str, ToolKind] | None = None,
    on_interrupt: OnInterrupt | None = None,
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
        on_interrupt: Handles interrupts. Default: a permission request, resumed with `True` or `False` (or with
            decisions, for the interrupts of LangChain's approval middleware).
        config: Configuration of every run, as for `graph.invoke`: `{"recursion_limit": 50}`.
        mcp: Connect the MCP servers that clients name. The nodes of the graph find their tools (`McpTool`) in
            `config["configurable"]["mcp_tools"]`; needs the extra `mcp`.
        unstable: Unstable features to offer; see `Agent`.
    """
    for kind in (kinds or {}).values():
        check_tool_call(kind)
    served: Agent[Any] = Agent(
        name,
        version=version,
        accepts=("image", "audio", "resource"),
        mcp=mcp,
        store=MemoryStore(),
        auto_title=True,
        unstable=unstable,
    )

    @served.on_prompt
    async def answer(turn: Turn[Any]) -> str:
        return await _Run(graph, turn, kinds, on_interrupt, config or {}).run()

    return served


class _Run:
    """One turn: runs the graph from the prompt to its end, with the interrupts in between."""

    def __init__(
        self,
        graph: Any,
        turn: Turn[Any],
        kinds: Mapping[str, ToolKind] | None,
        on_interrupt: OnInterrupt | None,
        config: Mapping[str, Any],
    ) -> None:
        self._graph = graph
        self._turn = turn
        self._on_interrupt = on_interrupt or self._ask_permission
        self._config = config
        self._tools = ToolCalls(turn, kinds)
        self._calls: dict[str, tuple[str, Any]] = {}
        self._sent_ids: set[str] = set()
        self._messages: list[BaseMessage] = []

    async def run(self) -> str:
        has_checkpointer = bool(getattr(self._graph, "checkpointer", None))
        message = HumanMessage(content=[_to_langchain(block) for block in self._turn.prompt])
        if not has_checkpointer:
            self._messages = messages_from_dict(self._turn.session.state.get(STATE, []))
        self._messages.append(message)
        graph_input: Any = {"messages": [message] if has_checkpointer else list(self._messages)}
        try:
            async with self._tools:
                await self._run_to_end(graph_input)
        except GraphRecursionError:
            return "max_turn_requests"
        if not has_checkpointer:
            self._turn.session.state[STATE] = messages_to_dict(self._messages)
        return "end_turn"

    async def _run_to_end(self, graph_input: Any) -> None:
        while interrupts := await self._run_once(graph_input):
            answers = {each.id: await self._on_interrupt(self._turn, each.value) for each in interrupts}
            graph_input = Command(resume=answers if len(answers) > 1 else next(iter(answers.values())))

    async def _mcp_tools(self) -> dict[str, Any]:
        session = self._turn.session
        if not session.has_mcp:
            return {}
        await session.mcp.ready()
        return {"mcp_tools": session.mcp.tools}

    async def _run_once(self, graph_input: Any) -> list[Any]:
        """Run to the end or to the next interrupts; return the interrupts."""
        own = {**self._config.get("configurable", {}), "thread_id": self._turn.session.id, **await self._mcp_tools()}
        config = {**self._config, "configurable": own}
        interrupts: list[Any] = []
        async for mode, event in self._graph.astream(graph_input, config, stream_mode=["messages", "updates"]):
            if mode == "messages":
                await self._on_message(event[0])
                continue
            for node, change in event.items():
                if node == "__interrupt__":
                    interrupts += list(change)
                else:
                    await self._on_state_change(change)
        return interrupts

    async def _on_message(self, message: BaseMessage) -> None:
        """Send text and thoughts: chunks from a model that streams, or a complete message from a node."""
        if not isinstance(message, AIMessage):
            return
        if not isinstance(message, AIMessageChunk) and message.id in self._sent_ids:
            return
        if message.id is not None:
            self._sent_ids.add(message.id)
        for block in message.content_blocks:
            if block["type"] == "text" and block["text"]:
                await self._turn.say(block["text"])
            elif block["type"] == "reasoning" and (thought := block.get("reasoning")):
                await self._turn.think(thought)

    async def _on_state_change(self, change: Any) -> None:
        for message in _messages_in(change):
            self._messages.append(message)
            if isinstance(message, AIMessage):
                for call in message.tool_calls:
                    await self._tool(call["id"] or "", call["name"], call["args"])
            elif isinstance(message, ToolMessage):
                await self._result(message)

    async def _tool(self, call_id: str, name: str, arguments: Any) -> None:
        self._calls[call_id] = (name, arguments)
        known = self._tools.handles.get(call_id)
        if known is None:
            await self._tools.open(call_id, name, arguments)
        else:  # sent again: an approval has changed its arguments
            await known.update(status=known.status, raw_input=arguments)

    async def _result(self, message: ToolMessage) -> None:
        text = message.content if isinstance(message.content, str) else str(message.content)
        await self._tools.finish(message.tool_call_id, text, text, is_error=message.status == "error")

    async def _ask_permission(self, turn: Turn[Any], value: Any) -> Any:
        """Answer an interrupt by a permission request."""
        requests = value.get("action_requests") if isinstance(value, dict) else None
        if isinstance(requests, list):
            decisions = [await self._allowed(str(each.get("name", "")), each.get("args")) for each in requests]
            return {"decisions": [{"type": "approve" if allowed else "reject"} for allowed in decisions]}
        return await self._allowed(_title_of(value), value)

    async def _allowed(self, title: str, raw: Any) -> bool:
        """Request permission for the pending tool call that this is about, or else for a new one."""
        for call_id, call in self._calls.items():
            if call == (title, raw) and self._tools.handles[call_id].status == "pending":
                return await self._tools.handles[call_id].request_permission()
        async with self._turn.tool(title, self._tools.kind_of(title), raw_input=raw) as tool:
            return await tool.request_permission()


def _title_of(value: Any) -> str:
    if isinstance(value, dict):
        for key in ("question", "action", "title", "description", "message"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return value if isinstance(value, str) else "Go on?"


def _messages_in(change: Any) -> list[BaseMessage]:
    found = change.get("messages", []) if isinstance(change, dict) else []
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, BaseMessage)]


def _to_langchain(block: Content) -> dict[str, Any]:
    match block:
        case TextContent(text=text):
            return {"type": "text", "text": text}
        case ImageContent(data=data, mime_type=kind):
            return {"type": "image", "base64": data, "mime_type": kind}
        case AudioContent(data=data, mime_type=kind):
            return {"type": "audio", "base64": data, "mime_type": kind}
        case Resource(text=str(text), uri=uri):
            return {"type": "text", "text": f"<resource uri={uri!r}>\n{text}\n</resource>"}
        case Resource(blob=str(blob), mime_type=kind):
            return {"type": "file", "base64": blob, "mime_type": kind or "application/octet-stream"}
        case ResourceLink(uri=uri, name=name):
            return {"type": "text", "text": f"[{name}]({uri})"}
        case _:
            return {"type": "text", "text": str(block)}
