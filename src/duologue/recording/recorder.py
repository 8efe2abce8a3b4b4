"""Write every frame of a connection to a file, in a thread of its own so that the conversation never waits.

One line per frame, after a header line:

    {"duologue": "recording", "version": 1, "started": "2026-…"}
    {"t": 0.013, "dir": "out", "frame": {"jsonrpc": "2.0", …}}

`t` counts seconds from the start. A frame that is not JSON has `"text"` instead of `"frame"`. `{"gap": 3}` stands for
three frames that could not be written. A truncated file is readable up to the end of its last whole line.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from duologue.private_files import make_private_file
from duologue.recording.redaction import redact, redact_broken

_log = logging.getLogger("duologue.recording")

_HEAD = b'{"duologue":"recording"'

_Waiting: TypeAlias = tuple[float, str, bytes, int]
"""Time of a frame, its direction, the frame, and how many frames before it were dropped."""

MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Bytes that may wait for a slow disk; further frames are dropped, and the gap is marked."""


class Recorder:
    """Records frames in a file, without their secrets. Pass it to `connect` as an observer.

    Args:
        path: The file; a recording is appended to. Only its owner may read it.

    Attributes:
        lost: Frames that could not be recorded.

    Raises:
        OSError: The file cannot be written, or is not a recording.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.lost = 0
        self._began = time.monotonic()
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._dropped = 0
        """Frames dropped since the last one that was queued."""
        self._gap = 0
        """Frames missing since the last one that was written; used by the writer thread only."""
        is_cut_off = _check(self.path)
        make_private_file(self.path)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = msgspec.json.encode({"duologue": "recording", "version": 1, "started": started}) + b"\n"
        self._head = b"\n" + head if is_cut_off else head
        """Bytes to write before the next line: the header, or the end of a line that was truncated."""
        self._write()
        self._writer = threading.Thread(target=self._run, name="duologue-recorder", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __call__(self, direction: str, frame: bytes) -> None:
        """Queue one frame for writing."""
        with self._lock:
            if self._waiting_bytes > MAX_WAITING_BYTES:
                self._dropped += 1
                self.lost += 1
                return
            self._waiting_bytes += len(frame)
            dropped, self._dropped = self._dropped, 0
            self._waiting.put((time.monotonic() - self._began, direction, frame, dropped))

    def close(self) -> None:
        """Write the queued frames and close the file. A second call does nothing."""
        if self._descriptor < 0:
            return
        self._waiting.put(None)
        self._writer.join()
        os.close(self._descriptor)
        self._descriptor = -1

    def _run(self) -> None:
        while (entry := self._waiting.get()) is not None:
            at, direction, frame, dropped = entry
            with self._lock:
                self._waiting_bytes -= len(frame)
            self._gap += dropped
            self._write({"t": round(at, 6), "dir": direction, **_content(frame)})
        self._gap += self._dropped
        if self._gap:
            self._write()

    def _write(self, *lines: dict[str, Any]) -> None:
        """Write lines after the mark of a gap, if there is one; completely or not at all, if the disk permits."""
        marked = [{"gap": self._gap}, *lines] if self._gap else lines
        data = self._head + b"".join(msgspec.json.encode(line) + b"\n" for line in marked)
        size, written = os.fstat(self._descriptor).st_size, 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            if not self.lost:
                _log.warning("the recording has a gap: %s", error)
            self._gap += len(lines)
            with self._lock:
                self.lost += len(lines)
            if written:
                self._undo(size)
        else:
            self._head, self._gap = b"", 0

    def _undo(self, size: int) -> None:
        """Remove a partial line; if that fails, end it before the next line."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError:
            self._head = self._head or b"\n"


def _check(path: Path) -> bool:
    """Return True if the last line of an existing recording is incomplete; raise if the file is not a recording."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        if not file.readline(len(_HEAD)).startswith(_HEAD):
            raise FileExistsError(errno.EEXIST, "the file exists and is not a recording", str(path))
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _content(frame: bytes) -> dict[str, Any]:
    try:
        return {"frame": redact(msgspec.json.decode(frame))}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {"text": redact_broken(frame.decode("utf-8", "replace"))}
