"""Read what a recording has page by page: the next page goes on where the last one ended, within a time for each."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from duologue.recording.reader import RecordingReader

MAX_SECONDS = 20.0
"""Time of one call; a model waits for it."""
MOST_PAUSED = 4
"""Readings that stopped at the end of a page and may go on; each has an open file."""

T = TypeVar("T")
NumberedItem: TypeAlias = tuple[int, Any]
ReadingKey: TypeAlias = tuple[object, ...]


class Deadline:
    """Ends an iteration after some time."""

    def __init__(self) -> None:
        self.is_over = False
        self.restart()

    def restart(self) -> None:
        """Count the time from now on."""
        self._end = time.monotonic() + MAX_SECONDS

    def limit(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items until the time is over."""
        for item in items:
            yield item
            if time.monotonic() > self._end:
                self.is_over = True
                return


class FileIdentity(NamedTuple):
    """The file that a name stands for, and its state: if one of these differs, the content may differ."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileIdentity:
        """Return the identity that a status shows."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class PageReading:
    """The items of one recording, read as far as pages were asked for.

    Args:
        reader: The recording; `close` closes it.
        items: Yields items of the recording in order, each with its position.

    Attributes:
        deadline: Ends the reading of one page.
        file: The file as it was when the reading began.
    """

    def __init__(
        self, reader: RecordingReader, items: Callable[[RecordingReader, Deadline], Iterator[NumberedItem]]
    ) -> None:
        self.deadline = Deadline()
        self.file = FileIdentity.of(reader.status())
        self._reader = reader
        self._items = items(reader, self.deadline)
        self._last: NumberedItem | None = None

    def after(self, position: int) -> Iterator[NumberedItem]:
        """Yield the items after a position, first the last item of the call before: it did not fit into its page."""
        self.deadline.restart()
        if self._last is not None and self._last[0] > position:
            yield self._last
        for item in self._items:
            self._last = item
            if item[0] > position:
                yield item

    def close(self) -> None:
        """Close the recording."""
        self._reader.__exit__()


class PausedReadings:
    """Readings that stopped at the end of a page, the newest few. Calls may come from several threads."""

    def __init__(self) -> None:
        self._paused: dict[ReadingKey, PageReading] = {}
        self._lock = threading.Lock()

    def take(self, key: ReadingKey, file: FileIdentity | None) -> PageReading | None:
        """Return the reading that was paused under a key, for this caller alone; None if its file is now another."""
        with self._lock:
            reading = self._paused.pop(key, None)
        if reading is not None and reading.file != file:
            reading.close()
            return None
        return reading

    def keep(self, key: ReadingKey, reading: PageReading) -> None:
        """Store a reading until it is taken or newer ones take its place."""
        with self._lock:
            dropped = [self._paused.pop(key)] if key in self._paused else []
            self._paused[key] = reading
            while len(self._paused) > MOST_PAUSED:
                dropped.append(self._paused.pop(next(iter(self._paused))))
        for each in dropped:
            each.close()

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            dropped = [*self._paused.values()]
            self._paused.clear()
        for each in dropped:
            each.close()
