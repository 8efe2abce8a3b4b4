"""Read and write the JSON files of a run: whole or not at all, with a version."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from duologue.evals.exceptions import RecordError
from duologue.private_files import replace_private_file, sync_directory

S = TypeVar("S", bound=Struct)

MAX_FILE_BYTES = 256 << 20
"""Size of the largest file of a record that is read into memory."""


class _Version(Struct):
    format: int


def write_versioned(path: Path, value: Struct) -> None:
    """Write a file of a run, replacing an earlier one; after a crash there is the old content or the new."""
    content = msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
    replace_private_file(path, content)


def read_versioned(path: Path, kind: type[S], current: int) -> S:
    """Return the content of a file of a run.

    Args:
        path: The file.
        kind: Class of its content; fields that an older version did not have get their defaults.
        current: The newest version that is known.

    Raises:
        RecordError: It is missing, damaged, or of a newer version.
    """
    content = read_bounded(path)
    try:
        version = msgspec.json.decode(content, type=_Version).format
        if version > current:
            raise RecordError(
                f"{path} has format {version}, and this version of duologue reads up to {current}: "
                "install a newer duologue to read it"
            )
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{path} is damaged, or no {kind.__name__}: {error}") from None


def read_bounded(path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a regular file that is not too large; opening a pipe does not wait.

    Raises:
        RecordError: It cannot be read, is not a regular file, or is larger.
    """
    content = read_beginning(path, most + 1)
    if len(content) > most:
        raise RecordError(f"{path} is larger than {most:,} bytes")
    return content


def read_beginning(path: Path, most: int) -> bytes:
    """Return at most so many bytes of a regular file; opening a pipe does not wait.

    Raises:
        RecordError: It cannot be read, or is not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RecordError(f"{path} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def sync_files(directory: Path) -> None:
    """Write the files below a directory to disk, and the directories with their entries."""
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder, name)
            if path.is_symlink() or not path.is_file():
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(Path(folder))
