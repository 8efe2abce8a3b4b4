"""The built-in agent's settings: three modes that gate its tools, and an option of every kind."""

from __future__ import annotations

from contextvars import ContextVar

from duologue import Settings, Turn, choice, toggle
from duologue.agent.tool_call import ToolCallHandle
from duologue.conversation.settings import Option


class BuiltinSettings(Settings):
    """The settings of the built-in agent."""

    mode = choice(
        Option("ask", "Ask", "Asks before it writes or runs anything"),
        Option("architect", "Architect", "Reads and plans; never writes or runs"),
        Option("code", "Code", "Writes and runs without asking"),
        category="mode",
        description="How much it may do by itself",
    )
    model = choice(
        category="model",
        groups={
            "Small": [Option("echo-1", "Echo 1", "Says what you said")],
            "Large": [Option("echo-2", "Echo 2", "Says what you said, with more words")],
        },
        description="There is no model behind either of them",
    )
    thoughts = choice(
        "brief", "long", category="thought_level", name="Thoughts", description="How much it thinks aloud"
    )
    numbers = toggle(True, name="Line numbers", description="Shows line numbers when it reads a file")


acts_done: ContextVar[int] = ContextVar("acts_done", default=0)
"""Number of changes and commands that were carried out."""


async def may(turn: Turn[BuiltinSettings], tool: ToolCallHandle, act: str, *, remember_as: str | None = None) -> bool:
    """Return True if the mode or the user allows this tool call; otherwise mark it as failed.

    Args:
        turn: The turn, with the current mode.
        tool: The tool call.
        act: What it does, for the message: "write files".
        remember_as: What an "always" answer covers; see `ToolCallHandle.request_permission`.
    """
    if turn.settings.mode == "architect":
        await tool.fail(f"In architect mode I do not {act}. `/mode` or `/exit-plan` leave it.")
        return False
    return turn.settings.mode == "code" or await tool.request_permission(remember_as=remember_as)
