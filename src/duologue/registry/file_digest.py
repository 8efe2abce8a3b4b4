"""Hash installed files: the programs that are compared at each start, and whole trees.

The description of a tree has one line for each file, sorted by name, and is the same wherever one lock is installed:
times, owners and bytecode are left out, and so is what says where the machine's own Python is.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from duologue.registry.index import RegistryError

DESCRIPTION = ".duologue-files"
"""File of an installation that has the description of its tree, so that `verify` can name what changed."""

PYTHON_LINK = re.compile(r"bin/python[0-9.]*")
"""Links of a virtual environment to the interpreter."""

ENVIRONMENT_FILE = "pyvenv.cfg"
MACHINE_SETTINGS = (b"home", b"uv", b"version_info", b"version", b"executable", b"command", b"prompt")
"""Settings of a virtual environment that say where and with what it was made."""


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def program_digests(directory: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files of an installation by their paths relative to it.

    Raises:
        RegistryError: A file is missing, or leads out of the installation.
    """
    root = directory.resolve()
    digests: dict[str, str] = {}
    for relative in paths:
        try:
            path = (root / relative).resolve(strict=True)
            if not path.is_relative_to(root) or not path.is_file():
                raise RegistryError(f"{directory / relative} is not a file of the installation")
            digests[relative] = file_sha256(path)
        except OSError as error:
            raise RegistryError(f"{directory / relative} cannot be read: {error.strerror}") from None
    return digests


def describe_tree(directory: Path) -> str:
    """Return a line for each file and link below a directory: its kind, hash or target, and path.

    Raises:
        OSError: A file cannot be read.
    """
    lines: list[tuple[str, str]] = []
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name != "__pycache__"]
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in [*files, *links]:
            path = Path(folder) / name
            relative = path.relative_to(directory).as_posix()
            if relative != DESCRIPTION and not name.endswith(".pyc"):
                lines.append((relative, _describe(path, relative)))
    return "".join(f"{text} {relative!r}\n" for relative, text in sorted(lines))


def _describe(path: Path, relative: str) -> str:
    if path.is_symlink():
        target = "python" if PYTHON_LINK.fullmatch(relative) else str(path.readlink())
        return f"link {target!r}"
    if relative == ENVIRONMENT_FILE or path.match("*.dist-info/RECORD"):
        lines = path.read_bytes().splitlines(keepends=True)
        is_own = _is_setting_of_machine if relative == ENVIRONMENT_FILE else _is_record_of_installer
        return f"file {hashlib.sha256(b''.join(line for line in lines if not is_own(line))).hexdigest()}"
    info = path.lstat()
    kind = "program" if info.st_mode & 0o100 else "file"
    return f"{kind} {file_sha256(path)}"


def _is_setting_of_machine(line: bytes) -> bool:
    """Return True for a line of `pyvenv.cfg` that says where and with what the environment was made."""
    return line.partition(b"=")[0].strip() in MACHINE_SETTINGS


def _is_record_of_installer(line: bytes) -> bool:
    """Return True for a line of `RECORD` about a script that the installer made, or its own notes."""
    return line.startswith(b"../") or b".dist-info/uv_cache.json," in line


def tree_sha256(description: str) -> str:
    """Return the SHA-256 of a description of a tree."""
    return hashlib.sha256(description.encode("utf-8", "surrogateescape")).hexdigest()


def tree_changes(before: str, after: str) -> list[str]:
    """Return what differs between two descriptions, one line for each file: `changed`, `missing` or `added`."""
    old, new = _by_path(before), _by_path(after)
    return [
        *(f"changed: {path}" for path in old if path in new and old[path] != new[path]),
        *(f"missing: {path}" for path in old if path not in new),
        *(f"added: {path}" for path in new if path not in old),
    ]


def _by_path(description: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in description.splitlines():
        match = re.fullmatch(r"(\w+ (?:[0-9a-f]{64}|'.*?'|\".*?\")) (['\"])(.*)\2", line)
        if match is not None:
            found[match[3]] = match[1]
    return found
