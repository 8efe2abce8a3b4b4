"""Questions to the user: interrupts of nodes and tools, approvals of LangChain's middleware, breakpoints."""

# LangGraph and LangChain are only partly typed.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from langchain_core.messages import ToolCall

from duologue.agent.tool_call import ToolCallHandle
from duologue.agent.turn import Turn
from duologue.integrations.approval import approval_options, request_approval
from duologue.integrations.langgraph.display import GraphDisplay
from duologue.integrations.tool_calls import to_json

OnInterrupt: TypeAlias = Callable[[Turn[Any], Any], Awaitable[Any]]
"""Returns the value to resume with for the value of an interrupt."""


EXACTLY_THIS = approval_options("exactly this")
"""Options of a permission request for an interrupt."""


class Questions:
    """Asks the user for permission where a graph waits.

    Args:
        turn: The turn of the run.
        display: The tool calls that the questions are about.
        on_interrupt: Answers interrupts instead.
        raised: The interrupts that tools raised, by the ids of the tool calls.
    """

    def __init__(
        self,
        turn: Turn[Any],
        display: GraphDisplay,
        on_interrupt: OnInterrupt | None,
        raised: Mapping[str, Any],
    ) -> None:
        self._turn = turn
        self._display = display
        self._on_interrupt = on_interrupt
        self._raised = raised
        self._approved: set[tuple[str, str]] = set()
        """Tool calls that were approved together, each with what its interrupt showed."""

    def shares_step(self, interrupt: Any) -> bool:
        """Return True if a tool raised the interrupt while other tool calls are open."""
        is_open = self._tool_of(interrupt) is not None
        return self._on_interrupt is None and is_open and len(self._display.open_calls) > 1

    async def answer(self, interrupt: Any) -> Any:
        """Return the value to resume an interrupt with."""
        value = interrupt.value
        if self._on_interrupt is not None:
            return await self._on_interrupt(self._turn, value)
        requests = value.get("action_requests") if isinstance(value, dict) else None
        if isinstance(requests, list):
            editable = _editable_actions(value)
            return {"decisions": [await self._decide(each, editable) for each in requests]}
        if (tool := self._tool_of(interrupt)) is not None:
            return await self._ask(tool, _text_of(value))
        title = _title_of(value)
        async with self._turn.tool(title, self._display.tools.kind_of(title), raw_input=value) as question:
            return await question.request_permission(options=EXACTLY_THIS)

    async def approve_step(self) -> bool:
        """Ask for all open tool calls; return True if each is allowed.

        Tools that a node runs side by side share their interrupts: LangGraph can give the answer to one of them to
        another. So none of them goes on before all are allowed, and after a rejection the graph is not resumed.
        """
        for call_id, tool in self._display.open_calls.items():
            shown = _text_of(self._raised[call_id].value) if call_id in self._raised else ""
            if (call_id, shown) in self._approved:
                continue
            if not await self._ask(tool, shown):
                await self._fail_open()
                return False
            self._approved.add((call_id, shown))
        return True

    async def may_continue(self, nodes: tuple[str, ...], calls: list[ToolCall]) -> bool:
        """Ask at a breakpoint: for each tool call that would run next, or for the nodes if there is none."""
        open_calls = self._display.open_calls
        waiting = [call for call in calls if call["id"] in open_calls]
        if not waiting:
            title = f"Continue with {', '.join(nodes)}"
            async with self._turn.tool(title, raw_input={"next": list(nodes)}) as question:
                return await question.request_permission(options=approval_options("this step"))
        for call in waiting:
            tool = open_calls[call["id"] or ""]
            if await request_approval(self._turn, tool, call["name"], call["args"], can_edit=False) is None:
                await self._fail_open()
                return False
        return True

    def _tool_of(self, interrupt: Any) -> ToolCallHandle | None:
        """Return the open tool call that raised an interrupt; several can have raised one of the same id."""
        found = next((key for key, each in self._raised.items() if each is interrupt), "")
        return self._display.open_calls.get(found)

    async def _ask(self, tool: ToolCallHandle, shown: str) -> bool:
        # "Always" covers what is shown: this tool, its arguments, and the whole value of the interrupt.
        if shown:
            await tool.show(shown, replace=True, status="pending")
        return await tool.request_permission(options=EXACTLY_THIS)

    async def _fail_open(self) -> None:
        for tool in self._display.open_calls.values():
            await tool.fail("not run: another tool call of this step was rejected")

    async def _decide(self, request: Mapping[str, Any], editable: set[str]) -> dict[str, Any]:
        """Return the decision about an action, as LangChain's middleware takes it."""
        name, arguments = str(request.get("name", "")), request.get("args")
        tool = self._display.pending_call(name, arguments)
        if tool is not None:
            approved = await request_approval(self._turn, tool, name, arguments, can_edit=name in editable)
        else:
            async with self._turn.tool(name, self._display.tools.kind_of(name), raw_input=arguments) as tool:
                approved = await request_approval(self._turn, tool, name, arguments, can_edit=name in editable)
        if approved is None:
            return {"type": "reject"}
        if approved is arguments:
            return {"type": "approve"}
        return {"type": "edit", "edited_action": {"name": name, "args": approved}}


def _editable_actions(value: Mapping[str, Any]) -> set[str]:
    """Return the names of the actions whose arguments the user may edit."""
    configs = [each for each in value.get("review_configs") or [] if isinstance(each, dict)]
    return {str(each.get("action_name")) for each in configs if "edit" in (each.get("allowed_decisions") or ())}


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _title_of(value: Any) -> str:
    if isinstance(value, dict):
        for key in ("question", "action", "title", "description", "message"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return value if isinstance(value, str) else "Go on?"
