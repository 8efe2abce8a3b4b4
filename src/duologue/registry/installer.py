"""Install one agent into a directory: from an entry of an index, or exactly as a lock says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from duologue.registry import binary_installer, npm_installer, python_installer
from duologue.registry.file_digest import DESCRIPTION, describe_tree, program_digests, tree_sha256
from duologue.registry.index import Distribution, Kind, RegistryEntry, RegistryError, platform_name
from duologue.registry.install_recipe import FoundProgram, InstallRecipe, InstallSource, recipe_of
from duologue.registry.lock_file import LockedAgent

INSTALLATION = "installation"
"""Name of the new installation in the directory of temporary files."""


class AddRequest(Struct, frozen=True, kw_only=True):
    """An agent to add.

    Attributes:
        entry: The agent's entry in an index.
        registry: Where the entry is from.
        version: Another version than that of the entry.
        via: How to install it; None: what fits this platform.
        is_preview: Add the preview version.
        allow_scripts: Permit install scripts.
    """

    entry: RegistryEntry
    registry: str
    version: str | None = None
    via: Kind | None = None
    is_preview: bool = False
    allow_scripts: bool = False


class _Resolved(Struct, frozen=True, kw_only=True):
    """An agent as an index and a registry of packages describe it."""

    version: str
    recipe: InstallRecipe
    cmd: str | None
    args: list[str]
    env: dict[str, str]


def resolve_and_install(request: AddRequest, work: Path, source: InstallSource) -> LockedAgent:
    """Install an agent of an index into `installation` below a directory of temporary files.

    Raises:
        RegistryError: It cannot be installed.
        OSError: A file cannot be written.
    """
    resolved = _resolve(request, work, source)
    recipe, directory = resolved.recipe, work / INSTALLATION
    _fill(recipe, resolved.cmd or "", directory, work, source)
    found = _find_program(recipe, directory, resolved.cmd)
    digest = _finish(recipe, found.program, directory, source)
    return LockedAgent(
        id=request.entry.id,
        version=resolved.version,
        name=request.entry.name,
        platform=platform_name(),
        registry=request.registry,
        resolved_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        preview=request.is_preview,
        program=found.program,
        args=resolved.args,
        env=resolved.env,
        programs=program_digests(directory, found.compared),
        tree_sha256=digest,
        **{field: getattr(recipe, field) for field in InstallRecipe.__struct_fields__},
    )


def install_locked(agent: LockedAgent, work: Path, source: InstallSource) -> None:
    """Install exactly what a lock says into `installation` below a directory of temporary files.

    Raises:
        RegistryError: It cannot be installed, or its files are not those of the lock.
        OSError: A file cannot be written.
    """
    directory = work / INSTALLATION
    recipe = recipe_of(agent)
    _fill(recipe, agent.program, directory, work, source)
    _finish(recipe, agent.program, directory, source, agent.tree_sha256)
    if program_digests(directory, agent.programs) != agent.programs:
        raise RegistryError(f"the program of {agent.id} {agent.version} differs from the lock; nothing was installed")


def mirror_files(agent: LockedAgent, directory: Path, work: Path, source: InstallSource) -> None:
    """Put what a locked agent needs into a mirror.

    Raises:
        RegistryError: Something cannot be downloaded.
        OSError: A file cannot be written.
    """
    recipe = recipe_of(agent)
    match agent.kind:
        case "binary":
            binary_installer.mirror(recipe, directory, source)
        case "npx":
            npm_installer.mirror(recipe, directory, work, source)
        case "uvx":
            python_installer.mirror(recipe, directory, work, source)


def check_platform(agent: LockedAgent) -> None:
    """Check that an agent is locked for this platform.

    Raises:
        RegistryError: It is for another one.
    """
    if agent.platform != platform_name():
        raise RegistryError(
            f"{agent.id} {agent.version} is locked for {agent.platform}, and this is {platform_name()}; add it here "
            f"with: duologue agents add {agent.id}@{agent.version}"
        )


def _resolve(request: AddRequest, work: Path, source: InstallSource) -> _Resolved:
    entry = request.entry
    known, distribution = entry.version, entry.distribution
    if request.is_preview:
        if entry.preview is None:
            raise RegistryError(f"{entry.id} has no preview version in {request.registry}")
        known, distribution = entry.preview.version, entry.preview.distribution
    kind = _choose_kind(distribution, request.via, entry.id)
    if kind == "binary":
        binary = distribution.binary[platform_name()]
        if request.version not in (None, known):
            binary = binary_installer.choose_version(binary, known, request.version)
        recipe = binary_installer.resolve(binary, work, source)
        version = request.version or known
        return _Resolved(version=version, recipe=recipe, cmd=binary.cmd, args=binary.args, env=binary.env)
    target = distribution.npx if kind == "npx" else distribution.uvx
    assert target is not None
    if kind == "npx":
        exact = request.version or npm_installer.split_package(target.package)[1] or known
        recipe = npm_installer.resolve(target, exact, work, source, allow_scripts=request.allow_scripts)
    else:
        exact = request.version or python_installer.split_package(target.package)[2] or known
        recipe = python_installer.resolve(target, exact, work, source, allow_scripts=request.allow_scripts)
    version = request.version or known
    return _Resolved(version=version, recipe=recipe, cmd=target.cmd, args=target.args, env=target.env)


def _choose_kind(distribution: Distribution, via: Kind | None, agent_id: str) -> Kind:
    kinds = distribution.kinds()
    platforms = f"; it has programs for {', '.join(sorted(distribution.binary))}" if distribution.binary else ""
    if not kinds:
        raise RegistryError(f"{agent_id} cannot be installed on this platform, {platform_name()}{platforms}")
    if via is not None and via not in kinds:
        raise RegistryError(
            f"{agent_id} cannot be installed via {via} on {platform_name()}{platforms}; possible here: "
            f"{', '.join(kinds)}"
        )
    return via or kinds[0]


def _fill(recipe: InstallRecipe, cmd: str, directory: Path, work: Path, source: InstallSource) -> None:
    match recipe.kind:
        case "binary":
            binary_installer.install(recipe, cmd, directory, work, source)
        case "npx":
            npm_installer.install(recipe, directory, source)
        case "uvx":
            python_installer.install(recipe, directory, work, source)


def _find_program(recipe: InstallRecipe, directory: Path, cmd: str | None) -> FoundProgram:
    match recipe.kind:
        case "binary":
            return binary_installer.find_program(directory, cmd or "")
        case "npx":
            return npm_installer.find_program(recipe, directory, cmd)
        case "uvx":
            return python_installer.find_program(recipe, directory, cmd)


def _finish(
    recipe: InstallRecipe, program: str, directory: Path, source: InstallSource, expected: str | None = None
) -> str:
    """Make the program executable, run scripts if they are allowed, and write the list of files; return its hash.

    The hash is of the files before scripts ran: what scripts make may differ from machine to machine.
    """
    path = (directory / program).resolve()
    if not path.is_relative_to(directory.resolve()) or not path.is_file():
        raise RegistryError(f"the program {program!r} is not a file of the installation")
    path.chmod(0o755)
    description = describe_tree(directory)
    digest = tree_sha256(description)
    if expected not in (None, digest):
        raise RegistryError(
            f"the installed files have the SHA-256 {digest}, but the lock has {expected}; nothing was installed: the "
            "lock was changed, or made with another version of npm or uv"
        )
    if recipe.allow_scripts and recipe.kind == "npx":
        npm_installer.run_scripts(directory, source)
        description = describe_tree(directory)
    (directory / DESCRIPTION).write_text(description, "utf-8", "surrogateescape")
    return digest
