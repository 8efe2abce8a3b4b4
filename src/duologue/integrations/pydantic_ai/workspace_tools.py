"""Name and kind of the tool that is being called, by which an `EditorWorkspace` tells searches from commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDefinition

from duologue.conversation.work_state import ToolKind
from duologue.integrations.pydantic_ai.current_tool import current_tool
from duologue.integrations.tool_calls import guess_tool_kind

_called: ContextVar[tuple[str, ToolKind] | None] = ContextVar("called_tool", default=None)


def called_tool() -> tuple[str | None, ToolKind | None]:
    """Return name and kind of the tool that is being called; `None` for both outside of a tool."""
    called, tool = _called.get(), current_tool()
    if called is not None and (tool is None or called[0] != tool.name):
        return called
    return (None, None) if tool is None else (tool.name, tool.kind)


class WorkspaceTools(AbstractCapability[Any]):
    """Lets an `EditorWorkspace` know which tools of a subagent search and which run commands.

    The runs of `acp_agent` need it only for agents that they delegate to, as in
    `SubAgents(shared_capabilities=[WorkspaceTools()])`.

    Args:
        kinds: Kinds of tools by name, where the name alone is not enough: `{"deploy": "execute"}`.
    """

    def __init__(self, kinds: Mapping[str, ToolKind] | None = None) -> None:
        self._kinds: Mapping[str, ToolKind] = kinds or {}

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Run a tool while its name and kind are known."""
        kind: ToolKind = self._kinds.get(call.tool_name) or guess_tool_kind(call.tool_name)
        token = _called.set((call.tool_name, kind))
        try:
            return await handler(args)
        finally:
            _called.reset(token)
