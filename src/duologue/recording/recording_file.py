"""An append-only file of lines that survives a full disk: lines are written whole, and missing ones are counted."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from duologue.private_files import make_private_file
from duologue.recording.format import MAGIC

_log = logging.getLogger("duologue.recording")


class RecordingFile:
    """Appends lines to a recording. Only its owner may read it.

    Args:
        path: The file; a recording is appended to.
        header: First line of what is appended.

    Attributes:
        lost: Lines that could not be written.

    Raises:
        OSError: The file cannot be written, or is not a recording.
    """

    def __init__(self, path: Path, header: bytes) -> None:
        self.lost = 0
        self._gap = 0
        """Lines missing since the last one that was written."""
        is_cut_off = _is_cut_off(path)
        make_private_file(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._pending = b"\n" + header if is_cut_off else header
        """Bytes to write before the next line: the header, or the end of a line that was truncated."""
        self.write(())

    def write(self, lines: Iterable[bytes], *, missing: int = 0) -> None:
        """Write lines, each ended by a newline; what the disk does not take is counted as a gap.

        Args:
            lines: The lines, or blocks of several.
            missing: Number of lines before these that are missing already.
        """
        self._gap += missing
        mark = b'{"gap":%d}\n' % self._gap if self._gap else b""
        opening = self._pending + mark
        data = b"".join((opening, *lines) if opening else lines)
        size, written = os.fstat(self._descriptor).st_size, 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            self._on_full_disk(error, data, len(opening), size, written)
        else:
            self._pending, self._gap = b"", 0

    def _on_full_disk(self, error: OSError, data: bytes, opening: int, size: int, written: int) -> None:
        """Keep the whole lines that were written, remove a partial one, and count the others as missing.

        Args:
            error: Why the rest was not written.
            data: What was to be written.
            opening: How much of it comes before the lines.
            size: The size of the file before.
            written: How much of the data was written.
        """
        if not self.lost:
            _log.warning("the recording has a gap: %s", error)
        # The opening counts with its line: without one, it could be written again and again while the disk is full.
        length = data.rfind(b"\n", opening, max(opening, written)) + 1
        if length:
            self._pending, self._gap = b"", 0
        lost = data.count(b"\n", max(opening, length))
        self._gap += lost
        self.lost += lost
        if written > length:
            try:
                os.ftruncate(self._descriptor, size + length)
            except OSError:
                # Nothing can be removed: the partial line is ended before the next one.
                self._pending = self._pending or b"\n"

    def close(self) -> None:
        """Mark the last gap, and close the file."""
        if self._gap:
            self.write(())
        os.close(self._descriptor)


def _is_cut_off(path: Path) -> bool:
    """Return True if the last line of an existing recording is incomplete; raise if the file is not a recording."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        if not file.readline(len(MAGIC)).startswith(MAGIC):
            raise FileExistsError(errno.EEXIST, "the file exists and is not a recording", str(path))
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
