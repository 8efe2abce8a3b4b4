"""What the modes allow: `architect` nothing, `code` everything, `ask` what the user says."""

from __future__ import annotations

from duologue import Turn
from duologue.agent.tool import Tool
from duologue.builtin.knobs import Knobs

__all__ = ["may_run", "may_write"]


async def may_write(turn: Turn[Knobs], tool: Tool) -> bool:
    """Whether this change may be made."""
    return await _may(turn, tool, "writes nothing")


async def may_run(turn: Turn[Knobs], tool: Tool) -> bool:
    """Whether this command may be run."""
    return await _may(turn, tool, "runs nothing")


async def _may(turn: Turn[Knobs], tool: Tool, refusal: str) -> bool:
    if turn.settings.mode == "architect":
        await tool.fail(f"in architect mode I {refusal.replace('s ', ' ', 1)}")
        return False
    return turn.settings.mode == "code" or await tool.allow()
