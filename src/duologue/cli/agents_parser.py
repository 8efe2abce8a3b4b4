"""Define the subcommands of `duologue agents`, but not what they do.

Each parser has a default `function`: module in `duologue.cli.commands` and function, with a colon between them.
"""

from __future__ import annotations

import argparse

from duologue.cli.options import add_lock_option, add_repeatable

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

JSON = "print one JSON object per line"


def add_agents(commands: Commands) -> None:
    """Add `agents` with its subcommands."""
    agents = commands.add_parser(
        "agents",
        help="find, install, pin and check agents, and list those that `--agent` accepts",
        description="Without a subcommand, list the agents that `--agent` accepts by name: those of the lock file and "
        "of the configuration file, well-known agents found on PATH, and the built-in one.",
    )
    agents.set_defaults(function="agents.overview:overview")
    kinds = agents.add_mutually_exclusive_group()
    kinds.add_argument("--json", action="store_true", help=JSON)
    kinds.add_argument("--names", action="store_true", help="print only the names, one per line")
    subcommands = agents.add_subparsers(dest="action", metavar="SUBCOMMAND", title="subcommands")
    _add_pin(subcommands)


def _add_pin(subcommands: Commands) -> None:
    pin = subcommands.add_parser(
        "pin",
        help="keep an agent at its version when agents are updated",
        description="Mark an agent in the lock file, so that `update` leaves it unchanged.",
    )
    pin.set_defaults(function="agents.trust:pin")
    pin.add_argument("id", metavar="ID[@VERSION]", help="id of the agent; with a version, it must be the locked one")
    pin.add_argument("--undo", action="store_true", help="let `update` change the agent again")
    add_lock_option(pin)


def add_registry_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where entries of agents come from."""
    group = parser.add_argument_group("registries")
    registry = "use this registry, in this order, instead of DUOLOGUE_REGISTRY and `registries` of the configuration"
    add_repeatable(group, "--registry", "URL|FILE", registry)
    group.add_argument("--offline", action="store_true", help="use nothing of the network, only what was kept")
    group.add_argument("--mirror", metavar="DIR", help="use only this directory, made by `duologue agents mirror`")
