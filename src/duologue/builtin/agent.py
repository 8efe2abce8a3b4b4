"""The built-in agent: `duologue agent` on the command line, `builtin_agent()` in Python."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path

import duologue
from duologue import Agent, Turn
from duologue.builtin.knobs import Knobs
from duologue.builtin.phrases import command_for
from duologue.builtin.registry import COMMANDS
from duologue.store.base import Store
from duologue.store.memory import MemoryStore

# Each of these modules adds its commands to the registry when it is imported.
from duologue.builtin import editing, session, streams, talking, trouble, working  # noqa: F401  # isort: skip

__all__ = ["builtin_agent", "main"]


def builtin_agent(store: Store | str | Path | None = None) -> Agent[Knobs]:
    """The built-in agent as an object; sessions are kept in memory unless a place is named."""
    agent: Agent[Knobs] = Agent(
        "duologue",
        version=duologue.__version__,
        title="duologue's built-in agent",
        settings=Knobs,
        accepts=("image", "audio", "resource"),
        system_prompt="override",
        mcp=_has_mcp(),
    )
    agent.keep_sessions(store if store is not None else MemoryStore())
    for command in COMMANDS.values():
        agent.command(command.name, command.description, hint=command.hint)(command.handler)

    @agent.on_prompt
    async def answer(turn: Turn[Knobs]) -> str | None:
        name, argument = command_for(turn.text)
        return await COMMANDS[name].handler(turn, argument)

    return agent


def main(arguments: argparse.Namespace) -> int:
    """Serve on stdio, or play a scenario."""
    if arguments.scenario is not None:
        from duologue.builtin.scenario import play

        return play(Path(arguments.scenario))
    agent = builtin_agent(arguments.sessions or default_directory())
    agent.debug = arguments.debug
    agent.serve()
    return 0


def default_directory() -> Path:
    """Where sessions are kept unless told otherwise."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "duologue" / "sessions"


def _has_mcp() -> bool:
    """Looked up, not imported: the package takes longer to load than everything else here."""
    return find_spec("mcp") is not None
