"""Which agent a command line means: a command after `--`, a name, or the built-in one."""

from __future__ import annotations

import argparse

from duologue.cli.codes import UsageError
from duologue.client.connect import Target
from duologue.config.agents import BUILTIN, find_agents

__all__ = ["target_of"]


def target_of(arguments: argparse.Namespace) -> Target:
    """What to connect to.

    Raises:
        UsageError: There is no agent of that name.
        StartError: The configuration file cannot be read.
    """
    if arguments.command_line:
        return list(arguments.command_line)
    agents = find_agents()
    name = arguments.agent or BUILTIN
    if name not in agents:
        known = ", ".join(agents)
        raise UsageError(f"there is no agent called {name!r} (there are: {known}); or give a command after `--`")
    return agents[name].config
