"""Read recordings of every version, including incomplete ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

from msgspec import structs

from duologue.recording.format import VERSION, Entry, Header, read_entry, read_header

MAX_LINE_BYTES = 72 << 20
"""A longer line is skipped as damaged: no frame is that long."""


class ReaderPosition(NamedTuple):
    """A position in a recording: bytes before it, and the version and start of the part that it is in."""

    bytes: int
    version: int
    offset: float


class RecordingReader:
    """Reads the entries of a recording in order, in bounded memory. Enter it; leaving it closes the file.

    Args:
        path: File of the recording.
        opener: Opens the file, as that of Python's `open`; a server passes one that follows no link.

    Attributes:
        header: The first header.
        position: Number of bytes read so far; a recording that grows beyond it has more entries.
        damaged: Number of lines that could not be read.
        part: Header of the part that the last entry is in: each connection that was appended begins with one.

    Raises:
        ValueError: The file is not a recording, or was written by a newer duologue.
        OSError: The file cannot be read.
    """

    def __init__(self, path: str | Path, opener: Callable[[str, int], int] | None = None) -> None:
        self.path = Path(path)
        self.damaged = 0
        self.position = 0
        self._file = open(self.path, "rb", opener=opener)  # noqa: SIM115  (`__exit__` closes it)
        header = read_header(self._file.readline(MAX_LINE_BYTES))
        if header is None:
            self._file.close()
            raise ValueError(f"{path} is not a recording")
        self.header = header
        try:
            self._begin(header)
        except ValueError:
            self._file.close()
            raise
        self.position = self._file.tell()

    def _begin(self, header: Header) -> None:
        """Read what follows by the version of this header, and count its times from the first header on."""
        if header.version > VERSION:
            raise ValueError(
                f"{self.path} is a recording of version {header.version}; this duologue reads versions up to {VERSION}:"
                " update duologue"
            )
        self.part = header
        self._version = header.version
        self._offset = _seconds_between(self.header.started, header.started)

    def __iter__(self) -> Iterator[Entry]:
        """Yield the entries up to the end of the file as it is now; iterate again to go on with a growing one."""
        while True:
            line = self._file.readline(MAX_LINE_BYTES)
            if not line:
                return
            if len(line) == MAX_LINE_BYTES:
                self._skip_line()
                continue
            entry = self._entry(line)
            if entry is None and not line.endswith(b"\n"):
                self._file.seek(self.position)  # its rest may still be written
                return
            self.position += len(line)
            if entry is not None:
                yield entry

    def _entry(self, line: bytes) -> Entry | None:
        """Return the entry on a line; None for a header, which is applied, and for a damaged line, which is counted."""
        header = read_header(line)
        if header is not None:
            self._begin(header)
            return None
        entry = read_entry(line, self._version)
        if entry is None or entry == Entry():
            self.damaged += line.endswith(b"\n")
            return None
        return structs.replace(entry, t=round(entry.t + self._offset, 6)) if self._offset else entry

    def _skip_line(self) -> None:
        self.damaged += 1
        while (part := self._file.readline(MAX_LINE_BYTES)) and not part.endswith(b"\n"):
            pass
        self.position = self._file.tell()

    def status(self) -> os.stat_result:
        """Return the status of the open file."""
        return os.fstat(self._file.fileno())

    def next_position(self) -> ReaderPosition:
        """Return the position of the next entry."""
        return ReaderPosition(self.position, self._version, self._offset)

    def seek(self, position: ReaderPosition) -> None:
        """Continue with the entry at a position that `next_position` returned for this file."""
        self.position, self._version, self._offset = position
        self._file.seek(position.bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def read_recording(path: str | Path) -> Iterator[Entry]:
    """Yield the entries of a recording in order; skip an incomplete line.

    Raises:
        ValueError: The file is not a recording, or was written by a newer duologue.
        OSError: The file cannot be read.
    """
    with RecordingReader(path) as reader:
        yield from reader


def _seconds_between(first: str, later: str) -> float:
    """Return the seconds from one time to a later one; 0 if one is not a time, or the clock was set back."""
    try:
        return max(0.0, (datetime.fromisoformat(later) - datetime.fromisoformat(first)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
