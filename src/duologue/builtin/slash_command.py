"""A slash command: what it is called, what it does, and which part of the protocol it is there to show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from duologue import Turn
from duologue.builtin.settings import BuiltinSettings

__all__ = ["Handler", "SlashCommand", "command"]

Handler: TypeAlias = Callable[[Turn[BuiltinSettings], str], Awaitable[str | None]]


@dataclass(frozen=True)
class SlashCommand:
    """One command. Its handler gets the turn and what was written behind the command's name."""

    name: str
    description: str
    hint: str | None
    shows: str
    handler: Handler

    @property
    def usage(self) -> str:
        """How it is written: `/read path`."""
        return f"/{self.name} {self.hint}" if self.hint else f"/{self.name}"


def command(name: str, description: str, *, shows: str, hint: str | None = None) -> Callable[[Handler], SlashCommand]:
    """Make the decorated coroutine function the command `/name`."""
    return lambda handler: SlashCommand(name, description, hint, shows, handler)
