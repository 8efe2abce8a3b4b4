"""Find the agent that a command line names: a command after `--`, a URL, a name, or the built-in agent."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from duologue.cli.exit_codes import UsageError
from duologue.client.target import BUILTIN, Target
from duologue.config.agents import NamedAgent, find_agents
from duologue.errors import CommandNotFound, StartError
from duologue.transports.process.command import split_command
from duologue.transports.remote.url import is_remote

if TYPE_CHECKING:
    from duologue.transports.remote.factory import RemoteFactory

PACE_SECONDS = "0.7"
"""Pause between the steps of the built-in agent's tour when a person watches."""
TOKEN_VARIABLE = "DUOLOGUE_TOKEN"  # noqa: S105  # its name, not its value


def target_of(arguments: argparse.Namespace) -> Target:
    """Return the target to connect to.

    Raises:
        UsageError: No agent has that name.
        StartError: The configuration file cannot be read.
    """
    if arguments.command_line:
        return list(arguments.command_line)
    name = arguments.agent or BUILTIN
    if is_remote(name):
        return remote_config({"url": name}, arguments)
    agent = find_agents()[BUILTIN] if name == BUILTIN else named_agent(name, arguments)
    if agent.source == "locked":
        return str(name)  # `connect` compares its program at each start
    config = with_version(agent, arguments)
    return remote_config(config, arguments) if "url" in config else config


def named_agent(name: str, arguments: argparse.Namespace) -> NamedAgent:
    """Return the agent of that name.

    Raises:
        UsageError: No agent has that name.
        StartError: The configuration or the lock file cannot be used.
    """
    from duologue.registry.resolver import find_agent  # not needed for the built-in agent

    try:
        return find_agent(name, arguments.lock)
    except CommandNotFound as error:
        raise UsageError(f"{error}; or give a URL, or a command after `--`") from None


def lock_for(target: Target, arguments: argparse.Namespace) -> str | None:
    """Return the lock file in which `connect` looks up a target; None if the target is not a name."""
    return arguments.lock if isinstance(target, str) else None


def command_of(target: Target, lock: str | None) -> tuple[list[str], dict[str, str]] | None:
    """Return the command of a target and its own environment variables; None for a remote agent.

    The program of a locked agent is compared with the lock.

    Raises:
        StartError: The program differs, or the agent cannot be found.
    """
    if isinstance(target, str):
        from duologue.registry.resolver import resolve

        target = resolve(target, lock)
    if isinstance(target, Mapping):
        if "command" not in target:
            return None
        variables = {str(name): str(value) for name, value in dict(target.get("env", {})).items()}
        return split_command([str(target["command"]), *map(str, target.get("args", ()))]), variables
    if isinstance(target, Sequence) and not isinstance(target, str):
        return split_command(target), {}
    return None


def versions_for(arguments: argparse.Namespace) -> tuple[int, ...]:
    """Return the protocol versions to offer."""
    return (1, 2) if getattr(arguments, "v2", False) else (1,)


def with_version(agent: NamedAgent, arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Return the configuration of a named agent; the built-in one gets version, dialect and pace."""
    if agent.source != BUILTIN:
        return agent.config
    options = ["--v2"] if versions_for(arguments) != (1,) else []
    if agent.name != BUILTIN:
        return {**agent.config, "args": [*agent.config["args"], *options]}
    if arguments.dialect is not None:
        options += ["--dialect", arguments.dialect]
    if arguments.command in ("run", "chat") and sys.stdout.isatty():
        options += ["--pace", PACE_SECONDS]
    return {**agent.config, "args": [*agent.config["args"], *options]}


def remote_config(config: Mapping[str, Any], arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Return the configuration of a remote agent with the headers, token and CA file of the command line.

    Raises:
        UsageError: A header is malformed.
    """
    headers = {**config.get("headers", {})}
    for given in getattr(arguments, "header", []):
        name, colon, value = given.partition(":")
        if not colon or not name.strip() or not (given.isprintable() and given.isascii()):
            raise UsageError("--header: expected NAME: VALUE in printable ASCII")
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


def remote_factory(target: Target) -> RemoteFactory:
    """Return what opens connections to a remote agent.

    Raises:
        UsageError: The target is no URL that can be used.
    """
    from duologue.transports.remote.factory import RemoteFactory  # not needed for agents on this machine

    try:
        remote = RemoteFactory.of(target)
    except StartError as error:
        raise UsageError(str(error)) from None
    if remote is None:
        raise UsageError("the URL must begin with ws://, wss://, http:// or https://")
    return remote


def name_of(arguments: argparse.Namespace) -> str:
    """Return the name under which permission decisions for this agent are remembered; it contains no token."""
    agent: str | None = arguments.agent
    if agent and is_remote(agent):
        return urlsplit(agent)._replace(fragment="").geturl()
    if agent:
        return agent.partition("@")[0]
    return shlex.join(arguments.command_line) or BUILTIN
