"""The built-in agent's settings: three modes that really gate its tools, and an option of every kind."""

from __future__ import annotations

from duologue import Settings, choice, toggle
from duologue.conversation.settings import Option

__all__ = ["BuiltinSettings"]


class BuiltinSettings(Settings):
    """What can be set."""

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
