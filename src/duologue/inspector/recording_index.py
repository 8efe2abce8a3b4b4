"""The frames of one recording for the inspector page: rows in memory within a bound, contents from the file."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from duologue.inspector.conversation_rows import conversation_row
from duologue.inspector.rows import row_of
from duologue.recording.format import Entry
from duologue.recording.reader import ReaderPosition, RecordingReader
from duologue.sanitize import replace_lone_surrogates
from duologue.trace.conversation import ConversationReader
from duologue.trace.frame_filter import FrameFilter, entry_text
from duologue.trace.frames import Tracer
from duologue.trace.item_queue import ConversationItem
from duologue.trace.statistics import Statistics, StatisticsCounter

MAX_FRAMES = 250_000
"""Frames of a recording that the page lists; a row takes some 300 bytes here and in the browser."""
MAX_ITEMS = 100_000
"""Items of a conversation that the page shows."""
PAGE_FRAMES = 1000
"""Frames, or items of a conversation, of one answer, and frames between two positions that are remembered."""
MAX_CONTENT_CHARS = 16 << 20
"""Characters of a frame that are sent to the page; no message of ordinary size has as many."""
SEARCH_SECONDS = 0.5
"""After this time a search answers with what it has found."""

Opener = Callable[[str, int], int]


class FrameContent(Struct):
    """The text of a frame: its JSON, or what was recorded instead.

    Attributes:
        text: The text, cut after `MAX_CONTENT_CHARS`.
        characters: Length of the whole text.
    """

    text: str
    characters: int


class RecordingIndex:
    """Reads a recording as far as it is asked for, and remembers the rows. Enter it; leaving it closes the file.

    Args:
        path: File of the recording.
        opener: As for `RecordingReader`.
        selection: Only these frames get a row.

    Raises:
        ValueError: The file is not a recording, or was written by a newer duologue.
        OSError: The file cannot be read.
    """

    def __init__(self, path: Path, opener: Opener | None = None, selection: FrameFilter | None = None) -> None:
        self._reader = RecordingReader(path, opener)
        try:
            self._contents = RecordingReader(path, opener)
        except (OSError, ValueError):
            self._reader.__exit__()
            raise
        self._selection = selection
        self._tracer = Tracer()
        self._counter = StatisticsCounter()
        self._conversation = ConversationReader()
        self._items: list[bytes] = []
        self._rows: list[bytes] = []
        self._numbers = array("L")
        self._positions: list[ReaderPosition] = []
        self._entries = 0
        self.header = self._reader.header

    @property
    def is_cut(self) -> bool:
        """True if the recording has more frames than the page lists."""
        return len(self._rows) >= MAX_FRAMES

    @property
    def frames(self) -> int:
        """Number of rows so far."""
        return len(self._rows)

    @property
    def damaged(self) -> int:
        """Number of lines that could not be read."""
        return self._reader.damaged

    @property
    def position(self) -> int:
        """Number of bytes read so far."""
        return self._reader.position

    def statistics(self) -> Statistics:
        """Return the figures of the frames that were read so far."""
        return self._counter.result(self._tracer.open_requests)

    def rows(self, start: int) -> list[bytes]:
        """Return encoded rows from the row with this index on, at most a page; none at the end of the file."""
        while len(self._rows) < start + PAGE_FRAMES and not self.is_cut and self._read_page():
            pass
        return self._rows[start : start + PAGE_FRAMES]

    def items(self, start: int) -> list[bytes]:
        """Return encoded items of the conversation from this index on, as far as frames were read; at most a page."""
        self._add_items(self._conversation.rest())
        return self._items[start : start + PAGE_FRAMES]

    def _add_items(self, items: Iterable[ConversationItem]) -> None:
        for item in items:
            if len(self._items) < MAX_ITEMS:
                self._items.append(msgspec.json.encode(conversation_row(item)))

    def numbers(self, start: int) -> Sequence[int]:
        """Return the numbers of the frames that `rows` returns."""
        return self._numbers[start : start + PAGE_FRAMES]

    def _read_page(self) -> bool:
        """Read up to a page of entries; return False at the end of the file as it is now."""
        rest = PAGE_FRAMES - self._entries % PAGE_FRAMES
        if rest == PAGE_FRAMES and len(self._positions) * PAGE_FRAMES == self._entries:
            self._positions.append(self._reader.next_position())
        before = self._entries
        for frame in self._tracer.trace(islice(self._reader, rest)):
            self._entries += 1
            if self._selection is None or self._selection.matches(frame):
                self._counter.add(frame)
                self._rows.append(msgspec.json.encode(row_of(frame)))
                self._numbers.append(frame.number)
                self._add_items(self._conversation.read([frame]))
        return self._entries > before

    def content(self, number: int) -> FrameContent | None:
        """Return the content of the frame with this number; None if no frame that was read has it."""
        return next((content_of(entry) for _, entry in self.entries(number, number)), None)

    def entries(self, first: int, last: int) -> Iterator[tuple[int, Entry]]:
        """Yield numbers and entries between these numbers, as far as they were read."""
        last = min(last, self._entries)
        if not 1 <= first <= last:
            return
        page, skipped = divmod(first - 1, PAGE_FRAMES)
        self._contents.seek(self._positions[page])
        yield from enumerate(islice(self._contents, skipped, skipped + last - first + 1), first)

    def search(self, text: str, first: int) -> tuple[list[int], int | None]:
        """Return the frames whose content has a text, in any case, and the number of the first that was not searched.

        Args:
            text: The text.
            first: Number of the first frame to search; the search ends after about `SEARCH_SECONDS`.
        """
        wanted, end = text.casefold(), time.monotonic() + SEARCH_SECONDS
        found: list[int] = []
        for number, entry in self.entries(first, self._entries):
            if wanted in entry_text(entry).casefold():
                found.append(number)
            if time.monotonic() > end:
                return found, number + 1 if number < self._entries else None
        return found, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.__exit__()
        self._contents.__exit__()


def content_of(entry: Entry) -> FrameContent:
    """Return the content of an entry within the bound."""
    text = entry_text(entry)
    return FrameContent(replace_lone_surrogates(text[:MAX_CONTENT_CHARS]), len(text))
