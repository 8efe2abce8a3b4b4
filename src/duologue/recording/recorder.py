"""Write every frame of a connection to a file, in a thread of its own so that the conversation never waits.

A frame that is not JSON is written as text, what could not be written is marked as a gap, and a truncated file is
readable up to the end of its last whole line.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeAlias

from duologue.recording.format import VERSION, FrameDirection, Header, encode_line
from duologue.recording.frame_lines import FrameLines
from duologue.recording.line_splitter import LineSplitter
from duologue.recording.recording_file import RecordingFile
from duologue.recording.redaction import Redactor, environment_secrets

MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Bytes that may wait for a slow disk; further frames are dropped, and the gap is marked."""
MAX_BATCH = 512
"""Items that are written at once."""

Stream: TypeAlias = Literal["stderr", "exit"] | FrameDirection
DIRECTIONS: tuple[FrameDirection, FrameDirection] = ("to_agent", "to_client")


class _Item(NamedTuple):
    at: float
    stream: Stream
    data: bytes
    is_frame: bool
    """False for a part of a stream of lines, cut anywhere."""
    dropped: tuple[_Dropped, ...]
    """Frames dropped before it, by stream."""


class _Dropped(NamedTuple):
    stream: Stream
    frames: int
    is_frame: bool
    is_at_line_end: bool


class Recorder:
    """Records frames in a file, without their secrets. Pass it to `connect` as an observer.

    The values of this process's environment variables whose names say secret are masked wherever they occur.

    Args:
        path: The file; a recording is appended to. Only its owner may read it.
        agent: Command or URL of the agent, kept in the header without its secrets.
        patterns: Regular expressions of further secrets to remove.

    Attributes:
        lost: Frames that could not be recorded.

    Raises:
        OSError: The file cannot be written, or is not a recording.
        ValueError: A pattern is not a regular expression.
    """

    def __init__(self, path: str | Path, *, agent: Sequence[str] = (), patterns: Iterable[str] = ()) -> None:
        self.path = Path(path)
        self._redactor = Redactor(patterns, values=environment_secrets(os.environ))
        self._file = RecordingFile(self.path, _header(self._redactor.redact(list(agent))))
        self._dropped: list[_Dropped] = []
        """Since the last item that was queued; one for each stream."""
        self._dropped_in_all = 0
        self._began = time.monotonic()
        self._waiting: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._missing = 0
        """Frames dropped before the next line; used by the writer thread only."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._frame_lines = {name: FrameLines(name, self._redactor) for name in DIRECTIONS}
        self._streams = {name: LineSplitter() for name in DIRECTIONS}
        self._writer = threading.Thread(target=self._run, name="duologue-recorder", daemon=True)
        self._writer.start()

    @property
    def lost(self) -> int:
        """Frames that could not be recorded."""
        return self._dropped_in_all + self._file.lost

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __call__(self, direction: str, frame: bytes) -> None:
        """Queue one frame for writing.

        Args:
            direction: `to_agent` or `to_client`; an observer on the client's side says `out` or `in`.
            frame: The frame.
        """
        self._queue(_direction(direction), frame, is_frame=True)

    def add_bytes(self, direction: FrameDirection, data: bytes) -> None:
        """Queue a part of a stream of lines, cut anywhere; each line of the stream is a frame."""
        self._queue(direction, data, is_frame=False)

    def add_stderr(self, data: bytes) -> None:
        """Queue what the agent wrote to stderr."""
        self._queue("stderr", data, is_frame=True)

    def add_exit(self, exit_code: int) -> None:
        """Queue the end of the agent's process; a negative code is a signal."""
        self._queue("exit", b"%d" % exit_code, is_frame=True)

    def close(self) -> None:
        """Write the queued frames and close the file. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._waiting.put(None)
        self._writer.join()
        self._file.close()

    def _queue(self, stream: Stream, data: bytes, *, is_frame: bool) -> None:
        with self._lock:
            if self._waiting_bytes > MAX_WAITING_BYTES:
                self._drop(stream, data, is_frame)
                return
            self._waiting_bytes += len(data)
            dropped, self._dropped = tuple(self._dropped), []
            self._waiting.put(_Item(time.monotonic() - self._began, stream, data, is_frame, dropped))

    def _drop(self, stream: Stream, data: bytes, is_frame: bool) -> None:
        frames = 1 if is_frame else data.count(b"\n")
        self._dropped_in_all += frames
        for number, each in enumerate(self._dropped):
            if each.stream == stream:
                self._dropped[number] = _Dropped(stream, each.frames + frames, is_frame, data.endswith(b"\n"))
                return
        self._dropped.append(_Dropped(stream, frames, is_frame, data.endswith(b"\n")))

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            lines: list[bytes] = []
            for item in batch:
                if item.dropped:
                    self._write(lines)
                    lines = []
                    self._miss(item.dropped)
                lines += self._lines_of(item)
            self._write(lines)
            with self._lock:
                self._waiting_bytes -= sum(len(item.data) for item in batch)
        self._miss(self._dropped)
        self._write([line for name in DIRECTIONS for line in self._rest(name)])

    def _next_batch(self) -> tuple[list[_Item], bool]:
        """Wait for items; return them, and False after the last one."""
        batch: list[_Item] = []
        item = self._waiting.get()
        try:
            while item is not None:
                batch.append(item)
                if len(batch) == MAX_BATCH:
                    return batch, True
                item = self._waiting.get_nowait()
        except queue.Empty:
            return batch, True
        return batch, False

    def _miss(self, dropped: Iterable[_Dropped]) -> None:
        for each in dropped:
            self._missing += each.frames
            if not each.is_frame and each.stream in self._streams:
                self._streams[each.stream].miss(is_at_line_end=each.is_at_line_end)

    def _write(self, lines: list[bytes]) -> None:
        missing, self._missing = self._missing, 0
        if lines or missing:
            self._file.write(lines, missing=missing)

    def _lines_of(self, item: _Item) -> Iterator[bytes]:
        at, stream, data = item.at, item.stream, item.data
        if stream == "stderr":
            text = self._redactor.redact(data.decode("utf-8", "replace"))
            yield encode_line({"t": round(at, 6), "stderr": text}) + b"\n"
        elif stream == "exit":
            yield encode_line({"t": round(at, 6), "exit_code": int(data)}) + b"\n"
        else:
            frames = (data,) if item.is_frame else self._split(stream, data)
            for frame in frames:
                yield self._frame_lines[stream].line(at, frame)

    def _split(self, direction: FrameDirection, data: bytes) -> list[bytes]:
        splitter = self._streams[direction]
        lines = splitter.add(data)
        self._missing += splitter.dropped
        self._dropped_in_all += splitter.dropped
        splitter.dropped = 0
        return lines

    def _rest(self, name: FrameDirection) -> Iterator[bytes]:
        """Return the last line of a stream that ended without a line end."""
        rest = self._streams[name].rest()
        if rest and not rest.isspace():
            yield self._frame_lines[name].line(time.monotonic() - self._began, rest)


def _direction(name: str) -> FrameDirection:
    return "to_agent" if name in ("out", "to_agent") else "to_client"


def _header(agent: list[str]) -> bytes:
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    header = Header("recording", VERSION, started, agent)
    return encode_line(header) + b"\n"
