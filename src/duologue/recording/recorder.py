"""Write every frame of a connection to a file, in a thread of its own so that the conversation never waits.

A frame that is not JSON is written as text, what could not be written is marked as a gap, and a truncated file is
readable up to the end of its last whole line.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeAlias

from duologue.recording.format import VERSION, FrameDirection, Header, encode_line
from duologue.recording.frame_lines import FrameLines
from duologue.recording.line_splitter import LineSplitter, split_lines
from duologue.recording.recording_file import RecordingFile
from duologue.recording.redaction import Redactor, environment_secrets
from duologue.recording.stderr_text import StderrText

MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Bytes that may wait for a slow disk; further frames are dropped, and the gap is marked."""
MAX_BATCH = 512
"""Items that are written at once."""
MIN_BLOCK_BYTES = 4096
"""As many bytes of a stream are checked by themselves; fewer are checked together with those that follow."""
MAX_BLOCK_BYTES = 64 * 1024
"""Frames that are checked together are about this long: larger blocks are not faster, and need more memory."""

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

    The values of environment variables whose names say secret, of this process and of `env`, are masked wherever they
    occur.

    Args:
        path: The file; a recording is appended to. Only its owner may read it.
        agent: Command or URL of the agent, kept in the header without its secrets.
        patterns: Regular expressions of further secrets to remove.
        env: Environment variables that the agent gets in addition.

    Attributes:
        lost: Frames that could not be recorded.

    Raises:
        OSError: The file cannot be written, or is not a recording.
        ValueError: A pattern cannot be used as one.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        agent: Sequence[str] = (),
        patterns: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.path = Path(path)
        values = [*environment_secrets(os.environ), *environment_secrets(env or {})]
        self._redactor = Redactor(patterns, values=values)
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
        self._stderr = StderrText()
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
            run: list[_Item] = []
            for item in batch:
                if item.dropped:
                    self._write(self._lines_of(run))
                    run = []
                    self._miss(item.dropped)
                run.append(item)
            self._write(self._lines_of(run))
            with self._lock:
                self._waiting_bytes -= sum(len(item.data) for item in batch)
        self._miss(self._dropped)
        rest = self._stderr_line(time.monotonic() - self._began, self._stderr.rest())
        self._write([*(line for name in DIRECTIONS for line in self._rest(name)), *rest])

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

    def _lines_of(self, items: Iterable[_Item]) -> list[bytes]:
        """Return blocks of lines; the frames that wait in one direction are checked together."""
        blocks: list[bytes] = []
        for stream, group in groupby(items, key=attrgetter("stream")):
            if stream in DIRECTIONS:
                blocks += self._frame_blocks(stream, group)
            else:
                for item in group:
                    blocks += self._other_lines(item)
        return blocks

    def _frame_blocks(self, direction: FrameDirection, items: Iterable[_Item]) -> Iterator[bytes]:
        lines = self._frame_lines[direction]
        times: list[float] = []
        frames: list[bytes] = []
        size = 0
        for item in items:
            unsplit = b"" if item.is_frame else self._split(direction, item.data)
            if frames and (size >= MAX_BLOCK_BYTES or len(unsplit) >= MIN_BLOCK_BYTES):
                yield lines.lines(times, frames)
                times, frames, size = [], [], 0
            if len(unsplit) >= MIN_BLOCK_BYTES:
                yield lines.block(item.at, unsplit)
                continue
            found = [item.data] if item.is_frame else split_lines(unsplit)
            frames += found
            times += [item.at] * len(found)
            size += len(item.data)
        if frames:
            yield lines.lines(times, frames)

    def _other_lines(self, item: _Item) -> Iterator[bytes]:
        if item.stream == "stderr":
            yield from self._stderr_line(item.at, self._stderr.add(item.data))
        else:
            yield from self._stderr_line(item.at, self._stderr.rest())
            yield encode_line({"t": round(item.at, 6), "exit_code": int(item.data)}) + b"\n"

    def _stderr_line(self, at: float, data: bytes) -> Iterator[bytes]:
        if data:
            text = self._redactor.redact(data.decode("utf-8", "replace"))
            yield encode_line({"t": round(at, 6), "stderr": text}) + b"\n"

    def _split(self, direction: FrameDirection, data: bytes) -> bytes:
        """Return the lines that this part of a stream completes."""
        splitter = self._streams[direction]
        lines = splitter.add_unsplit(data)
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
