"""Hooks around each tool call and model request: modes, permissions, the plan, usage and cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from pydantic_ai import ModelResponse, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai_harness.compaction import DEFAULT_CONTEXT_WINDOW, resolve_context_window

from duologue.coder.failures import check_complete
from duologue.coder.modes import INSTRUCTIONS, PLAN_TOOLS, is_offered
from duologue.coder.subagents import subagent_session
from duologue.coder.titles import title_of
from duologue.coder.turn import COST, CodeTurn
from duologue.integrations.pydantic_ai.current_tool import as_current, current_tool
from duologue.integrations.tool_calls import guess_tool_kind
from duologue.protocol.values import PermissionOption

ROLE = """\
You are a coding agent inside the user's editor. Find out what is asked, read before you change, follow the conventions
of the project, and make the smallest change that does it. Check your work with the project's own tests and tools, and
say what you checked and what you did not. Paths are relative to the project's directory. Prefer the file tools to
commands for reading, searching and editing: the editor shows those changes, and the user can undo them.
"""

_LEAVE = [
    PermissionOption(option_id="edit", name="Begin, and ask before commands", kind="allow_once"),
    PermissionOption(option_id="auto", name="Begin, by the permission rules", kind="allow_once"),
    PermissionOption(option_id="reject", name="Keep planning", kind="reject_once"),
]


class TurnHooks(AbstractCapability[CodeTurn]):
    """Binds a run, and the runs of its subagents, to the turn of an editor."""

    id = "duologue_turn"

    def get_instructions(self) -> list[Any]:
        return [ROLE, _instructions]

    def get_workspace(self, ctx: RunContext[CodeTurn], *, ref: WorkspaceRef | None) -> WorkspaceBackend:
        return ctx.deps.workspace  # also for a history of another directory: the session's own counts

    def get_toolset(self) -> FunctionToolset[CodeTurn]:
        return FunctionToolset([leave_plan_mode], id="modes")

    async def wrap_run(self, ctx: RunContext[CodeTurn], *, handler: Callable[[], Awaitable[Any]]) -> Any:
        if ctx.deps.run_id is None:
            ctx.deps.run_id = ctx.run_id
            await ctx.deps.load_plan()
            return await handler()
        async with subagent_session(ctx):
            return await handler()

    async def prepare_tools(self, ctx: RunContext[CodeTurn], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        is_subagent, mode = ctx.deps.is_subagent(ctx), ctx.deps.mode
        can_ask = ctx.deps.turn.client_capabilities.forms
        return [
            tool
            for tool in tool_defs
            if is_offered(mode, tool.name, is_subagent=is_subagent) and (can_ask or tool.name != "ask_user_question")
        ]

    async def wrap_tool_execute(
        self,
        ctx: RunContext[CodeTurn],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        name, turn = call.tool_name, ctx.deps.turn
        async with AsyncExitStack() as stack:
            if ctx.deps.is_subagent(ctx):  # shown in the session of the user, who is asked there
                shown = turn.tool(title_of(name, args), guess_tool_kind(name), name=name, raw_input=args)
                stack.enter_context(as_current(await stack.enter_async_context(shown)))
            tool = current_tool()
            if tool is not None and isinstance(path := args.get("path"), str):
                await tool.add_location(await ctx.workspace.resolve(path))
            result = await handler(args)
        if name in PLAN_TOOLS:
            await ctx.deps.show_plan()
        return result

    async def after_model_request(
        self, ctx: RunContext[CodeTurn], *, request_context: Any, response: ModelResponse
    ) -> ModelResponse:
        check_complete(response)
        await report_usage(ctx, response)
        return response


async def leave_plan_mode(ctx: RunContext[CodeTurn], plan: str) -> str:
    """Show the user the finished plan and ask to begin with it. Call it once the plan is complete.

    Args:
        ctx: The run.
        plan: The whole plan, as Markdown.
    """
    tool, turn = current_tool(), ctx.deps.turn
    if tool is None:
        raise ToolFailed("there is no user to ask")
    await tool.update(title="Begin with the plan?", kind="switch_mode")
    await tool.show(plan, status="pending")
    chosen = await tool.request_permission_option(options=_LEAVE, remember_as=f"leave plan mode {turn.message_id}")
    if chosen is None or chosen.option_id not in ("edit", "auto"):
        raise ToolFailed("the user wants to keep planning; ask what is missing")
    await turn.set_option(mode=chosen.option_id)
    return f"The user agreed. {INSTRUCTIONS[chosen.option_id]} Begin with the plan now."


async def report_usage(ctx: RunContext[CodeTurn], response: ModelResponse) -> None:
    """Report the context of the turn's own run, and what the session has cost so far."""
    code = ctx.deps
    state = code.turn.session.state
    try:
        state[COST] = float(state.get(COST, 0.0)) + float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # a model without a known price, or an answer without tokens
        pass
    used = response.usage.input_tokens + response.usage.output_tokens
    if code.is_subagent(ctx) or not used:
        return
    size = code.context_window or resolve_context_window(ctx.model) or DEFAULT_CONTEXT_WINDOW
    await code.turn.report_usage(used=used, size=max(size, used), cost=state.get(COST))


async def _instructions(ctx: RunContext[CodeTurn]) -> str:
    directory = await ctx.workspace.working_dir()
    return f"The project's directory is `{directory}`; commands start there. {INSTRUCTIONS[ctx.deps.mode]}"
