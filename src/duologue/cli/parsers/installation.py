"""Define the subcommands of `duologue agents` that install, update, remove and check agents, but not what they do."""

from __future__ import annotations

import argparse

from duologue.cli.options import add_lock_option, add_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    RegistryOptions = Callable[[argparse.ArgumentParser], None]
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

IDS = "id of an agent (default: all agents of the lock file)"
JSON = "print one JSON object per line"


def add_install_commands(
    subcommands: Commands, add_registry_options: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Add `add`, `install`, `update`, `remove`, `verify` and `mirror`.

    Args:
        subcommands: The subcommands of `agents`.
        add_registry_options: Adds the options that say where entries of agents come from.
    """
    _add_add(subcommands, add_registry_options)
    _add_install(subcommands)
    _add_update(subcommands, add_registry_options)
    _add_remove(subcommands)
    _add_verify(subcommands)
    _add_mirror(subcommands)


def _add_add(subcommands: Commands, add_registry_options: RegistryOptions) -> None:
    add = subcommands.add_parser(
        "add",
        help="install an agent of a registry, and lock its version and content",
        description="Install an agent into a directory of its own, and write its version, where it came from and the "
        "hashes of its files into the lock file. Nothing of the agent is executed unless "
        "`--allow-scripts` or `--probe` is given.",
        epilog="examples: duologue agents add gemini; duologue agents add gemini@0.61.0 --via npx",
    )
    add.set_defaults(function="agents.install:add")
    add.add_argument("id", metavar="ID[@VERSION]", help="id of the agent, and a version other than the registry's")
    add.add_argument("--preview", action="store_true", help="install the preview version of the registry")
    add.add_argument(
        "--via", choices=("npx", "uvx", "binary"), help="install from npm, from PyPI, or an archive for this platform"
    )
    add.add_argument(
        "--allow-scripts", action="store_true", help="run the install scripts of the agent's packages; this is locked"
    )
    add.add_argument(
        "--probe", action="store_true", help="start the agent once it is installed, and lock how it describes itself"
    )
    add_seconds(add, "--timeout", "time for a probed agent to start, and to open a session", 60.0)
    _add_common(add, add_registry_options)


def _add_install(subcommands: Commands) -> None:
    install = subcommands.add_parser(
        "install",
        help="install exactly what a lock file says",
        description="Install the agents of a lock file that are not installed yet, or were changed: the same versions "
        "with the same content, or nothing.",
        epilog="example, in CI: duologue agents install --lock agents.lock --approve",
    )
    install.set_defaults(function="agents.install:install")
    install.add_argument("ids", nargs="*", metavar="ID", help=IDS)
    install.add_argument("--approve", action="store_true", help="approve the programs of this lock file, too")
    _add_offline(install)
    _add_common(install)


def _add_update(subcommands: Commands, add_registry_options: RegistryOptions) -> None:
    update = subcommands.add_parser(
        "update",
        help="install newer versions of agents, except of those that are pinned",
        description="Install the versions that the registries have now. An agent whose update fails stays as it is.",
    )
    update.set_defaults(function="agents.install:update")
    update.add_argument("ids", nargs="*", metavar="ID", help=IDS)
    update.add_argument(
        "--check", action="store_true", help="only show which agents have another version; exit with 1 if one has"
    )
    _add_common(update, add_registry_options)


def _add_remove(subcommands: Commands) -> None:
    remove = subcommands.add_parser(
        "remove", help="remove agents from the lock file, and their files", description="Remove agents."
    )
    remove.set_defaults(function="agents.install:remove")
    remove.add_argument("ids", nargs="+", metavar="ID", help="id of an agent")
    _add_common(remove)


def _add_verify(subcommands: Commands) -> None:
    verify = subcommands.add_parser(
        "verify",
        help="compare every file of the installed agents with the lock file",
        description="Compare every file of the installed agents with the lock file, and name those that differ. The "
        "exit code is 1 if one does.",
    )
    verify.set_defaults(function="agents.install:verify")
    verify.add_argument("ids", nargs="*", metavar="ID", help=IDS)
    _add_common(verify)


def _add_mirror(subcommands: Commands) -> None:
    mirror = subcommands.add_parser(
        "mirror",
        help="copy everything that locked agents need into a directory, for machines without a network",
        description="Copy archives, npm packages and wheels of locked agents, the lock and an index into a directory. "
        "`--mirror DIR` of `add` and `install` uses it instead of the network.",
    )
    mirror.set_defaults(function="agents.install:mirror")
    mirror.add_argument("directory", metavar="DIR", help="directory of the mirror")
    mirror.add_argument("ids", nargs="*", metavar="ID", help=IDS)
    _add_common(mirror)


def _add_common(parser: argparse.ArgumentParser, add_registry_options: RegistryOptions | None = None) -> None:
    add_lock_option(parser)
    # What `agents` itself accepts, too, must not be reset by the subcommand.
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=JSON)
    if add_registry_options is not None:
        add_registry_options(parser)


def _add_offline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--offline", action="store_true", help="use nothing of the network")
    parser.add_argument("--mirror", metavar="DIR", help="use only this directory, made by `duologue agents mirror`")
