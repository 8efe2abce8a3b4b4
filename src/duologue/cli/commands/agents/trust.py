"""`duologue agents pin` and `approve`: decide which versions and programs of agents are used."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msgspec.structs import replace

from duologue.cli.exit_codes import UsageError
from duologue.registry.lock_file import AgentsLock, LockedAgent, edit_lock, user_lock
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
