"""Install an agent from npm: exactly the packages of a lock, each with its integrity, without their scripts."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64decode
from binascii import Error as Base64Error
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from duologue.registry.archive import remove_tree
from duologue.registry.index import PackageTarget, RegistryError
from duologue.registry.install_recipe import EXACT_VERSION, FoundProgram, InstallRecipe, InstallSource
from duologue.registry.package_tool import run_tool

ROOT_NAME = "duologue-agent"
TARBALLS = "npm"
"""Directory of a mirror that has npm packages, each named by its SHA-512."""

PACKAGE_NAME = re.compile(r"(@[a-z0-9~][a-z0-9._~-]*/)?[a-zA-Z0-9~][a-zA-Z0-9._~-]*")
UNNEEDED_FIELDS = ("resolved", "funding", "license", "deprecated")
"""Fields of a package in a lock that do not decide what is installed; the first would name the registry's host."""

OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--omit-lockfile-registry-resolved")


def split_package(package: str) -> tuple[str, str | None]:
    """Return the name and the exact version of a package of an index; None if it has a range, a tag or no version.

    Raises:
        RegistryError: It is not a package of the registry, but a URL, a directory or a repository.
    """
    at = package.find("@", 1)
    name, version = (package[:at], package[at + 1 :]) if at > 0 else (package, "")
    if not PACKAGE_NAME.fullmatch(name):
        raise RegistryError(f"{package!r} is not the name of an npm package")
    return name, version if EXACT_VERSION.fullmatch(version) else None


def resolve(
    target: PackageTarget, version: str, work: Path, source: InstallSource, *, allow_scripts: bool
) -> InstallRecipe:
    """Ask the npm registry which packages an agent consists of.

    Args:
        target: Its package.
        version: Its exact version.
        work: Directory for temporary files.
        source: Where packages are taken from.
        allow_scripts: Permit the install scripts of packages.

    Raises:
        RegistryError: npm is missing or failed, or a package cannot be locked.
    """
    name, _ = split_package(target.package)
    if source.is_offline:
        raise source.missing(name)
    folder = work / "resolution"
    folder.mkdir()
    _write_json(folder / "package.json", _root(name, version))
    source.progress.step(f"resolving {name}@{version} with npm")
    run_tool([_npm(), "install", "--package-lock-only", *OPTIONS], folder)
    lock = json.loads((folder / "package-lock.json").read_text("utf-8"))
    for path, each in lock["packages"].items():
        for field in UNNEEDED_FIELDS:
            each.pop(field, None)
        _drop_absent_options(path, each, lock["packages"])
    check_lock(lock)
    if not allow_scripts and (scripts := _with_scripts(lock)):
        source.progress.notice(
            f"install scripts of {', '.join(scripts)} are not run; if the agent does not start without them, add it "
            "with --allow-scripts"
        )
    return InstallRecipe(kind="npx", package=f"{name}@{version}", package_lock=lock, allow_scripts=allow_scripts)


def install(recipe: InstallRecipe, directory: Path, source: InstallSource) -> None:
    """Install exactly the packages of a recipe into a new directory, without running their scripts."""
    _install(recipe, directory, source, [])


def run_scripts(directory: Path, source: InstallSource) -> None:
    """Run the install scripts of the packages of an installation."""
    source.progress.notice("running the install scripts of the agent's packages, as allowed with --allow-scripts")
    # npm finds the packages by their own files when the lock is gone.
    run_tool([_npm(), "rebuild", "--no-audit", "--no-fund", "--foreground-scripts"], directory)
    (directory / "node_modules" / ".package-lock.json").unlink(missing_ok=True)


def check_lock(lock: dict[str, Any]) -> None:
    """Check that a `package-lock.json` names only packages of the registry with their integrity.

    Raises:
        RegistryError: A package has no integrity, or comes from elsewhere.
    """
    try:
        packages = msgspec.convert(lock.get("packages"), dict[str, dict[str, Any]])
    except msgspec.ValidationError:
        packages = {}
    if "" not in packages:
        raise RegistryError("the package lock has no list of packages; add the agent again")
    for path, each in packages.items():
        parts = PurePosixPath(path).parts
        if path == "":
            continue
        if parts[:1] != ("node_modules",) or ".." in parts or "\\" in path:
            raise RegistryError(f"the package lock has the entry {path!r}, which is not a package of the registry")
        if each.get("link") or "resolved" in each:
            raise RegistryError(f"the package lock takes {path!r} from elsewhere than the registry")
        if not each.get("inBundle") and not str(each.get("integrity", "")).startswith("sha"):
            raise RegistryError(
                f"{path.removeprefix('node_modules/')} has no integrity in the registry, so that it cannot be locked"
            )


def find_program(recipe: InstallRecipe, directory: Path, cmd: str | None) -> FoundProgram:
    """Return the program of a package: the command that is wanted, the only one, or the one named like the package.

    Raises:
        RegistryError: The package has no such command.
    """
    name, _ = split_package(recipe.package or "")
    folder = directory / "node_modules" / name
    try:
        manifest = json.loads((folder / "package.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RegistryError(f"{name} has no readable package.json: {error}") from None
    short = name.rpartition("/")[2]
    given: Any = manifest.get("bin", {})
    commands: dict[str, Any] = {short: given} if isinstance(given, str) else given
    wanted = cmd or (next(iter(commands)) if len(commands) == 1 else short)
    if wanted not in commands:
        known = ", ".join(sorted(commands)) or "none"
        raise RegistryError(f"{name} has no command {wanted!r}; its commands: {known}")
    program = (folder / str(commands[wanted])).resolve()
    if not program.is_relative_to(directory.resolve()) or not program.is_file():
        raise RegistryError(f"the command {wanted!r} of {name} is not a file of the package")
    relative = program.relative_to(directory.resolve()).as_posix()
    return FoundProgram(program=relative, compared=[relative])


def mirror(recipe: InstallRecipe, directory: Path, work: Path, source: InstallSource) -> None:
    """Put the packages of a recipe into a mirror."""
    tarballs = directory / TARBALLS
    tarballs.mkdir(exist_ok=True)
    cache = work / "cache"
    _install(recipe, work / "installation", source, ["--cache", str(cache)])
    for digest in _digests(recipe):
        # npm's cache keeps each package under its hash; those for other platforms are not there.
        cached = cache / "_cacache" / "content-v2" / "sha512" / digest[:2] / digest[2:4] / digest[4:]
        if cached.exists():
            shutil.copyfile(cached, tarballs / f"{digest}.tgz")


def _install(recipe: InstallRecipe, directory: Path, source: InstallSource, options: list[str]) -> None:
    lock = recipe.package_lock or {}
    check_lock(lock)
    name, version = split_package(recipe.package or "")
    directory.mkdir(mode=0o755)
    _write_json(directory / "package.json", _root(name, version or "*"))
    if source.mirror is not None:
        lock, options = _mirrored(lock, source.mirror), [*options, "--offline"]
    elif source.is_offline:
        options = [*options, "--offline"]
    _write_json(directory / "package-lock.json", lock)
    source.progress.step(f"installing {recipe.package} and what it needs with npm")
    run_tool([_npm(), "ci", *OPTIONS, *options], directory)
    # What npm writes about where packages came from is not part of the agent.
    for left in ("package.json", "package-lock.json", "node_modules/.package-lock.json"):
        (directory / left).unlink(missing_ok=True)
    remove_tree(directory / "node_modules" / ".cache")


def _mirrored(lock: dict[str, Any], mirror: Path) -> dict[str, Any]:
    """Return a lock whose packages are files of a mirror; npm checks the integrity of each."""
    packages: dict[str, Any] = {}
    for path, each in lock["packages"].items():
        file = None if (digest := _digest(each)) is None else (mirror / TARBALLS / f"{digest}.tgz").resolve()
        packages[path] = {**each, "resolved": f"file:{file}"} if file is not None and file.exists() else each
    return {**lock, "packages": packages}


def _digests(recipe: InstallRecipe) -> set[str]:
    packages = (recipe.package_lock or {}).get("packages", {})
    return {digest for each in packages.values() if (digest := _digest(each)) is not None}


def _digest(package: dict[str, Any]) -> str | None:
    """Return the SHA-512 of a package in hexadecimal, from its integrity."""
    for integrity in str(package.get("integrity", "")).split():
        algorithm, _, encoded = integrity.partition("-")
        if algorithm == "sha512":
            try:
                return b64decode(encoded, validate=True).hex()
            except Base64Error:
                return None
    return None


def _drop_absent_options(path: str, package: dict[str, Any], packages: dict[str, Any]) -> None:
    """Remove optional dependencies that the registry does not have: `npm ci` would call the lock incomplete."""
    options = package.get("optionalDependencies", {})
    folders = [path]
    while "node_modules/" in folders[-1]:
        folders.append(folders[-1].rpartition("node_modules/")[0].rstrip("/"))
    for name in list(options):
        if not any(f"{folder}/node_modules/{name}".lstrip("/") in packages for folder in folders):
            del options[name]


def _with_scripts(lock: dict[str, Any]) -> list[str]:
    """Return the packages of a lock that have install scripts, and are needed here."""
    packages = lock["packages"].items()
    return [path.rpartition("node_modules/")[2] for path, each in packages if each.get("hasInstallScript")]


def _root(name: str, version: str) -> dict[str, Any]:
    return {"name": ROOT_NAME, "private": True, "dependencies": {name: version}}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2), "utf-8")


def _npm() -> str:
    found = shutil.which("npm")
    if found is None:
        raise RegistryError("npm is needed to install this agent, and is not on PATH; install Node.js 20 or newer")
    return found
