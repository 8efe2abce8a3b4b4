"""Writes every frame of a connection to a file, beside the conversation and never in its way.

One line per frame, after a first line that says what this is:

    {"duologue": "recording", "version": 1, "started": "2026-…"}
    {"t": 0.013, "dir": "out", "frame": {"jsonrpc": "2.0", …}}

`t` counts seconds from the start. A frame that is not JSON is `"text"` instead of `"frame"`. `{"gap": 3}` stands for
frames that could not be written. A file that was cut off anywhere is readable up to the cut.
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
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec

from duologue.recording.redaction import redact, redact_broken

__all__ = ["Recorder"]

_log = logging.getLogger("duologue.recording")

_HEAD = b'{"duologue":"recording"'

_Waiting: TypeAlias = tuple[float, str, bytes, int]
"""When a frame passed, where to, the frame, and how many before it were left out."""

MAX_WAITING_BYTES = 16 * 1024 * 1024
"""What may wait for a slow disk; more is left out, and the gap is marked."""


class Recorder:
    """A tap that keeps what it sees. Secrets are removed before anything is written.

    Args:
        path: The file; it is appended to, and only its owner may read it.

    Raises:
        OSError: It cannot be written, or is something else than a recording.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.lost = 0
        """Frames that could not be kept."""
        self._began = time.monotonic()
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._left_out = 0
        """Frames since the last one that found room to wait."""
        self._gap = 0
        """Frames since the last one that was written; the writer's own."""
        is_cut_off = _check(self.path)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.fchmod(self._descriptor, 0o600)
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = msgspec.json.encode({"duologue": "recording", "version": 1, "started": started}) + b"\n"
        self._head = b"\n" + head if is_cut_off else head
        """What the next line stands behind: the head until it is written, or the end of a line that was cut off."""
        self._write()
        self._writer = threading.Thread(target=self._run, name="duologue-recorder", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, direction: str, frame: bytes) -> None:
        """One frame passed."""
        with self._lock:
            if self._waiting_bytes > MAX_WAITING_BYTES:
                self._left_out += 1
                self.lost += 1
                return
            self._waiting_bytes += len(frame)
            left_out, self._left_out = self._left_out, 0
            self._waiting.put((time.monotonic() - self._began, direction, frame, left_out))

    def close(self) -> None:
        """Write what waits, and end. A second call does nothing."""
        if self._descriptor < 0:
            return
        self._waiting.put(None)
        self._writer.join()
        os.close(self._descriptor)
        self._descriptor = -1

    def _run(self) -> None:
        while (entry := self._waiting.get()) is not None:
            at, direction, frame, left_out = entry
            with self._lock:
                self._waiting_bytes -= len(frame)
            self._gap += left_out
            self._write({"t": round(at, 6), "dir": direction, **_content(frame)})
        self._gap += self._left_out
        if self._gap:
            self._write()

    def _write(self, *lines: dict[str, Any]) -> None:
        """Write lines behind the mark of a gap, if there is one; all of it or nothing, as far as the disk allows."""
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
        """Take back the part of a line; where that cannot be done, end it, so that the next one can be read."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError:
            self._head = self._head or b"\n"


def _check(path: Path) -> bool:
    """Refuse to append to what is no recording; whether the last line of one that is there was cut off."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        if not file.readline(len(_HEAD)).startswith(_HEAD):
            raise FileExistsError(errno.EEXIST, "there is another file already, which is no recording", str(path))
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _content(frame: bytes) -> dict[str, Any]:
    try:
        return {"frame": redact(msgspec.json.decode(frame))}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {"text": redact_broken(frame.decode("utf-8", "replace"))}
