"""Which agent a command line means: a command after `--`, an address, a name, or the built-in one."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from duologue.cli.exit_codes import UsageError
from duologue.client.connect import Target
from duologue.config.agents import BUILTIN, NamedAgent, find_agents
from duologue.transports.remote.url import is_remote

__all__ = ["name_of", "remote_config", "target_of", "versions_for", "with_version"]

TOKEN_VARIABLE = "DUOLOGUE_TOKEN"  # noqa: S105  # its name, not its value


def target_of(arguments: argparse.Namespace) -> Target:
    """What to connect to.

    Raises:
        UsageError: There is no agent of that name.
        StartError: The configuration file cannot be read.
    """
    if arguments.command_line:
        return list(arguments.command_line)
    name = arguments.agent or BUILTIN
    if is_remote(name):
        return remote_config({"url": name}, arguments)
    agents = find_agents()
    if name not in agents:
        known = ", ".join(agents)
        raise UsageError(
            f"there is no agent called {name!r} (there are: {known}); or give an address, or a command after `--`"
        )
    config = with_version(agents[name], arguments)
    return remote_config(config, arguments) if "url" in config else config


def versions_for(arguments: argparse.Namespace) -> tuple[int, ...]:
    """Of the protocol, that we speak."""
    return (1, 2) if getattr(arguments, "v2", False) else (1,)


def with_version(agent: NamedAgent, arguments: argparse.Namespace) -> Mapping[str, Any]:
    """How to reach an agent by name; the built-in one speaks what we speak."""
    if agent.source != BUILTIN:
        return agent.config
    spoken = ["--v2"] if versions_for(arguments) != (1,) else []
    if arguments.dialect is not None:
        spoken += ["--dialect", arguments.dialect]
    return {**agent.config, "args": [*agent.config["args"], *spoken]}


def remote_config(config: Mapping[str, Any], arguments: argparse.Namespace) -> Mapping[str, Any]:
    """An agent behind an address with what the command line says about it.

    Raises:
        UsageError: That makes no sense.
    """
    headers = {**config.get("headers", {})}
    for given in getattr(arguments, "header", []):
        name, colon, value = given.partition(":")
        if not colon or not name.strip() or not (given.isprintable() and given.isascii()):
            raise UsageError("--header: say NAME: VALUE")
        headers[name.strip()] = value.strip()
    changed = {**config, "headers": headers}
    token = getattr(arguments, "token", None) or os.environ.get(TOKEN_VARIABLE)
    has_own = "token" in config or "token=" in urlsplit(str(config["url"])).fragment
    if token and (getattr(arguments, "token", None) or not has_own):
        changed["token"] = token
    if getattr(arguments, "insecure", False):
        changed["ca"] = False
    elif getattr(arguments, "ca", None):
        changed["ca"] = arguments.ca
    return changed


def name_of(arguments: argparse.Namespace) -> str:
    """What tells agents apart where answers are remembered; never a token."""
    agent: str | None = arguments.agent
    if agent and is_remote(agent):
        return urlsplit(agent)._replace(fragment="").geturl()
    return agent or shlex.join(arguments.command_line) or BUILTIN
