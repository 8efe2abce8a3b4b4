"""Read the lines, or the items of a JSON array, of another program's log, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Self

from duologue.recording.format import FrameDirection
from duologue.trace.importers.json_items import JsonItems

MAX_LINE_BYTES = 64 << 20
"""A longer line or item is left out: no frame is that long."""
MAX_PROBLEMS = 10
"""Problems that are described; further ones are only counted."""
HEAD_BYTES = 64 * 1024
"""Bytes by which a format is recognized."""


class ForeignFrame(NamedTuple):
    """A frame of another program's log.

    Attributes:
        t: Seconds since the first frame; 0 if the log has no times.
        dir: The receiver; empty for what the agent wrote to stderr.
        data: The frame, or the text from stderr.
    """

    t: float
    dir: FrameDirection | Literal[""]
    data: bytes


class ForeignLog:
    """A log file of another program. Enter it; leaving it closes the file.

    Args:
        path: The file.

    Attributes:
        head: The first bytes.
        agent: Command of the agent, if the log says it.
        started: Unix time of the first frame; 0 if the log does not say it.
        position: Bytes read so far.
        problems: Descriptions of lines that were left out, with their numbers; at most `MAX_PROBLEMS`.
        left_out: Number of lines that were left out.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115  (`__exit__` closes it)
        self.head = self._file.read(HEAD_BYTES)
        self._file.seek(0)
        self.agent: list[str] = []
        self.started = 0.0
        self.position = 0
        self.problems: list[str] = []
        self.left_out = 0

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line that is not blank, with its number."""
        number = 0
        while line := self._file.readline(MAX_LINE_BYTES):
            number += 1
            is_whole = len(line) < MAX_LINE_BYTES
            while not line.endswith(b"\n") and (more := self._file.readline(MAX_LINE_BYTES)):
                is_whole, line = False, more
            self.position = self._file.tell()
            if not is_whole:
                self.leave_out(number, f"longer than {MAX_LINE_BYTES:,} bytes")
            elif not line.isspace():
                yield number, line

    def items(self, depth: int) -> Iterator[tuple[int, bytes]]:
        """Yield each object of the arrays inside so many brackets, with the number of its first line."""
        items = JsonItems(depth, MAX_LINE_BYTES)
        while part := self._file.read(HEAD_BYTES):
            self.position += len(part)
            for number, item in items.add(part):
                if item is None:
                    self.leave_out(number, f"longer than {MAX_LINE_BYTES:,} bytes")
                else:
                    yield number, item
        if not items.is_at_end:
            self.leave_out(items.line, "the file ends in the middle of its JSON")

    def seconds_since_start(self, time: float) -> float:
        """Return the seconds from the first frame to a Unix time."""
        self.started = self.started or time
        return max(0.0, round(time - self.started, 6))

    def leave_out(self, line: int, problem: str) -> None:
        """Note that a line cannot be imported."""
        self.left_out += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"line {line:,}: {problem}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
