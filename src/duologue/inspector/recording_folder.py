"""The recordings that the server may show: one file, or those of a directory, and nothing outside of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from msgspec import Struct

from duologue.inspector.recording_index import RecordingIndex
from duologue.recording.reader import RecordingReader

SUFFIX = ".acp"
MAX_RECORDINGS = 1000
"""Recordings of a directory that are listed, the newest."""


class FolderEntry(Struct):
    """A recording in the list of the page: name, length in bytes, and when it was last written, in seconds."""

    name: str
    size: int
    modified: float


class RecordingFolder:
    """Lists and opens recordings. Links are not followed, and only regular files are opened.

    Args:
        path: A recording, or a directory with recordings.

    Raises:
        OSError: There is no such file or directory.
    """

    def __init__(self, path: Path) -> None:
        resolved = path.resolve(strict=True)
        self._only = None if resolved.is_dir() else resolved.name
        self.folder = resolved if self._only is None else resolved.parent

    def entries(self) -> list[FolderEntry]:
        """Return the recordings, the newest first."""
        found: list[FolderEntry] = []
        with os.scandir(self.folder) as files:
            for file in files:
                if self.has_name(file.name) and file.is_file(follow_symlinks=False):
                    status = file.stat(follow_symlinks=False)
                    found.append(FolderEntry(file.name, status.st_size, status.st_mtime))
        return sorted(found, key=lambda each: (-each.modified, each.name))[:MAX_RECORDINGS]

    def has_name(self, name: str) -> bool:
        """Return True for a name that a recording here can have; it is never a path."""
        if self._only is not None:
            return name == self._only
        return name.endswith(SUFFIX) and not {"/", "\0"} & set(name) and _is_text(name)

    def open(self, name: str) -> RecordingIndex:
        """Open a recording.

        Raises:
            FileNotFoundError: No recording here has this name.
            ValueError: The file is not a recording, or was written by a newer duologue.
            OSError: The file cannot be read, is a link, or is no regular file.
        """
        return RecordingIndex(self._path(name), open_regular_file)

    def read(self, name: str) -> RecordingReader:
        """Open a recording to read it once; the same is raised as by `open`."""
        return RecordingReader(self._path(name), open_regular_file)

    def _path(self, name: str) -> Path:
        if not self.has_name(name):
            raise FileNotFoundError(f"no recording {name!r} in {self.folder}")
        return self.folder / name

    def status(self, name: str) -> os.stat_result:
        """Return the status of a recording, without following a link.

        Raises:
            OSError: It cannot be read.
        """
        return (self.folder / name).lstat()


def open_regular_file(path: str, flags: int) -> int:
    """Open a file as Python's `open` does, but neither through a link nor a device, nor a pipe that would block.

    Raises:
        OSError: The file is one of these, or cannot be read.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


def _is_text(name: str) -> bool:
    """Return True if a file name is UTF-8: only such a name can be sent to the page."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
