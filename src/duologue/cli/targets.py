"""Which agent a command line means: a command after `--`, a name from the configuration, or the built-in one."""

from __future__ import annotations

import argparse
import sys

from duologue.client.connect import Target
from duologue.config.agents import named_agents
from duologue.errors import StartError

__all__ = ["BUILTIN", "target_of"]

BUILTIN = [sys.executable, "-m", "duologue.cli.main", "agent"]


def target_of(arguments: argparse.Namespace) -> Target:
    """What to connect to.

    Raises:
        StartError: There is no agent of that name.
    """
    if arguments.command_line:
        return list(arguments.command_line)
    if arguments.agent in (None, "builtin"):
        return BUILTIN
    agents = named_agents()
    if arguments.agent in agents:
        return agents[arguments.agent]
    known = ", ".join(["builtin", *agents])
    raise StartError(f"there is no agent called {arguments.agent!r} (there are: {known}); or give a command after `--`")
