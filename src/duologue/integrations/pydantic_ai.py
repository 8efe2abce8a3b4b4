"""Serve an agent made with pydantic-ai as an ACP agent.

    from pydantic_ai import Agent
    from duologue.integrations.pydantic_ai import acp_agent

    acp_agent(Agent("openai:gpt-5", tools=[…])).run()

Text and thoughts stream, tool calls are shown, tools that need approval request permission, cancelling ends the run,
and each session stores the library's message history. The MCP servers that a client names are connected if the extra
`mcp` is installed, and calls of their tools request permission.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from duologue.agent.agent import Agent
from duologue.agent.diagnostics.values import check_tool_call
from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.turn import Turn
from duologue.conversation.content import AudioContent, Content, ImageContent, Resource, ResourceLink, TextContent
from duologue.conversation.work_state import TokenUsage, ToolKind
from duologue.errors import RequestError
from duologue.integrations.tool_calls import ToolCalls, missing_extra
from duologue.protocol.feature_filter import Unstable
from duologue.store.memory import MemoryStore

try:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai import AgentRunResultEvent, BinaryContent, DeferredToolRequests, DeferredToolResults, ToolDenied
    from pydantic_ai import Tool as PydanticTool
    from pydantic_ai.exceptions import ModelRetry, UsageLimitExceeded
    from pydantic_ai.messages import (
        FunctionToolCallEvent,
        FunctionToolResultEvent,
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelResponse,
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
        ToolCallPart,
        UserContent,
    )
    from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
except ImportError as error:
    raise missing_extra(error, "pydantic-ai") from error

if TYPE_CHECKING:
    from duologue.mcp.tools import McpTool

__all__ = ["acp_agent"]

D = TypeVar("D")

STATE = "pydantic_ai.messages"
"""Key in `session.state` of the library's message history."""


def acp_agent(
    agent: PydanticAgent[D, Any],
    *,
    name: str | None = None,
    version: str = "0.0.0",
    deps: Callable[[Turn[Any]], D] | None = None,
    kinds: Mapping[str, ToolKind] | None = None,
    unstable: Unstable = False,
) -> Agent[Any]:
    """Return an `Agent` that answers prompts with this one; sessions are stored in memory, see `persist_sessions`.

    Args:
        agent: An agent made with pydantic-ai.
        name: The agent's name; the name of `agent` if not given.
        version: The agent's version.
        deps: Returns the dependencies of a run for a turn.
        kinds: Kinds of tools by name, where the name alone is not enough: `{"deploy": "execute"}`.
        unstable: Unstable features to offer; see `Agent`.
    """
    for kind in (kinds or {}).values():
        check_tool_call(kind)
    served: Agent[Any] = Agent(
        name or agent.name or "pydantic-ai",
        version=version,
        accepts=("image", "audio", "resource"),
        mcp=True,
        auto_title=True,
        unstable=unstable,
        store=MemoryStore(),
    )

    @served.on_prompt
    async def answer(turn: Turn[Any]) -> str:
        return await _Run(agent, turn, deps, kinds).run()

    return served


class _Run:
    """One turn: one run of the library's agent, or several with approvals in between."""

    def __init__(
        self,
        agent: PydanticAgent[Any, Any],
        turn: Turn[Any],
        deps: Callable[[Turn[Any]], Any] | None,
        kinds: Mapping[str, ToolKind] | None,
    ) -> None:
        self._agent = agent
        self._turn = turn
        self._deps = None if deps is None else deps(turn)
        self._tools = ToolCalls(turn, kinds)
        self._has_sent_text = False
        self._approved_as: dict[str, str] = {}
        """The scope of an "always" answer for each tool of an MCP server; a tool that changes needs a new approval."""

    async def run(self) -> str:
        try:
            async with self._tools:
                output, history = await self._run_to_end()
        except UsageLimitExceeded:
            return "max_turn_requests"
        return await self._finish(output, history)

    async def _run_to_end(self) -> tuple[Any, list[ModelMessage]]:
        history = ModelMessagesTypeAdapter.validate_python(self._turn.session.state.get(STATE, []))
        prompt: list[UserContent] | None = [_to_user_content(block) for block in self._turn.prompt]
        results: DeferredToolResults | None = None
        toolsets = await self._mcp_toolsets()
        while True:
            output, history = await self._run_once(prompt, history, results, toolsets)
            if not isinstance(output, DeferredToolRequests):
                return output, history
            prompt, results = None, await self._approve(output)

    async def _mcp_toolsets(self) -> list[AbstractToolset[Any]]:
        """Return the tools of the MCP servers that the client named; each call requests permission."""
        session = self._turn.session
        if not session.setup.mcp_servers or not session.has_mcp:
            return []
        await session.mcp.ready()
        self._approved_as = {tool.function_name: f"mcp {tool.fingerprint}" for tool in session.mcp.tools}
        return [FunctionToolset([_mcp_tool(tool) for tool in session.mcp.tools])]

    async def _run_once(
        self,
        prompt: list[UserContent] | None,
        history: list[ModelMessage],
        results: DeferredToolResults | None,
        toolsets: list[AbstractToolset[Any]],
    ) -> tuple[Any, list[ModelMessage]]:
        output: Any = None
        run: AbstractAsyncContextManager[AsyncIterator[Any]] = self._agent.run_stream_events(
            prompt,
            message_history=history,
            deferred_tool_results=results,
            output_type=[self._agent.output_type, DeferredToolRequests],
            deps=self._deps,
            toolsets=toolsets,
        )
        async with run as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    output, history = event.result.output, event.result.all_messages()
                    usage = event.result.usage
                    self._turn.tokens = TokenUsage(
                        total=usage.total_tokens, input=usage.input_tokens, output=usage.output_tokens
                    )
                else:
                    await self._show(event)
        return output, history

    async def _show(self, event: Any) -> None:
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                if text:
                    self._has_sent_text = True
                    await self._turn.say(text)
            case PartStartEvent(part=ThinkingPart(content=text)):
                if text:
                    await self._turn.think(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought)):
                if thought:
                    await self._turn.think(thought)
            case FunctionToolCallEvent(part=part):
                await self._tool(part)
            case FunctionToolResultEvent():
                await self._result(event)
            case _:
                pass

    async def _tool(self, part: ToolCallPart) -> ToolCallHandle:
        return await self._tools.open(part.tool_call_id, part.tool_name, part.args_as_dict() if part.args else {})

    async def _result(self, event: FunctionToolResultEvent) -> None:
        part = event.part
        is_error = part.outcome != "success"
        output = None if is_error else part.model_response_object()
        await self._tools.finish(part.tool_call_id, part.model_response_str(), output, is_error=is_error)

    async def _approve(self, requests: DeferredToolRequests) -> DeferredToolResults:
        """Request permission for each call that needs it; reject calls of tools that only run elsewhere."""
        results = DeferredToolResults()
        for call in requests.approvals:
            tool = await self._tool(call)
            server_tool = self._approved_as.get(call.tool_name)
            # "Always" covers these arguments; of a tool of an MCP server, for as long as the tool stays the same.
            covered = None if server_tool is None else f"{server_tool} {call.args_as_json_str()}"
            is_allowed = await tool.request_permission(remember_as=covered)
            results.approvals[call.tool_call_id] = True if is_allowed else ToolDenied("the user did not permit this")
        for call in requests.calls:
            tool = await self._tool(call)
            await tool.fail("this tool cannot be run by the agent")
            results.calls[call.tool_call_id] = "this tool cannot be run by the agent"
        return results

    async def _finish(self, output: Any, history: list[ModelMessage]) -> str:
        if not self._has_sent_text and output is not None:
            await self._turn.say(output if isinstance(output, str) else str(output))
        last = next((message for message in reversed(history) if isinstance(message, ModelResponse)), None)
        reason = None if last is None else last.finish_reason
        if reason == "content_filter":
            return "refusal"  # a refused prompt does not enter the history
        self._turn.session.state[STATE] = ModelMessagesTypeAdapter.dump_python(history, mode="json")
        return "max_tokens" if reason == "length" else "end_turn"


def _mcp_tool(tool: McpTool) -> PydanticTool[Any]:
    async def call(**arguments: Any) -> str:
        try:
            result = await tool(**arguments)
        except RequestError as error:  # the server is gone, or answered with an error: the model may go on without it
            raise ModelRetry(error.message) from error
        if result.is_error:
            raise ModelRetry(result.text)
        return result.text

    made: PydanticTool[Any] = PydanticTool.from_schema(call, tool.function_name, tool.description, tool.input_schema)
    made.requires_approval = True
    return made


def _to_user_content(block: Content) -> UserContent:
    match block:
        case TextContent(text=text):
            return text
        case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
            return BinaryContent(base64.b64decode(data), media_type=kind)
        case Resource(text=str(text), uri=uri):
            return f"<resource uri={uri!r}>\n{text}\n</resource>"
        case Resource(blob=str(blob), mime_type=kind):
            return BinaryContent(base64.b64decode(blob), media_type=kind or "application/octet-stream")
        case ResourceLink(uri=uri, name=name):
            return f"[{name}]({uri})"
        case _:
            return str(block)
