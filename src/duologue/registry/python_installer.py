"""Install an agent from PyPI into a virtual environment of its own: exactly the files of a lock, each with its hash."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import sys
from pathlib import Path

from duologue.registry.index import PackageTarget, RegistryError
from duologue.registry.install_recipe import EXACT_VERSION, FoundProgram, InstallRecipe, InstallSource
from duologue.registry.package_tool import ToolFailed, run_tool

WHEELS = "wheels"
"""Directory of a mirror that has wheels."""

REQUIREMENT = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(\[[A-Za-z0-9._,\s-]*\])?\s*(?:(?:==|@)\s*(.+))?"
)
LOCKED_LINE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]*\])?==[A-Za-z0-9.!+_-]+( ; [^\\@]+)? \\"
    r"|    --hash=sha256:[0-9a-f]{64}( \\)?"
)
"""A line of locked requirements: an exact version, or a hash; no option, URL or path."""

OTHER_PYTHONS = ("3.13", "3.12", "3.14", "3.11")
"""Versions of Python to try if a package does not support the one that runs duologue."""

NEEDED_PYTHON = re.compile(r"(?:does not satisfy|requires) Python ?([<>=!~][^\s]*)")
"""Part of an error of uv: which versions of Python a package supports."""

UV_VARIABLES = {"UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"}
"""Settings of uv: no interpreter is downloaded unseen, and files are not shared with its cache."""

ENVIRONMENT_LEFTOVERS = (
    *(".gitignore", "CACHEDIR.TAG", ".lock", "bin/activate*", "bin/deactivate*", "bin/pydoc.bat"),
    "lib/python*/site-packages/*.dist-info/uv_cache.json",
)
"""Files of uv that are not part of the agent: they depend on the version of uv, or on where a wheel came from."""


def split_package(package: str) -> tuple[str, str, str | None]:
    """Return the name, the extras and the exact version of a package of an index; None if it names no exact version.

    Raises:
        RegistryError: It is not a package of the registry, but a URL, a directory or a repository.
    """
    match = REQUIREMENT.fullmatch(package.strip())
    if match is None:
        raise RegistryError(f"{package!r} is not the name of a PyPI package, with or without `==` and a version")
    name, extras, version = match.groups()
    return name, extras or "", version if version and EXACT_VERSION.fullmatch(version) else None


def resolve(
    target: PackageTarget, version: str, work: Path, source: InstallSource, *, allow_scripts: bool
) -> InstallRecipe:
    """Ask the index of packages which files an agent consists of.

    Args:
        target: Its package.
        version: Its exact version.
        work: Directory for temporary files.
        source: Where packages are taken from.
        allow_scripts: Permit source distributions, whose build scripts run.

    Raises:
        RegistryError: uv is missing or failed, or a package cannot be locked.
    """
    name, extras, _ = split_package(target.package)
    if source.is_offline:
        raise source.missing(name)
    package = f"{name}{extras}=={version}"
    (work / "requirements.in").write_text(f"{package}\n", "utf-8")
    source.progress.step(f"resolving {package} with uv")
    command = [
        *(_uv(), "pip", "compile", "requirements.in", "--generate-hashes", "--no-header", "--no-annotate", "--quiet"),
        *("--no-emit-index-url", "--no-emit-find-links", "--output-file", "requirements.txt"),
        *([] if allow_scripts else ["--only-binary", ":all:"]),
    ]
    python = _compile(command, package, work, source)
    requirements = (work / "requirements.txt").read_text("utf-8")
    check_requirements(requirements)
    return InstallRecipe(
        kind="uvx", package=package, requirements=requirements, python=python, allow_scripts=allow_scripts
    )


def _compile(command: list[str], package: str, work: Path, source: InstallSource) -> str:
    """Resolve a package with the first installed Python that fits; return its version."""
    failures: dict[str, ToolFailed] = {}
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (own, *(other for other in OTHER_PYTHONS if other != own)):
        interpreter = find_interpreter(python, work)
        if interpreter is None:
            continue
        try:
            run_tool([*command, "--python", interpreter], work, UV_VARIABLES)
        except ToolFailed as error:
            failures[python] = error
            continue
        if failures:
            source.progress.notice(f"{package} cannot use Python {own}; it is installed with {interpreter}")
        return python
    for failure in failures.values():
        # A failure with a Python that fits tells more than that another one does not.
        if NEEDED_PYTHON.search(text := str(failure)) is None:
            hint = "\n  to permit build scripts, add it with --allow-scripts" if "Wheels are required" in text else ""
            raise ToolFailed(f"{text}{hint}")
    needed = NEEDED_PYTHON.search(str(failures[own]))
    assert needed is not None
    raise RegistryError(
        f"{package} needs Python {needed[1].rstrip(',')}, and there is only {', '.join(failures)} here; install a "
        "Python that fits, for example with `uv python install`, and add the agent again"
    )


def check_requirements(requirements: str) -> None:
    """Check that requirements are exact versions with hashes and nothing else.

    Raises:
        RegistryError: There is a line of another kind: an option, a URL, a path.
    """
    for line in requirements.splitlines():
        if line and LOCKED_LINE.fullmatch(line) is None:
            raise RegistryError(
                f"the requirements have the line {line[:200]!r}; only exact versions with hashes can be locked"
            )


def install(recipe: InstallRecipe, directory: Path, work: Path, source: InstallSource) -> None:
    """Install exactly the files of a recipe into a new virtual environment.

    Raises:
        RegistryError: uv or the version of Python is missing, or uv failed.
    """
    requirements = recipe.requirements or ""
    check_requirements(requirements)
    make_environment(recipe, directory, source)
    (work / "requirements.txt").write_text(requirements, "utf-8")
    source.progress.step(f"installing {recipe.package} and what it needs with uv")
    if recipe.allow_scripts:
        source.progress.notice("source distributions may run their build scripts, as allowed with --allow-scripts")
    options = [] if recipe.allow_scripts else ["--no-build"]
    if source.mirror is not None:
        options += ["--offline", "--no-index", "--find-links", str((source.mirror / WHEELS).resolve())]
    elif source.is_offline:
        options += ["--offline"]
    python = directory / "bin" / "python"
    command: list[str | Path] = [_uv(), "pip", "sync", "--require-hashes", "--quiet", *options, "--python", python]
    run_tool([*command, work / "requirements.txt"], work, UV_VARIABLES)
    for pattern in ENVIRONMENT_LEFTOVERS:
        for path in directory.glob(pattern):
            path.unlink()


def make_environment(recipe: InstallRecipe, directory: Path, source: InstallSource, *options: str) -> None:
    """Make a virtual environment that can be renamed, with the version of Python of a recipe."""
    python = recipe.python or f"{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = find_interpreter(python, directory.parent)
    if interpreter is None:
        raise RegistryError(f"{recipe.package} is locked for Python {python}, which is not installed here; install it")
    source.progress.step(f"making an environment with Python {python}")
    run_tool(
        [_uv(), "venv", "--quiet", "--no-project", "--relocatable", *options, "--python", interpreter, directory],
        directory.parent,
        UV_VARIABLES,
    )


def find_interpreter(version: str, directory: Path) -> str | None:
    """Return the interpreter of a version: the one that runs duologue if it fits, or an installed one that uv finds."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    # The commands that pyenv puts on PATH start only the version that is selected.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    path = os.pathsep.join([*map(str, sorted(pyenv.glob(f"versions/{version}.*/bin"))), os.environ.get("PATH", "")])
    command = [_uv(), "python", "find", "--no-project", "--system", version]
    try:
        return run_tool(command, directory, {**UV_VARIABLES, "PATH": path}).strip()
    except ToolFailed:
        return None


def find_program(recipe: InstallRecipe, directory: Path, cmd: str | None) -> FoundProgram:
    """Return the program of a package: the script that is wanted, the one named like the package, or the only one.

    Raises:
        RegistryError: The package has no such script.
    """
    name, _, version = split_package(recipe.package or "")
    packages = next(directory.glob("lib/python*/site-packages"), directory)
    scripts = _scripts(packages, name, version or "")
    wanted = cmd or (name if name in scripts or len(scripts) != 1 else next(iter(scripts)))
    if wanted not in scripts or not (directory / "bin" / wanted).is_file():
        known = ", ".join(sorted(scripts)) or "none"
        raise RegistryError(f"{name} has no console script {wanted!r}; its scripts: {known}")
    module = packages.joinpath(*scripts[wanted].partition(":")[0].strip().split("."))
    found = [path for path in (module.with_name(f"{module.name}.py"), module / "__init__.py") if path.is_file()]
    files = [f"bin/{wanted}", *(path.relative_to(directory).as_posix() for path in found)]
    return FoundProgram(program=files[0], compared=files)


def mirror(recipe: InstallRecipe, directory: Path, work: Path, source: InstallSource) -> None:
    """Put the wheels of a recipe into a mirror."""
    wheels = directory / WHEELS
    wheels.mkdir(exist_ok=True)
    # uv keeps no wheels; pip downloads them, and checks their hashes.
    environment = work / "downloader"
    make_environment(recipe, environment, source, "--seed")
    requirements = work / "requirements.txt"
    requirements.write_text(recipe.requirements or "", "utf-8")
    source.progress.step(f"downloading the wheels of {recipe.package} with pip")
    run_tool(
        [
            *(environment / "bin" / "python", "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"),
            *(() if recipe.allow_scripts else ("--only-binary", ":all:")),
            *("--dest", wheels.resolve(), "--requirement", requirements),
        ],
        work,
    )


def _scripts(packages: Path, name: str, version: str) -> dict[str, str]:
    """Return the console scripts of an installed package, with what each starts."""
    folded = re.sub(r"[-_.]+", "_", name).lower()
    for folder in packages.glob("*.dist-info"):
        package = folder.name.removesuffix(".dist-info").rpartition("-")[0]
        if re.sub(r"[-_.]+", "_", package).lower() == folded and (folder / "entry_points.txt").is_file():
            parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
            # Names of scripts keep their case.
            parser.optionxform = str  # type: ignore[assignment,method-assign]
            parser.read_string((folder / "entry_points.txt").read_text("utf-8"))
            return dict(parser["console_scripts"]) if parser.has_section("console_scripts") else {}
    return {}


def _uv() -> str:
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise RegistryError("uv is needed to install this agent; run: pip install 'duologue[agents]'")
    return found
