"""Add, install, update, remove and verify agents.

Nothing here prints or asks. What is installed is decided by the lock file: `add` and `update` resolve a new recipe,
`install` follows the lock exactly. The lock changes last: a failure at any moment leaves the old version usable.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from duologue.registry.file_digest import DESCRIPTION, describe_tree, program_digests, tree_changes, tree_sha256
from duologue.registry.index import BinaryTarget, Distribution, PackageTarget, RegistryEntry, RegistryError
from duologue.registry.install_prefix import InstallPrefix, open_prefix
from duologue.registry.install_recipe import InstallSource
from duologue.registry.installer import AddRequest, check_platform, install_locked, mirror_files, resolve_and_install
from duologue.registry.lock_file import LOCK_NAME, LockedAgent, edit_lock, installation_directory, read_lock
from duologue.registry.sources import MIRROR_INDEX, FoundEntry

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MOST_CHANGES = 20
"""Changed files that are named for one agent."""


class AgentUpdate(Struct, frozen=True, kw_only=True):
    """The result of an update, or of a check for one, for an agent.

    Attributes:
        id: The agent.
        before: The locked version.
        after: The version of the registry; None if no registry has the agent.
        state: `current`, `outdated`, `updated`, `pinned`, or `unknown`.
    """

    id: str
    before: str
    after: str | None
    state: str


def add(request: AddRequest, lock: Path, source: InstallSource) -> LockedAgent:
    """Install an agent of an index, and lock it.

    Raises:
        RegistryError: It cannot be installed; what was installed and locked before is unchanged.
    """
    with _errors(request.entry.id), open_prefix(source.progress) as prefix:
        prefix.remove_garbage()
        old = read_lock(lock).agents.get(request.entry.id)
        with prefix.partial() as work:
            agent = resolve_and_install(request, work, source)
            if old is not None and old.pinned:
                agent = msgspec.structs.replace(agent, pinned=True)
            _put(prefix, work / "installation", agent)
        prefix.remember_lock(lock)
        with edit_lock(lock) as edit:
            edit.put(agent)
        prefix.remove_garbage()
    return agent


def install(agents: Sequence[LockedAgent], lock: Path, source: InstallSource) -> list[LockedAgent]:
    """Install exactly what a lock says; return the agents that were not installed before.

    Raises:
        RegistryError: An agent is for another platform, cannot be installed, or is not what the lock says.
    """
    installed: list[LockedAgent] = []
    for agent in agents:
        with _errors(agent.id):
            check_platform(agent)
            if not verify(agent):
                continue
            with open_prefix(source.progress) as prefix:
                prefix.remove_garbage()
                with prefix.partial() as work:
                    install_locked(agent, work, source)
                    _put(prefix, work / "installation", agent)
                prefix.remember_lock(lock)
            installed.append(agent)
    return installed


def add_from_mirror(agent_id: str, version: str | None, lock: Path, source: InstallSource) -> LockedAgent:
    """Install an agent that a mirror has locked, and lock it as there.

    Raises:
        RegistryError: The mirror does not have it.
    """
    assert source.mirror is not None
    known = read_lock(source.mirror / LOCK_NAME).agents
    agent = known.get(agent_id)
    if agent is None or version not in (None, agent.version):
        has = ", ".join(f"{each.id}@{each.version}" for each in known.values()) or "none"
        raise RegistryError(f"the mirror {source.mirror} does not have {agent_id}@{version or 'any'}; it has {has}")
    install([agent], lock, source)
    with edit_lock(lock) as edit:
        edit.put(agent)
    return agent


def update(
    agents: Sequence[LockedAgent],
    find: Callable[[str], FoundEntry],
    lock: Path,
    source: InstallSource,
    *,
    is_check: bool = False,
) -> Iterator[AgentUpdate]:
    """Install the registry's versions of agents; those that are pinned stay.

    Args:
        agents: The agents.
        find: Returns the entry of an agent.
        lock: The lock file.
        source: Where files are taken from.
        is_check: Only report what is outdated.

    Raises:
        RegistryError: An agent cannot be installed; its old version stays usable.
    """
    for agent in agents:
        try:
            found = find(agent.id)
        except RegistryError:
            yield AgentUpdate(id=agent.id, before=agent.version, after=None, state="unknown")
            continue
        entry = found.entry
        version = entry.preview.version if agent.preview and entry.preview is not None else entry.version
        is_current = version == agent.version and not _is_replaced(agent, entry)
        state = "current" if is_current else "pinned" if agent.pinned else "outdated"
        if state == "outdated" and not is_check:
            request = AddRequest(
                entry=entry,
                registry=found.registry,
                via=agent.kind,
                is_preview=agent.preview and entry.preview is not None,
                allow_scripts=agent.allow_scripts,
            )
            add(request, lock, source)
            state = "updated"
        yield AgentUpdate(id=agent.id, before=agent.version, after=version, state=state)


def remove(ids: Sequence[str], lock: Path, source: InstallSource) -> None:
    """Remove agents from a lock, and their files unless another lock needs them."""
    with open_prefix(source.progress) as prefix:
        with edit_lock(lock) as edit:
            for agent_id in ids:
                edit.remove(agent_id)
        prefix.remove_garbage()


def verify(agent: LockedAgent) -> list[str]:
    """Compare the whole installation of an agent with its lock; return what differs."""
    directory = installation_directory(agent)
    if not directory.is_dir():
        return [f"not installed: {directory} is missing"]
    problems: list[str] = []
    try:
        found = program_digests(directory, agent.programs)
        problems += [
            f"changed program: {path} has the SHA-256 {found[path]}, the lock has {expected}"
            for path, expected in agent.programs.items()
            if found[path] != expected
        ]
        description = describe_tree(directory)
        known = (directory / DESCRIPTION).read_text("utf-8", "surrogateescape")
    except RegistryError as error:
        return [f"missing: {error}"]
    except OSError as error:
        return [f"missing: {error.filename}: {error.strerror}"]
    # What install scripts made differs from machine to machine, and can be compared only with what they made here.
    if not agent.allow_scripts and tree_sha256(known) != agent.tree_sha256:
        problems.append(f"changed: the list of files {directory / DESCRIPTION} is not the one of the lock")
    changes = tree_changes(known, description)
    problems += changes[:MOST_CHANGES]
    if len(changes) > MOST_CHANGES:
        problems.append(f"and {len(changes) - MOST_CHANGES} more files")
    return problems


def mirror(agents: Sequence[LockedAgent], directory: Path, source: InstallSource) -> None:
    """Put everything that agents need into a directory from which they can be installed without a network.

    Raises:
        RegistryError: Something cannot be downloaded.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with open_prefix(source.progress) as prefix:
        for agent in agents:
            with _errors(agent.id), prefix.partial() as work:
                check_platform(agent)
                mirror_files(agent, directory, work, source)
            with edit_lock(directory / LOCK_NAME) as edit:
                edit.put(agent)
        entries = [_entry_of(agent) for agent in read_lock(directory / LOCK_NAME).agents.values()]
        data = msgspec.json.encode({"version": "1.0.0", "agents": entries})
        (directory / MIRROR_INDEX).write_bytes(msgspec.json.format(data, indent=2))


def _entry_of(agent: LockedAgent) -> RegistryEntry:
    """Return the entry of a mirrored agent, in the version that the mirror has."""
    if agent.kind == "binary":
        binary = BinaryTarget(
            archive=agent.url or "", cmd=agent.program, sha256=agent.archive_sha256, args=agent.args, env=agent.env
        )
        distribution = Distribution(binary={agent.platform: binary})
    else:
        target = PackageTarget(package=agent.package or "", args=agent.args, env=agent.env)
        distribution = Distribution(npx=target) if agent.kind == "npx" else Distribution(uvx=target)
    return RegistryEntry(
        id=agent.id, name=agent.name, version=agent.version, description=agent.name, distribution=distribution
    )


def _put(prefix: InstallPrefix, partial: Path, agent: LockedAgent) -> None:
    """Give a complete installation its name, unless it is there already; a running agent keeps its files."""
    if verify(agent):
        prefix.put(partial, agent)


def _is_replaced(agent: LockedAgent, entry: RegistryEntry) -> bool:
    """Return True if the registry has another archive for the same version."""
    target = entry.distribution.binary.get(agent.platform) if agent.kind == "binary" and not agent.preview else None
    return target is not None and target.sha256 is not None and target.sha256.lower() != agent.archive_sha256


@contextmanager
def _errors(agent_id: str) -> Generator[None]:
    """Explain errors of the system."""
    try:
        yield
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        hint = "; free some space and try again" if error.errno in FULL_DISK else ""
        raise RegistryError(
            f"{agent_id} could not be installed: {what}{hint}. What was installed before is unchanged."
        ) from None
