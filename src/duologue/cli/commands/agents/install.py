"""`duologue agents add`, `install`, `update`, `remove`, `verify` and `mirror`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from duologue.cli.commands.agents.json_line import write_line
from duologue.cli.commands.agents.probe import probe_agent
from duologue.cli.commands.agents.trust import lock_of, locked_agent
from duologue.cli.console.install_output import ConsoleInstallProgress
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.registry import installation
from duologue.registry.approvals import approve, unapproved
from duologue.registry.install_recipe import InstallSource
from duologue.registry.installer import AddRequest
from duologue.registry.lock_file import LockedAgent, installation_directory, read_lock
from duologue.registry.sources import Registries


def add(arguments: argparse.Namespace) -> int:
    """Install an agent of a registry, and lock it; return the exit code."""
    agent_id, _, version = arguments.id.partition("@")
    lock, source = lock_of(arguments), _source(arguments)
    if source.mirror is not None:
        agent = installation.add_from_mirror(agent_id, version or None, lock, source)
    else:
        found = _registries(arguments).find(agent_id)
        for line in found.note.splitlines():
            source.progress.notice(line)
        request = AddRequest(
            entry=found.entry,
            registry=found.registry,
            version=version or None,
            via=arguments.via,
            is_preview=arguments.preview,
            allow_scripts=arguments.allow_scripts,
        )
        agent = installation.add(request, lock, source)
    _report(arguments, agent, "added", f"{agent.id} {agent.version} ({agent.kind}) is installed and locked in {lock}")
    if not arguments.json:
        sys.stderr.write(f"  program: {installation_directory(agent) / agent.program}\n")
        sys.stderr.write(f"  to use it: duologue chat --agent {agent.id}\n")
    if not arguments.probe:
        return ExitCode.OK
    source.progress.notice(f"starting {agent.id} to probe it, as asked with --probe")
    return probe_agent(agent, arguments, is_stored=True)


def install(arguments: argparse.Namespace) -> int:
    """Install exactly what a lock file says; return the exit code."""
    lock = lock_of(arguments)
    agents = _chosen(arguments, lock)
    installed = {agent.id for agent in installation.install(agents, lock, _source(arguments))}
    for agent in agents:
        state = "installed" if agent.id in installed else "unchanged"
        text = "is installed" if agent.id in installed else "was installed already, and is unchanged"
        _report(arguments, agent, state, f"{agent.id} {agent.version} {text}")
    if arguments.lock is not None and (new := unapproved(agents)):
        if arguments.approve:
            approve(new, lock)
        else:
            sys.stderr.write(f"to permit starting them: duologue agents approve --lock {arguments.lock}\n")
    return ExitCode.OK


def update(arguments: argparse.Namespace) -> int:
    """Install newer versions; return the exit code."""
    lock = lock_of(arguments)
    agents = _chosen(arguments, lock)
    texts = {
        "current": "{id} {before} is the registry's version",
        "outdated": "{id} {before} can be updated to {after}",
        "updated": "{id} was updated from {before} to {after}",
        "pinned": "{id} stays at {before}, because it is pinned; the registry has {after}",
        "unknown": "{id} {before} is in no registry; it stays as it is",
    }
    registries = _registries(arguments)
    updates = installation.update(agents, registries.find, lock, _source(arguments), is_check=arguments.check)
    code = ExitCode.OK
    for each in updates:
        if each.state == "outdated":
            code = ExitCode.AGENT_ERROR
        line = {"id": each.id, "state": each.state, "before": each.before, "after": each.after}
        if arguments.json:
            write_line(line)
        else:
            sys.stdout.write(f"{texts[each.state].format(**line)}\n")
    return code


def remove(arguments: argparse.Namespace) -> int:
    """Remove agents from the lock file, and their files; return the exit code."""
    lock = lock_of(arguments)
    agents = _chosen(arguments, lock)
    installation.remove([agent.id for agent in agents], lock, _source(arguments))
    for agent in agents:
        _report(arguments, agent, "removed", f"{agent.id} {agent.version} was removed")
    return ExitCode.OK


def verify(arguments: argparse.Namespace) -> int:
    """Compare the installed agents with the lock file; return the exit code."""
    code = ExitCode.OK
    for agent in _chosen(arguments, lock_of(arguments)):
        problems = installation.verify(agent)
        if problems:
            code = ExitCode.AGENT_ERROR
        if arguments.json:
            state = "changed" if problems else "intact"
            write_line({"id": agent.id, "version": agent.version, "state": state, "problems": problems})
        elif problems:
            sys.stdout.write(f"{agent.id} {agent.version} differs from the lock:\n")
            sys.stdout.write("".join(f"  {problem}\n" for problem in problems))
            sys.stdout.write(f"  to install what the lock says: duologue agents install {agent.id}\n")
        else:
            sys.stdout.write(f"{agent.id} {agent.version} is as locked\n")
    return code


def mirror(arguments: argparse.Namespace) -> int:
    """Fill a mirror directory; return the exit code."""
    directory = Path(arguments.directory)
    agents = _chosen(arguments, lock_of(arguments))
    installation.mirror(agents, directory, _source(arguments))
    for agent in agents:
        _report(arguments, agent, "mirrored", f"{agent.id} {agent.version} is in {directory}")
    return ExitCode.OK


def _chosen(arguments: argparse.Namespace, path: Path) -> list[LockedAgent]:
    """Return the agents that the arguments name, or all of the lock file."""
    lock = read_lock(path)
    if not arguments.ids and not lock.agents:
        raise UsageError(f"{path} has no agents; to add one: duologue agents add ID")
    return [locked_agent(lock, agent_id, path) for agent_id in arguments.ids or lock.agents]


def _source(arguments: argparse.Namespace) -> InstallSource:
    mirror: str | None = getattr(arguments, "mirror", None)
    if mirror is not None and not Path(mirror).is_dir():
        raise UsageError(f"there is no mirror {mirror}; to make one: duologue agents mirror {mirror}")
    return InstallSource(
        progress=ConsoleInstallProgress(),
        mirror=None if mirror is None else Path(mirror),
        is_offline=mirror is not None or getattr(arguments, "offline", False),
    )


def _registries(arguments: argparse.Namespace) -> Registries:
    return Registries(arguments.registry or (), mirror=arguments.mirror, is_offline=arguments.offline)


def _report(arguments: argparse.Namespace, agent: LockedAgent, state: str, text: str) -> None:
    if arguments.json:
        directory = str(installation_directory(agent))
        write_line(
            {"id": agent.id, "version": agent.version, "kind": agent.kind, "state": state, "directory": directory}
        )
    else:
        sys.stdout.write(f"{text}\n")
