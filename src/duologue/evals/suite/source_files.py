"""Files of a suite: read with a bound, and found only inside the directory of the suite."""

from __future__ import annotations

import os
from pathlib import Path

from duologue.evals.exceptions import RecordError
from duologue.evals.record.versioned_file import read_bounded
from duologue.evals.suite.conversion import FieldError

MAX_SUITE_BYTES = 64 << 20
"""Size of the largest suite file, and of the largest file that a case names."""

MAX_TREE_FILES = 100_000
"""Number of files in the largest directory that a case names."""


def read_source(path: Path) -> bytes:
    """Return the content of a file of a suite.

    Raises:
        FieldError: It cannot be read, or is too large.
    """
    try:
        return read_bounded(path, MAX_SUITE_BYTES)
    except RecordError as error:
        raise FieldError(str(error)) from None


def read_text(path: Path) -> str:
    """Return the text of a file of a suite.

    Raises:
        FieldError: It cannot be read, is too large, or is not UTF-8.
    """
    try:
        return read_source(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldError(f"{path} is not UTF-8: {error}") from None


def inside(directory: Path, name: str, field: str) -> Path:
    """Return the path of a file that a case names, which must be inside the directory of its suite.

    Raises:
        FieldError: It does not exist, or leads out of the directory.
    """
    path = directory / name
    if "\0" in name or not path.resolve().is_relative_to(directory.resolve()):
        raise FieldError(f"{field}: {name!r} leads out of the directory of the suite, {directory}")
    if not path.exists():
        raise FieldError(f"{field}: there is no {name!r} in {directory}")
    return path


def relative(name: str, field: str) -> None:
    """Check that a path is relative and stays below the directory that it is used in.

    Raises:
        FieldError: It does not.
    """
    parts = Path(name).parts
    if not parts or "\0" in name or Path(name).is_absolute() or ".." in parts:
        raise FieldError(f"{field}: {name!r} is not a relative path inside of the workspace")


def files_below(path: Path) -> list[Path]:
    """Return a file, or all files below a directory, sorted; links are not followed.

    Raises:
        FieldError: There are too many.
    """
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", ".git"))
        found += [Path(folder, name) for name in names if not name.endswith(".pyc")]
        if len(found) > MAX_TREE_FILES:
            raise FieldError(f"{path} has more than {MAX_TREE_FILES:,} files")
    return sorted(found)
