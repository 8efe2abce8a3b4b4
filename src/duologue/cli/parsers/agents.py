"""Define the subcommands of `duologue agents`, but not what they do.

Each parser has a default `function`: module in `duologue.cli.commands` and function, with a colon between them.
"""

from __future__ import annotations

import argparse

from duologue.cli.options import add_lock_option, add_repeatable, add_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

JSON = "print one JSON object per line"


def add_agents(commands: Commands) -> None:
    """Add `agents`, but not its subcommands."""
    agents = commands.add_parser(
        "agents",
        help="find, install, pin and check agents, and list those that `--agent` accepts",
        description="Without a subcommand, list the agents that `--agent` accepts by name: those of the lock file and "
        "of the configuration file, well-known agents found on PATH, and the built-in one.",
    )
    agents.set_defaults(function="agents.overview:overview")


def add_agents_subcommands(agents: argparse.ArgumentParser) -> None:
    """Add the subcommands of `agents`, and the options of their overview."""
    from duologue.cli.parsers.installation import add_install_commands

    kinds = agents.add_mutually_exclusive_group()
    kinds.add_argument("--json", action="store_true", help=JSON)
    kinds.add_argument("--names", action="store_true", help="print only the names, one per line")
    subcommands = agents.add_subparsers(dest="action", metavar="SUBCOMMAND", title="subcommands")
    _add_list(subcommands)
    _add_search(subcommands)
    _add_info(subcommands)
    _add_pin(subcommands)
    _add_approve(subcommands)
    _add_probe(subcommands)
    add_install_commands(subcommands, add_registry_options)


def _add_list(subcommands: Commands) -> None:
    listed = subcommands.add_parser(
        "list",
        help="list the installed agents, or all agents of the registries",
        description="List the agents of the lock file, or with `--all` those of the registries.",
    )
    listed.set_defaults(function="agents.catalog:list_agents")
    listed.add_argument("--all", action="store_true", help="list all agents of the registries")
    listed.add_argument("--json", action="store_true", help=JSON)
    add_lock_option(listed)
    add_registry_options(listed)


def _add_search(subcommands: Commands) -> None:
    search = subcommands.add_parser(
        "search",
        help="search the registries",
        description="Search ids, names and descriptions of the agents of the registries. Exits with 1 if nothing is "
        "found.",
    )
    search.set_defaults(function="agents.catalog:search")
    search.add_argument("text", metavar="TEXT", help="text to search for; upper and lower case are the same")
    search.add_argument("--json", action="store_true", help=JSON)
    add_lock_option(search)
    add_registry_options(search)


def _add_info(subcommands: Commands) -> None:
    info = subcommands.add_parser(
        "info",
        help="show what the registries and the lock file know about an agent",
        description="Show the entry of an agent in the first registry that has it, and what the lock file says.",
    )
    info.set_defaults(function="agents.catalog:info")
    info.add_argument("id", metavar="ID", help="id of the agent")
    info.add_argument("--json", action="store_true", help=JSON)
    add_lock_option(info)
    add_registry_options(info)


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


def _add_approve(subcommands: Commands) -> None:
    approve = subcommands.add_parser(
        "approve",
        help="permit starting the agents of a project's lock file, or a program that has changed",
        description="Show what would be started, then permit it: with `--lock FILE` the agents of that file, otherwise "
        "an agent whose program differs from the lock file.",
    )
    approve.set_defaults(function="agents.trust:approve")
    approve.add_argument("id", nargs="?", metavar="ID", help="only this agent")
    approve.add_argument("--yes", action="store_true", help="do not ask")
    add_lock_option(approve)


def _add_probe(subcommands: Commands) -> None:
    probe = subcommands.add_parser(
        "probe",
        help="start installed agents, and show what changed since the last time",
        description="Start each agent in an empty directory, without a prompt, and compare how it describes itself "
        "with the lock file: versions of the protocol, name, capabilities, login methods, modes, models, settings. "
        "Exits with 0 if nothing changed, with 10 if something did, and with 1 if an agent failed.",
    )
    probe.set_defaults(function="agents.probe:probe")
    probe.add_argument("ids", nargs="*", metavar="ID", help="id of an installed agent")
    probe.add_argument("--all", action="store_true", help="probe all installed agents, one after the other")
    probe.add_argument("--update", action="store_true", help="write what the agents say into the lock file")
    probe.add_argument("--json", action="store_true", help=JSON)
    add_seconds(probe, "--timeout", "time for each agent to start, and to open a session", 60.0)
    add_lock_option(probe)


def add_registry_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where entries of agents come from."""
    group = parser.add_argument_group("registries")
    registry = "use this registry, in this order, instead of DUOLOGUE_REGISTRY and `registries` of the configuration"
    add_repeatable(group, "--registry", "URL|FILE", registry)
    group.add_argument("--offline", action="store_true", help="use no network, only what was saved")
    group.add_argument("--mirror", metavar="DIR", help="use only this directory, made by `duologue agents mirror`")
