"""`duologue agents pin` and `approve`: decide which versions and programs of agents are used."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from msgspec.structs import replace

from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.registry.approvals import approve as approve_agents
from duologue.registry.approvals import unapproved
from duologue.registry.file_digest import DESCRIPTION, describe_tree, program_digests, tree_sha256
from duologue.registry.lock_file import (
    AgentsLock,
    LockedAgent,
    edit_lock,
    installation_directory,
    read_lock,
    user_lock,
)
from duologue.sanitize import escape_line
from duologue.suggestion import suggestion


def pin(arguments: argparse.Namespace) -> int:
    """Mark an agent in the lock file, so that `update` leaves it unchanged; return the exit code."""
    agent_id, _, version = arguments.id.partition("@")
    path = lock_of(arguments)
    with edit_lock(path) as edit:
        agent = locked_agent(edit.lock, agent_id, path)
        if version and version != agent.version:
            raise UsageError(
                f"{agent_id} is locked at {agent.version}, not {version}; first run: "
                f"duologue agents add {agent_id}@{version}"
            )
        edit.put(replace(agent, pinned=not arguments.undo))
    state = "is no longer pinned" if arguments.undo else f"is pinned at {agent.version}"
    sys.stderr.write(f"{agent_id} {state}\n")
    return 0


def approve(arguments: argparse.Namespace) -> int:
    """Permit starting agents of a project's lock file, or a changed program; return the exit code."""
    if arguments.lock is not None:
        return _approve_project(arguments)
    if arguments.id is None:
        raise UsageError("name the agent whose program has changed, or a project's lock file with `--lock FILE`")
    path = user_lock()
    agent = locked_agent(read_lock(path), arguments.id, path)
    directory = installation_directory(agent)
    programs = program_digests(directory, agent.programs)
    description = describe_tree(directory)
    changed = replace(agent, programs=programs, tree_sha256=tree_sha256(description))
    if changed == agent:
        sys.stderr.write(f"{agent.id} {agent.version} is as the lock file says; there is nothing to approve\n")
        return ExitCode.OK
    for name, found in programs.items():
        state = "unchanged" if found == agent.programs[name].lower() else f"was {agent.programs[name]}"
        sys.stderr.write(f"{directory / name}\n  SHA-256 {found}, {state}\n")
    _confirm(f"Start {agent.id} with these files from now on?", arguments)
    with edit_lock(path) as edit:
        edit.put(changed)
    (directory / DESCRIPTION).write_text(description, "utf-8", "surrogateescape")
    sys.stderr.write(f"{agent.id} {agent.version} is approved as it is now\n")
    return ExitCode.OK


def _approve_project(arguments: argparse.Namespace) -> int:
    path = Path(arguments.lock)
    if not path.exists():
        raise UsageError(f"there is no lock file {path}")
    lock = read_lock(path)
    chosen = list(lock.agents.values()) if arguments.id is None else [locked_agent(lock, arguments.id, path)]
    new = unapproved(chosen)
    if not new:
        sys.stderr.write(f"all {len(chosen)} agents are approved already\n")
        return ExitCode.OK
    sys.stderr.write("".join(map(describe_start, new)))
    _confirm(f"Permit starting {'it' if len(new) == 1 else f'these {len(new)} agents'}?", arguments)
    approve_agents(new, path)
    sys.stderr.write(f"approved: {', '.join(f'{agent.id} {agent.version}' for agent in new)}\n")
    return ExitCode.OK


def describe_start(agent: LockedAgent) -> str:
    """Return lines that say what a locked agent is and what is started."""
    variables = [f"{name}={value}" for name, value in agent.env.items()]
    lines = [
        f"{agent.id} {agent.version} ({escape_line(agent.name)})",
        f"  {agent.kind}: {agent.url or agent.package}",
        f"  from the registry {agent.registry}, {agent.resolved_at}",
        f"  starts: {shlex.join([*variables, agent.program, *agent.args])}",
        *(["  install scripts of its packages may run"] if agent.allow_scripts else []),
    ]
    return "".join(f"{escape_line(line, 4000)}\n" for line in lines)


def _confirm(question: str, arguments: argparse.Namespace) -> None:
    """Ask the user, unless `--yes` was given.

    Raises:
        UsageError: There is no terminal to ask on, or the answer is not yes.
    """
    if arguments.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is no terminal to ask on; give `--yes` if that is what you want")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was approved")


def lock_of(arguments: argparse.Namespace) -> Path:
    """Return the lock file that the arguments name, or the user's own."""
    return user_lock() if arguments.lock is None else Path(arguments.lock)


def locked_agent(lock: AgentsLock, agent_id: str, path: Path) -> LockedAgent:
    """Return an agent of a lock file.

    Raises:
        UsageError: It has no such agent.
    """
    if agent_id not in lock.agents:
        meant = suggestion(agent_id, lock.agents) or f"; to install it: duologue agents add {agent_id}"
        raise UsageError(f"{path} has no agent {agent_id!r}{meant}")
    return lock.agents[agent_id]
