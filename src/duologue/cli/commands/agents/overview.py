"""`duologue agents` without a subcommand: list the agents that can be used by name."""

from __future__ import annotations

import argparse
import shlex
import sys

from duologue.cli.console.safe_output import safe
from duologue.cli.exit_codes import UsageError
from duologue.config.agents import NamedAgent, config_file
from duologue.errors import StartError
from duologue.registry.resolver import named_agents

SOURCES = {"locked": "locked", "config": "configuration", "path": "found on PATH", "builtin": "built in"}


def overview(arguments: argparse.Namespace) -> int:
    """List the agents; return the exit code."""
    try:
        found = list(named_agents().values())
    except StartError as error:
        raise UsageError(str(error)) from None
    if arguments.names:
        sys.stdout.write("".join(f"{agent.name}\n" for agent in found))
    elif arguments.json:
        for agent in found:
            target = {"command": agent.command_line} if agent.url is None else {"url": agent.url}
            line = {"name": agent.name, "source": agent.source, **target}
            safe(sys.stdout, is_exact=True).write_json(line)
    else:
        _show(found)
    return 0


def _show(found: list[NamedAgent]) -> None:
    width = max(len(agent.name) for agent in found)
    for agent in found:
        command = agent.url or shlex.join(agent.command_line)
        sys.stdout.write(f"{agent.name:<{width}}  {SOURCES[agent.source]:<13}  {command}\n")
    sys.stderr.write(
        "\nTo install an agent of the registry: duologue agents list --all; duologue agents add ID\n"
        f'To add a command of your own, edit {config_file()}:\n\n[agents.mine]\ncommand = "my-agent"\nargs = []\n'
    )
