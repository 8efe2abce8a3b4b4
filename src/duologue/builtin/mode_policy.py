"""What the modes allow: `architect` nothing, `code` everything, `ask` what the user says."""

from __future__ import annotations

from duologue import Turn
from duologue.agent.tool_call import ToolCallHandle
from duologue.builtin.settings import BuiltinSettings

__all__ = ["may"]


async def may(turn: Turn[BuiltinSettings], tool: ToolCallHandle, act: str, *, remember_as: str | None = None) -> bool:
    """Whether this tool call may do what it is about to do; if not, it has failed.

    Args:
        turn: Where the mode is read from, as it is at this moment.
        tool: What the user is asked about.
        act: What it does, in the words of a refusal: "write files".
        remember_as: What an "always" answer covers; tool calls that show the same otherwise.
    """
    if turn.settings.mode == "architect":
        await tool.fail(f"In architect mode I do not {act}. `/mode` or `/exit-plan` leave it.")
        return False
    return turn.settings.mode == "code" or await tool.request_permission(remember_as=remember_as)
