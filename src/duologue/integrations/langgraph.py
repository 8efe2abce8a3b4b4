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

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from duologue.agent.agent import Agent
from duologue.agent.diagnostics.values import check_tool_call
from duologue.agent.turn import Turn
from duologue.conversation.content import AudioContent, Content, ImageContent, Resource, ResourceLink, TextContent
from duologue.conversation.work_state import FINAL_STATUSES, TokenUsage, ToolKind
from duologue.errors import InternalError
from duologue.integrations.tool_calls import ToolCalls, missing_extra, to_json, tool_title
from duologue.protocol.feature_filter import Unstable
from duologue.store.memory import MemoryStore

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        HumanMessage,
        ToolMessage,
        messages_from_dict,
        messages_to_dict,
    )
    from langchain_core.messages.ai import UsageMetadata, add_usage
    from langchain_core.outputs import LLMResult
    from langchain_core.runnables.config import merge_configs
    from langgraph.errors import GraphInterrupt, GraphRecursionError
    from langgraph.types import Command, interrupt
except ImportError as error:
    raise missing_extra(error, "langgraph") from error

__all__ = ["acp_agent"]

STATE = "langgraph.messages"
"""Key in `session.state` of the messages of a graph without a checkpointer."""

NEEDS_CHECKPOINTER = (
    "only a checkpointer can continue it: compile it with `checkpointer=InMemorySaver()` or another one"
)

OnInterrupt: TypeAlias = Callable[[Turn[Any], Any], Awaitable[Any]]
"""Returns the value to resume with for the value of an interrupt."""

OnCustom: TypeAlias = Callable[[Turn[Any], Any], Awaitable[None]]
"""Shows a value of the custom stream."""


def acp_agent(
    graph: Any,
    *,
    name: str = "langgraph",
    version: str = "0.0.0",
    kinds: Mapping[str, ToolKind] | None = None,
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
        on_interrupt: Handles interrupts. Default: a permission request, resumed with `True` or `False` (or with
            decisions, for the interrupts of LangChain's approval middleware).
        on_custom: Shows what nodes and tools write to the custom stream. Default: in the tool call that is open, or as
            a thought.
        config: Configuration of every run, as for `graph.invoke`: `{"recursion_limit": 50}`.
        mcp: Connect the MCP servers that clients name. The nodes of the graph find their tools (`McpTool`) in
            `config["configurable"]["mcp_tools"]`; needs the extra `mcp`.
        unstable: Unstable features to offer; see `Agent`.

    Raises:
        ValueError: A node or tool of the graph calls `interrupt()`, and the graph has no checkpointer.
    """
    _check_checkpointer(graph)
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
        return await _Run(graph, turn, kinds, on_interrupt, on_custom, config or {}).run()

    return served


class _Callbacks(BaseCallbackHandler):
    """Collector of what the stream of a run leaves out: tokens of every model call, and the tool calls of interrupts.

    Attributes:
        usage: Tokens of all model calls so far.
        calls: The id of the tool call in which an interrupt was raised, by the id of the interrupt.
    """

    run_inline = True

    def __init__(self) -> None:
        self.usage: UsageMetadata | None = None
        self.calls: dict[str, str] = {}

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        for generation in response.generations[0] if response.generations else []:
            message = getattr(generation, "message", None)
            if isinstance(message, AIMessage) and message.usage_metadata:
                self.usage = add_usage(self.usage, message.usage_metadata)

    def on_tool_error(self, error: BaseException, *, tool_call_id: str | None = None, **_: Any) -> None:
        if isinstance(error, GraphInterrupt) and tool_call_id is not None:
            self.calls.update({each.id: tool_call_id for each in error.args[0]})


class _Run:
    """One turn: runs the graph from the prompt to its end, with the interrupts in between."""

    def __init__(
        self,
        graph: Any,
        turn: Turn[Any],
        kinds: Mapping[str, ToolKind] | None,
        on_interrupt: OnInterrupt | None,
        on_custom: OnCustom | None,
        config: Mapping[str, Any],
    ) -> None:
        self._graph = graph
        self._turn = turn
        self._on_interrupt = on_interrupt
        self._on_custom = on_custom or self._show_custom
        self._config = config
        self._tools = ToolCalls(turn, kinds)
        self._calls: dict[str, tuple[str, Any]] = {}
        self._callbacks = _Callbacks()
        self._sent_ids: set[str] = set()
        self._earlier_ids: set[str | None] = set()
        """Messages of earlier turns: a subgraph that is a node returns them again."""
        self._messages: list[BaseMessage] = []

    async def run(self) -> str:
        has_checkpointer = _has_checkpointer(self._graph)
        config = await self._run_config()
        history = await self._history(config if has_checkpointer else None)
        self._earlier_ids = {message.id for message in history if message.id is not None}
        prompt = HumanMessage(content=[_to_langchain(block) for block in self._turn.prompt])
        added = [*_missing_results(history), prompt]
        graph_input: Any = {"messages": added if has_checkpointer else [*history, *added]}
        try:
            async with self._tools:
                await self._run_to_end(graph_input, config)
        except GraphRecursionError:
            return "max_turn_requests"
        finally:
            self._report_tokens()
        if not has_checkpointer:
            self._turn.session.state[STATE] = messages_to_dict(self._messages)
        return "end_turn"

    async def _history(self, config: Any) -> list[BaseMessage]:
        """Return the messages of the turns before; `config` names the thread of a graph with a checkpointer."""
        if config is None:
            return messages_from_dict(self._turn.session.state.get(STATE, []))
        return _messages_in((await self._graph.aget_state(config)).values)

    async def _run_to_end(self, graph_input: Any, config: Any) -> None:
        while interrupts := await self._run_once(graph_input, config):
            if not _has_checkpointer(self._graph):
                raise InternalError(f"the graph was interrupted, and {NEEDS_CHECKPOINTER}")
            answers = {key: await self._answer(each) for key, each in interrupts.items()}
            graph_input = Command(resume=answers if len(answers) > 1 else next(iter(answers.values())))

    async def _answer(self, interrupt: Any) -> Any:
        if self._on_interrupt is not None:
            return await self._on_interrupt(self._turn, interrupt.value)
        return await self._ask_permission(interrupt)

    async def _run_config(self) -> Any:
        own: dict[str, Any] = {"thread_id": self._turn.session.id}
        session = self._turn.session
        if session.has_mcp:
            await session.mcp.ready()
            own["mcp_tools"] = session.mcp.tools
        return merge_configs(cast("Any", self._config), {"configurable": own, "callbacks": [self._callbacks]})

    async def _run_once(self, graph_input: Any, config: Any) -> dict[str, Any]:
        """Run to the end or to the next interrupts; return the interrupts by their ids."""
        interrupts: dict[str, Any] = {}
        modes = ["messages", "updates", "custom", "values"]
        async for namespace, mode, event in self._graph.astream(graph_input, config, stream_mode=modes, subgraphs=True):
            if mode == "messages":
                await self._on_message(event[0])
            elif mode == "custom":
                await self._on_custom(self._turn, event)
            elif mode == "updates":
                for node, change in event.items():
                    if node == "__interrupt__":  # from a subgraph it arrives once per level
                        interrupts.update({each.id: each for each in change})
                    else:
                        await self._on_state_change(change)
            elif not namespace:
                self._messages = _messages_in(event)
        return interrupts

    def _report_tokens(self) -> None:
        if (usage := self._callbacks.usage) is None:
            return
        read, written = usage.get("input_token_details", {}), usage.get("output_token_details", {})
        self._turn.tokens = TokenUsage(
            total=usage["total_tokens"],
            input=usage["input_tokens"],
            output=usage["output_tokens"],
            thought=written.get("reasoning"),
            cached_read=read.get("cache_read"),
            cached_write=read.get("cache_creation"),
        )

    async def _on_message(self, message: BaseMessage) -> None:
        """Send text and thoughts: chunks from a model that streams, or a complete message from a node."""
        if not isinstance(message, AIMessage) or message.id in self._earlier_ids:
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
            if message.id in self._earlier_ids:
                continue
            if isinstance(message, AIMessage):
                for call in message.tool_calls:
                    await self._tool(call["id"] or "", call["name"], call["args"])
            elif isinstance(message, ToolMessage):
                await self._result(message)

    async def _tool(self, call_id: str, name: str, arguments: Any) -> None:
        before = self._calls.get(call_id)
        self._calls[call_id] = (name, arguments)
        if before is None:
            await self._tools.open(call_id, name, arguments)
        elif before != (name, arguments):  # sent again: an approval has changed its arguments
            known = self._tools.handles[call_id]
            await known.update(title=tool_title(name, arguments), status=known.status, raw_input=arguments)

    async def _result(self, message: ToolMessage) -> None:
        text = message.content if isinstance(message.content, str) else str(message.content)
        await self._tools.finish(message.tool_call_id, text, text, is_error=message.status == "error")

    async def _show_custom(self, turn: Turn[Any], value: Any) -> None:
        """Show what a node or tool wrote to the custom stream: in the only open tool call, or else as a thought."""
        text = value if isinstance(value, str) else to_json(value)
        running = [tool for tool in self._tools.handles.values() if tool.status not in FINAL_STATUSES]
        if len(running) == 1:
            await running[0].show(text)
        else:
            await turn.think(f"{text}\n")

    async def _ask_permission(self, interrupt: Any) -> Any:
        """Answer an interrupt by a permission request."""
        value = interrupt.value
        requests = value.get("action_requests") if isinstance(value, dict) else None
        if isinstance(requests, list):
            decisions = [await self._allowed(str(each.get("name", "")), each.get("args")) for each in requests]
            return {"decisions": [{"type": "approve" if allowed else "reject"} for allowed in decisions]}
        tool = self._tools.handles.get(self._callbacks.calls.get(interrupt.id, ""))
        if tool is None or tool.status in FINAL_STATUSES:
            return await self._allowed(_title_of(value), value)
        # "Always" covers what is shown: this tool, its arguments, and the whole value of the interrupt.
        await tool.show(value if isinstance(value, str) else to_json(value), replace=True, status="pending")
        return await tool.request_permission()

    async def _allowed(self, title: str, raw: Any) -> bool:
        """Request permission for the pending tool call that this is about, or else for a new one."""
        for call_id, call in self._calls.items():
            if call == (title, raw) and self._tools.handles[call_id].status == "pending":
                return await self._tools.handles[call_id].request_permission()
        async with self._turn.tool(title, self._tools.kind_of(title), raw_input=raw) as tool:
            return await tool.request_permission()


def _has_checkpointer(graph: Any) -> bool:
    return bool(getattr(graph, "checkpointer", None))


def _missing_results(history: list[BaseMessage]) -> list[ToolMessage]:
    """Return results for tool calls that never got one, because their turn was cancelled; providers require them."""
    answered = {message.tool_call_id for message in history if isinstance(message, ToolMessage)}
    last = next((message for message in reversed(history) if isinstance(message, AIMessage)), None)
    calls = [] if last is None else [call for call in last.tool_calls if call["id"] not in answered]
    text = "The user cancelled this before it was done."
    return [ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error") for call in calls]


def _check_checkpointer(graph: Any) -> None:
    """Check that a graph that can be interrupted has a checkpointer, as far as its functions show that.

    Raises:
        ValueError: It has none.
    """
    if _has_checkpointer(graph) or not hasattr(graph, "get_subgraphs"):
        return
    for part in (graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))):
        for name, node in getattr(part, "nodes", {}).items():
            if any(_can_interrupt(function, set()) for function in _functions_of(node.bound)):
                raise ValueError(f"the node {name!r} of this graph calls `interrupt()`, and {NEEDS_CHECKPOINTER}")


def _functions_of(runnable: Any) -> list[Any]:
    """Return the functions of a node; of a node that runs tools, those of the tools."""
    tools = getattr(runnable, "tools_by_name", {}).values()
    functions = [getattr(runnable, "func", None), getattr(runnable, "afunc", None)]
    return [*functions, *(getattr(tool, key, None) for tool in tools for key in ("func", "coroutine"))]


def _can_interrupt(function: Any, checked: set[int]) -> bool:
    """Return True if a function, or another function of its module that it uses, refers to `interrupt`."""
    function = inspect.unwrap(getattr(function, "__func__", getattr(function, "func", function)))
    if not inspect.isfunction(function) or id(function) in checked:
        return False
    checked.add(id(function))
    variables = inspect.getclosurevars(function)
    used = [*variables.globals.values(), *variables.nonlocals.values()]
    own = [each for each in used if getattr(each, "__module__", None) == function.__module__]
    return interrupt in used or any(_can_interrupt(each, checked) for each in own)


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
