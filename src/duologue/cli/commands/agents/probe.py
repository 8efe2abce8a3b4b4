"""`duologue agents probe`: start installed agents, and show what changed since they were probed before."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec
from msgspec.structs import replace

from duologue.cli.commands.agents.json_line import write_line
from duologue.cli.commands.agents.trust import lock_of, locked_agent
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.errors import DuologueError
from duologue.registry.lock_file import LockedAgent, ProbeResult, edit_lock, read_lock
from duologue.registry.probe import ProbeChange, drift
from duologue.registry.probe import probe as start_and_probe
from duologue.registry.resolver import resolve
from duologue.sanitize import escape_line


def probe(arguments: argparse.Namespace) -> int:
    """Probe one agent after the other; return the exit code."""
    if bool(arguments.ids) == arguments.all:
        raise UsageError("give either the ids of agents, or `--all`")
    path = lock_of(arguments)
    lock = read_lock(path)
    ids = list(dict.fromkeys(arguments.ids)) or list(lock.agents)
    agents = [locked_agent(lock, agent_id, path) for agent_id in ids]
    codes = (probe_agent(agent, arguments, is_stored=arguments.update) for agent in agents)
    return max(codes, key=_order, default=ExitCode.OK)


def _order(code: ExitCode) -> int:
    """Order exit codes: a failure hides a change, and a change hides that there was none."""
    return (ExitCode.OK, ExitCode.CHANGED, ExitCode.AGENT_ERROR).index(code)


def probe_agent(agent: LockedAgent, arguments: argparse.Namespace, *, is_stored: bool) -> ExitCode:
    """Start a locked agent, show how it describes itself, and store that in the lock file if wanted."""
    try:
        result = asyncio.run(start_and_probe(resolve(agent.id, arguments.lock), arguments.timeout))
    except (DuologueError, TimeoutError) as error:
        reason = str(error) or f"no answer within {arguments.timeout:g} s"
        if arguments.json:
            write_line({"id": agent.id, "version": agent.version, "state": "failed", "reason": reason})
        else:
            sys.stdout.write(f"{agent.id} {agent.version}: failed: {escape_line(reason)}\n")
        return ExitCode.AGENT_ERROR
    changes = [] if agent.probe is None else drift(agent.probe, result)
    _show(agent, result, changes, arguments.json)
    if is_stored:
        with edit_lock(lock_of(arguments)) as edit:
            if (current := edit.lock.agents.get(agent.id)) is not None:
                edit.put(replace(current, probe=result))
    return ExitCode.CHANGED if changes else ExitCode.OK


def _show(agent: LockedAgent, result: ProbeResult, changes: list[ProbeChange], is_json: bool) -> None:
    state = "first" if agent.probe is None else "changed" if changes else "unchanged"
    if is_json:
        fields = {"changes": msgspec.to_builtins(changes), "probe": msgspec.to_builtins(result)}
        write_line({"id": agent.id, "version": agent.version, "state": state, **fields})
        return
    versions = " and ".join(map(str, result.protocol_versions))
    info = result.agent_info or {}
    name = escape_line(f"{info.get('name')} {info.get('version')}") if info else "an agent without a name"
    sys.stdout.write(
        f"{agent.id} {agent.version}: {state}; {name}, protocol {versions}, session {escape_line(result.session)}, "
        f"{result.start_seconds:.1f} s to start\n"
    )
    for change in changes:
        before, after = (escape_line(msgspec.json.encode(each).decode()) for each in (change.before, change.after))
        sys.stdout.write(f"  {escape_line(change.field)}: {before} -> {after}\n")
