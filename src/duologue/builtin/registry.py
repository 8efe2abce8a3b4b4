"""The commands of the built-in agent, by name. Importing a module of commands adds them here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from duologue import Turn
from duologue.builtin.knobs import Knobs

__all__ = ["COMMANDS", "Command", "Handler", "command"]

Handler: TypeAlias = Callable[[Turn[Knobs], str], Awaitable[str | None]]


@dataclass(frozen=True)
class Command:
    """One slash command; `shows` names the part of the protocol it is there to show."""

    name: str
    description: str
    hint: str | None
    shows: str
    handler: Handler


COMMANDS: dict[str, Command] = {}


def command(name: str, description: str, *, shows: str, hint: str | None = None) -> Callable[[Handler], Handler]:
    """Register the decorated coroutine function as `/name`."""

    def register(handler: Handler) -> Handler:
        COMMANDS[name] = Command(name, description, hint, shows, handler)
        return handler

    return register
