"""Find the agent that one word names: in the lock file, in the configuration file, or on PATH, in this order.

A lock file of a project is used only when it is named, and after its agents were approved. The program of a locked
agent is compared with the lock file before each start.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from duologue.client.target import BUILTIN
from duologue.config.agents import KNOWN_COMMANDS, NamedAgent, find_agents
from duologue.errors import CommandNotFound, StartError
from duologue.registry.approvals import unapproved
from duologue.registry.file_digest import program_digests
from duologue.registry.index import RegistryError, platform_name
from duologue.registry.lock_file import LockedAgent, installation_directory, read_lock, user_lock
from duologue.suggestion import suggestion


def resolve(word: str, lock: str | Path | None = None) -> Mapping[str, Any]:
    """Return the configuration of the agent that `NAME` or `NAME@VERSION` names, after comparing a locked program.

    Args:
        word: The name; a version is looked up in the lock file only.
        lock: A project's lock file, used instead of the user's own.

    Raises:
        CommandNotFound: Nothing has that name.
        StartError: The lock file or the configuration cannot be used, or the agent is locked at another version or for
            another platform, is not approved, or its program differs.
    """
    agent = _locked(word, lock)
    if agent is None:
        return find_agent(word, lock).config
    verify_program(agent)
    return start_configuration(agent)


def find_agent(word: str, lock: str | Path | None = None) -> NamedAgent:
    """Find an agent as `resolve` does, without comparing its program.

    Raises:
        CommandNotFound: Nothing has that name.
        StartError: See `resolve`.
    """
    name, at, _ = word.partition("@")
    agent = _locked(word, lock)
    if agent is not None:
        return NamedAgent(name=name, source="locked", config=start_configuration(agent))
    if at:
        raise StartError(
            f"{name} is not in {_lock_path(lock)}, and only a lock file has versions; run: duologue agents add {word}"
        )
    agents = find_agents()
    if name in agents:
        return agents[name]
    if shutil.which(name) is not None:
        return NamedAgent(name=name, source="path", config={"command": name})
    raise CommandNotFound(_unknown(name, lock))


def named_agents(lock: str | Path | None = None) -> dict[str, NamedAgent]:
    """Return all agents that can be used by name, without programs on PATH that are not well known.

    Raises:
        StartError: The configuration or the lock file cannot be read.
    """
    found = find_agents()
    try:
        locked = read_lock(_lock_path(lock)).agents.values()
    except RegistryError as error:
        raise StartError(str(error)) from None
    own = {each.id: NamedAgent(name=each.id, source="locked", config=start_configuration(each)) for each in locked}
    return {**found, **own, BUILTIN: found[BUILTIN]}


def start_configuration(agent: LockedAgent) -> Mapping[str, Any]:
    """Return command, arguments and environment variables of a locked agent, as `connect()` accepts them."""
    program = installation_directory(agent) / agent.program
    return {"command": str(program), "args": list(agent.args), "env": dict(agent.env)}


def verify_program(agent: LockedAgent) -> None:
    """Compare what is started with the lock file.

    Raises:
        StartError: The agent is not installed, or a file differs.
    """
    directory = installation_directory(agent)
    if not directory.is_dir():
        raise StartError(
            f"{agent.id} {agent.version} is locked, but not installed here; run: duologue agents install {agent.id}"
        )
    try:
        found = program_digests(directory, agent.programs)
    except RegistryError as error:
        raise StartError(f"{agent.id} is not started: {error}; {_repair(agent.id)}") from None
    for path, expected in agent.programs.items():
        if found[path] != expected.lower():
            raise StartError(
                f"{agent.id} is not started: {directory / path} has the SHA-256 {found[path]}, but the lock file has "
                f"{expected.lower()}; {_repair(agent.id)}"
            )


def _repair(agent_id: str) -> str:
    return (
        f"`duologue agents verify {agent_id}` shows what changed, `duologue agents install {agent_id}` restores it, "
        f"`duologue agents approve {agent_id}` accepts it"
    )


def _lock_path(lock: str | Path | None) -> Path:
    return user_lock() if lock is None else Path(lock)


def _locked(word: str, lock: str | Path | None) -> LockedAgent | None:
    """Return the agent of that name in the lock file, if it has one that may be started here."""
    name, _, version = word.partition("@")
    path = _lock_path(lock)
    if name == BUILTIN:
        return None
    try:
        if lock is not None and not path.exists():
            raise RegistryError(f"there is no lock file {path}")
        agent = read_lock(path).agents.get(name)
        if agent is not None:
            _check(agent, version, lock)
    except RegistryError as error:
        raise StartError(str(error)) from None
    return agent


def _check(agent: LockedAgent, version: str, lock: str | Path | None) -> None:
    """Check that an agent has the version, is for this platform, and is approved if a project's lock file names it."""
    option = "" if lock is None else f" --lock {shlex.quote(str(lock))}"
    if version and version != agent.version:
        raise RegistryError(
            f"{agent.id} is locked at {agent.version}, not {version}; run: duologue agents add "
            f"{agent.id}@{version}{option}"
        )
    if agent.platform != platform_name():
        raise RegistryError(
            f"{agent.id} is locked for {agent.platform}, and this is {platform_name()}; run: duologue agents add "
            f"{agent.id}@{agent.version}{option}"
        )
    if lock is not None and unapproved([agent]):
        raise RegistryError(
            f"{lock} wants to start {agent.id} {agent.version}, which you have not approved; to see what it is and to "
            f"approve it, run: duologue agents approve {agent.id}{option}"
        )


def _unknown(name: str, lock: str | Path | None) -> str:
    """Return the message for a name that nothing has."""
    from duologue.registry.sources import Registries  # brings the modules for downloads

    known = named_agents(lock)
    with suppress(RegistryError):
        if name in Registries().saved_ids():
            return f"the agent {name!r} is not installed; run: duologue agents add {name}"
    near = suggestion(name, {*known, *KNOWN_COMMANDS}) or f"; known agents: {', '.join(known)}."
    return f"unknown agent {name!r}{near} A name is looked up in the lock file, in the configuration and on PATH"
