"""`duologue agents list`, `search` and `info`: show what is installed and what the registries have."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from duologue.cli.commands.agents.json_line import write_line
from duologue.cli.commands.agents.trust import lock_of
from duologue.cli.console.safe_output import first_columns, terminal_width
from duologue.cli.exit_codes import ExitCode, UsageError
from duologue.registry.index import RegistryEntry, RegistryError, platform_name
from duologue.registry.lock_file import AgentsLock, LockedAgent, installation_directory, read_lock
from duologue.registry.sources import FoundEntry, Registries
from duologue.sanitize import escape_line


def list_agents(arguments: argparse.Namespace) -> int:
    """List the agents of the lock file, or those of the registries; return the exit code."""
    path = lock_of(arguments)
    lock = read_lock(path)
    if arguments.all:
        found, notes = registries_of(arguments).entries()
        _show_entries(found, lock, notes, arguments.json)
        return ExitCode.OK
    for agent in lock.agents.values():
        if arguments.json:
            write_line(_locked_line(agent))
    if not arguments.json:
        _show_table([agent.id, agent.version, agent.kind, ", ".join(_states(agent))] for agent in lock.agents.values())
        if not lock.agents:
            sys.stderr.write(
                f"{path} has no agents; `duologue agents list --all` shows which there are, `duologue agents add ID` "
                "installs one\n"
            )
    return ExitCode.OK


def search(arguments: argparse.Namespace) -> int:
    """List the agents of the registries that contain each word of a text; return 1 if there is none."""
    found, notes = registries_of(arguments).entries()
    words = arguments.text.casefold().split()
    matching = [each for each in found if all(word in _searched(each.entry) for word in words)]
    _show_entries(matching, read_lock(lock_of(arguments)), notes, arguments.json)
    if not matching:
        sys.stderr.write(f"nothing found for {escape_line(arguments.text)!r} in {len(found)} agents\n")
    return ExitCode.OK if matching else ExitCode.AGENT_ERROR


def info(arguments: argparse.Namespace) -> int:
    """Show the entry of an agent and what is locked; return the exit code."""
    locked = read_lock(lock_of(arguments)).agents.get(arguments.id)
    found: FoundEntry | None = None
    try:
        found = registries_of(arguments).find(arguments.id)
        note = found.note
    except RegistryError as error:
        if locked is None:
            raise UsageError(str(error)) from None
        note = str(error)
    if arguments.json:
        entry = None if found is None else msgspec.to_builtins(found.entry)
        registry = None if found is None else found.registry
        write_line({"id": arguments.id, "registry": registry, "entry": entry, "locked": msgspec.to_builtins(locked)})
    else:
        rows = [*(_entry_rows(found) if found else ()), *(_locked_rows(locked) if locked else ())]
        width = max(len(name) for name, _ in rows)
        for name, text in rows:
            sys.stdout.write(f"{name:<{width}}  {escape_line(text, 2000)}\n")
    _show_notes([note])
    return ExitCode.OK


def registries_of(arguments: argparse.Namespace) -> Registries:
    """Return the registries that the arguments name."""
    return Registries(arguments.registry, mirror=arguments.mirror, is_offline=arguments.offline)


def _searched(entry: RegistryEntry) -> str:
    return f"{entry.id} {entry.name} {entry.description}".casefold()


def _show_entries(found: Sequence[FoundEntry], lock: AgentsLock, notes: Iterable[str], as_json: bool) -> None:
    if as_json:
        for each in found:
            write_line(_entry_line(each, lock.agents.get(each.entry.id)))
    else:
        _show_table(_entry_row(each.entry, lock.agents.get(each.entry.id)) for each in found)
    _show_notes(notes)


def _show_notes(notes: Iterable[str]) -> None:
    for line in (line for note in notes for line in note.splitlines()):
        sys.stderr.write(f"{escape_line(line, 1000)}\n")


def _entry_row(entry: RegistryEntry, locked: LockedAgent | None) -> list[str]:
    kinds = "/".join(entry.distribution.kinds()) or f"not for {platform_name()}"
    state = "" if locked is None else f"installed {locked.version}"
    return [entry.id, entry.version, kinds, state, f"{entry.name}: {entry.description}"]


def _entry_line(found: FoundEntry, locked: LockedAgent | None) -> dict[str, Any]:
    entry = found.entry
    return {
        "id": entry.id,
        "name": entry.name,
        "version": entry.version,
        "preview": None if entry.preview is None else entry.preview.version,
        "description": entry.description,
        "kinds": entry.distribution.kinds(),
        "registry": found.registry,
        "locked": None if locked is None else locked.version,
    }


def _locked_line(agent: LockedAgent) -> dict[str, Any]:
    line = msgspec.to_builtins(agent)
    big = ("package_lock", "requirements", "probe")
    return {**{name: value for name, value in line.items() if name not in big}, "states": _states(agent)}


def _states(agent: LockedAgent) -> list[str]:
    """Return what is special about a locked agent."""
    states = [name for name in ("pinned", "preview") if getattr(agent, name)]
    states += ["with install scripts"] if agent.allow_scripts else []
    if agent.platform != platform_name():
        return [*states, f"for {agent.platform}"]
    return [*states, *([] if installation_directory(agent).is_dir() else ["not installed"])]


def _entry_rows(found: FoundEntry) -> list[tuple[str, str]]:
    entry = found.entry
    distribution = entry.distribution
    rows = [
        ("id", entry.id),
        ("name", entry.name),
        ("version", entry.version),
        ("preview", entry.preview.version if entry.preview else ""),
        ("description", entry.description),
        ("authors", ", ".join(entry.authors)),
        ("license", entry.license or ""),
        ("repository", entry.repository or ""),
        ("website", entry.website or ""),
        ("registry", found.registry),
    ]
    for kind, target in (("npx", distribution.npx), ("uvx", distribution.uvx)):
        if target is not None:
            rows.append((kind, shlex.join([target.package, *([target.cmd] if target.cmd else []), *target.args])))
    for platform, binary in distribution.binary.items():
        checked = "with checksum" if binary.sha256 else "no checksum"
        rows.append((f"binary {platform}", f"{binary.archive} ({checked})"))
    return [(name, text) for name, text in rows if text]


def _locked_rows(agent: LockedAgent) -> list[tuple[str, str]]:
    states = f" ({', '.join(_states(agent))})" if _states(agent) else ""
    program = installation_directory(agent) / agent.program
    rows = [
        ("locked", f"{agent.version}, {agent.kind}{states}"),
        ("resolved", f"{agent.resolved_at} from {agent.registry}"),
        ("starts", shlex.join([*(f"{name}={value}" for name, value in agent.env.items()), str(program), *agent.args])),
    ]
    if agent.probe is not None:
        versions = ", ".join(map(str, agent.probe.protocol_versions))
        rows.append(("probed", f"{agent.probe.probed_at}: protocol {versions}, session {agent.probe.session}"))
    return rows


def _show_table(rows: Iterable[Sequence[str]]) -> None:
    """Print columns; on a terminal the last one is cut to fit."""
    table = [[escape_line(cell, 300) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)][:-1]
    for *cells, last in table:
        line = "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True) if width), last])
        sys.stdout.write((first_columns(line, terminal_width()) if sys.stdout.isatty() else line).rstrip() + "\n")
