"""One turn: one run of the library's agent, with approvals in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    ModelRequestNode,
    RunContext,
    ToolApproved,
    ToolDenied,
    capture_run_messages,
)
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import AgentRunError, RunCancelled, ToolFailed, UsageLimitExceeded, UserError
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
from pydantic_ai.usage import RunUsage
from pydantic_core import to_json
from pydantic_graph import End

from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.turn import Turn
from duologue.conversation.content import Content
from duologue.conversation.work_state import TokenUsage, ToolKind
from duologue.errors import InternalError
from duologue.integrations.approval import request_approval
from duologue.integrations.pydantic_ai.content import mcp_tool, to_user_content
from duologue.integrations.pydantic_ai.current_tool import as_current
from duologue.integrations.pydantic_ai.history import load_history, responses_in, save_history
from duologue.integrations.pydantic_ai.modes import RunMode
from duologue.integrations.tool_calls import ToolCalls
from duologue.integrations.tool_calls import to_json as to_readable_json
from duologue.runtime.incoming_requests import text_for_peer


@dataclass(frozen=True)
class RunOptions:
    """Arguments of `acp_agent` that all runs share."""

    deps: Callable[[Turn[Any]], Any] | None
    kinds: Mapping[str, ToolKind]
    models: Mapping[str, Model | str]
    modes: Mapping[str, RunMode]
    more: Callable[[Turn[Any]], Mapping[str, Any]] | None
    title: Callable[[str, Any], str] | None = None

    def model_of(self, turn: Turn[Any]) -> Model | str | None:
        """Return the model that the user chose, if there is a choice."""
        return self.models[turn.settings.model] if self.models else None

    def mode_of(self, turn: Turn[Any]) -> RunMode:
        """Return the mode that the user chose."""
        return self.modes[turn.settings.mode] if self.modes else RunMode()


class PydanticRun:
    """One turn: runs the library's agent from the prompt to its answer."""

    def __init__(self, agent: PydanticAgent[Any, Any], turn: Turn[Any], options: RunOptions) -> None:
        self._agent = agent
        self._turn = turn
        self._options = options
        self._tools = ToolCalls(turn, options.kinds, options.title)
        self._usage = RunUsage()
        self._has_sent_text = False
        self._raised: dict[str, Exception] = {}
        """The exceptions that tools raised, by the ids of the tool calls."""
        self._approved_as: dict[str, str] = {}
        """The scope of an "always" answer for each tool of an MCP server; a tool that changes needs a new approval."""

    @property
    def _mode(self) -> RunMode:
        """The current mode: the user may change it while the turn runs."""
        return self._options.mode_of(self._turn)

    async def run(self, prompt: list[Content]) -> str:
        """Answer a prompt and return the stop reason.

        Raises:
            InternalError: The model or the library failed.
        """
        session = self._turn.session
        earlier = load_history(session)
        answered = responses_in(earlier)
        with capture_run_messages() as messages:
            try:
                async with self._tools:
                    return await self._run_to_end(prompt, earlier)
            except asyncio.CancelledError as error:
                if (cancelled := RunCancelled.from_cancellation(error)) is not None:
                    save_history(session, cancelled.all_messages())
                raise
            except Exception as error:
                if responses_in(messages) > answered:  # otherwise the prompt itself may be what the model cannot take
                    save_history(session, messages)
                if isinstance(error, UsageLimitExceeded):
                    return "max_turn_requests"
                # The model of a provider whose package is missing: the message says which command installs it.
                is_missing = isinstance(error, ImportError) and "pip install" in str(error)
                if is_missing or isinstance(error, AgentRunError | UserError):
                    raise InternalError(f"{type(error).__name__}: {error}") from error
                raise
            finally:
                report_tokens(self._turn, self._usage)

    async def _run_to_end(self, prompt: list[Content], earlier: list[ModelMessage]) -> str:
        """Run the agent; if a tool raises, its call fails with that error, and the other open calls are cancelled."""
        try:
            return await self._run(prompt, earlier)
        except Exception as error:
            failed = [call_id for call_id, raised in self._raised.items() if raised is error]
            if failed:
                # The turn reports the error to the log; its text may have secrets and is not for the client.
                await self._tools.stop(failed[0], text_for_peer(error, debug=self._turn.session._debug))
            raise

    async def _run(self, prompt: list[Content], earlier: list[ModelMessage]) -> str:
        options = self._options
        more: Mapping[str, Any] = {} if options.more is None else options.more(self._turn)
        arguments: dict[str, Any] = {
            "deps": None if options.deps is None else options.deps(self._turn),
            "model": options.model_of(self._turn),
            "instructions": self._mode.instructions,
            **more,
            "message_history": earlier,
            "usage": self._usage,
            "toolsets": [*more.get("toolsets", ()), *await self._mcp_toolsets()],
            "capabilities": [*more.get("capabilities", ()), _TurnCapability(self)],
            "event_stream_handler": self._show_all,
        }
        result = await self._agent.run(to_user_content(prompt), **arguments)
        return await self._finish(result.output, result.all_messages())

    async def _mcp_toolsets(self) -> list[AbstractToolset[Any]]:
        """Return the tools of the session's MCP servers; each call requests permission."""
        session = self._turn.session
        if not session.has_mcp:
            return []
        await session.mcp.ready()
        self._approved_as = {tool.function_name: f"mcp {tool.fingerprint}" for tool in session.mcp.tools}
        return [FunctionToolset([mcp_tool(tool) for tool in session.mcp.tools])]

    async def _show_all(self, _: RunContext[Any], events: AsyncIterable[Any]) -> None:
        async for event in events:
            await self._show(event)

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
                await self.tool(part)
            case FunctionToolResultEvent():
                await self._result(event)
            case _:
                pass

    async def tool(self, part: ToolCallPart) -> ToolCallHandle:
        """Return the tool call that shows a call of the library; announce it if it is new."""
        return await self._tools.open(part.tool_call_id, part.tool_name, _arguments_of(part))

    async def _result(self, event: FunctionToolResultEvent) -> None:
        part = event.part
        is_error = part.outcome != "success"
        output = None if is_error else part.model_response_object()
        await self._tools.finish(part.tool_call_id, part.model_response_str(), output, is_error=is_error)

    def record_error(self, call: ToolCallPart, error: Exception) -> None:
        """Record what a tool raised, in case it ends the run."""
        self._raised[call.tool_call_id] = error

    def offered(self, tools: list[ToolDefinition]) -> list[ToolDefinition]:
        """Return the tools that the model may call in this mode."""
        allowed = self._mode.tools
        return tools if allowed is None else [tool for tool in tools if tool.name in allowed]

    async def add_steering(self, ctx: RunContext[Any]) -> None:
        """Add what the user sent into the turn to the next model request."""
        for message in await self._turn.take_steering():
            ctx.enqueue(*to_user_content(message.content))

    async def resolve(self, requests: DeferredToolRequests) -> DeferredToolResults:
        """Request permission for each call that needs it; reject calls of tools that only run elsewhere."""
        results = DeferredToolResults()
        for call in requests.approvals:
            results.approvals[call.tool_call_id] = await self._approve(call, requests.metadata.get(call.tool_call_id))
        for call in requests.calls:
            await self.tool(call)
            results.calls[call.tool_call_id] = ToolFailed("this tool cannot be run by the agent")
        return results

    async def _approve(self, call: ToolCallPart, metadata: Mapping[str, Any] | None) -> ToolApproved | ToolDenied:
        tool = await self.tool(call)
        if call.tool_name in self._mode.approved:
            return ToolApproved()
        if metadata:
            await tool.show(to_readable_json(metadata), status="pending")
        arguments = _arguments_of(call)
        server_tool = self._approved_as.get(call.tool_name)
        # "Always" covers these arguments; of a tool of an MCP server, for as long as the tool stays the same.
        covered = None if server_tool is None else f"{server_tool} {call.args_as_json_str()}"
        approved = await request_approval(self._turn, tool, call.tool_name, arguments, remember_as=covered)
        if approved is None:
            return ToolDenied("the user did not permit this")
        return ToolApproved() if approved is arguments else ToolApproved(override_args=approved)

    async def _finish(self, output: Any, history: list[ModelMessage]) -> str:
        if not isinstance(output, str):
            if output is not None:
                await self._turn.say(to_json(output, indent=2, fallback=str).decode())
        elif not self._has_sent_text and output:
            await self._turn.say(output)
        last = next((message for message in reversed(history) if isinstance(message, ModelResponse)), None)
        reason = None if last is None else last.finish_reason
        if reason == "content_filter":
            return "refusal"  # a refused prompt does not enter the history
        save_history(self._turn.session, history)
        return "max_tokens" if reason == "length" else "end_turn"


class _TurnCapability(AbstractCapability[Any]):
    """Lets a run ask the user for approval, offers the tools of the mode only, and adds what the user sends."""

    def __init__(self, run: PydanticRun) -> None:
        self._run = run

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")  # other capabilities find the current tool call

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        with as_current(await self._run.tool(call)):
            return await handler(args)

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        if isinstance(node, ModelRequestNode):
            await self._run.add_steering(ctx)
        return cast("Any", node)

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        if isinstance(result, End):  # what is added here makes the run go on
            await self._run.add_steering(ctx)
        return cast("Any", result)

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        return self._run.offered(tool_defs)

    async def on_tool_execute_error(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, error: Exception
    ) -> Any:
        self._run.record_error(call, error)
        raise error

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults:
        return await self._run.resolve(requests)


def report_tokens(turn: Turn[Any], usage: RunUsage) -> None:
    """Report the tokens of a run with the response of the turn."""
    if usage.requests:
        turn.tokens = TokenUsage(
            total=usage.total_tokens,
            input=usage.input_tokens,
            output=usage.output_tokens,
            thought=usage.details.get("reasoning_tokens"),
            cached_read=usage.cache_read_tokens or None,
            cached_write=usage.cache_write_tokens or None,
        )


def _arguments_of(call: ToolCallPart) -> dict[str, Any]:
    return call.args_as_dict() if call.args else {}
