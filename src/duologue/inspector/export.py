"""Write the inspector page of one recording as a file that needs no server."""

from __future__ import annotations

from collections.abc import Sequence
from io import TextIOBase
from typing import TextIO

from msgspec import Raw, Struct

from duologue.inspector.page import data_element, page_end, page_start
from duologue.inspector.recording_index import PAGE_FRAMES, FrameContent, RecordingIndex, content_of

MAX_EXPORT_CHARS = 256 << 20
"""Characters of contents in one page, before compression; of later frames it has only the rows."""


class RecordingInfo(Struct, kw_only=True):
    """Facts about a recording that the page shows.

    Attributes:
        name: Name of the file.
        started: When it began.
        agent: Command of the agent.
        size: Length of the file in bytes.
        frames: Number of rows, as far as the recording was read.
        damaged: Lines that could not be read.
        is_cut: The recording has more frames than the page lists.
        contents: Rows whose contents are in the page, if not all.
    """

    name: str
    started: str = ""
    agent: list[str] = []
    size: int = 0
    frames: int = 0
    damaged: int = 0
    is_cut: bool = False
    contents: int | None = None


def info_of(name: str, index: RecordingIndex) -> RecordingInfo:
    """Return the facts about a recording, as far as it was read."""
    return RecordingInfo(
        name=name,
        started=index.header.started,
        agent=index.header.agent,
        size=index.position,
        frames=index.frames,
        damaged=index.damaged,
        is_cut=index.is_cut,
    )


def write_export(out: TextIO | TextIOBase, name: str, index: RecordingIndex) -> RecordingInfo:
    """Write the page of a recording; return the facts about it."""
    out.write(page_start(is_served=False))
    start = characters = 0
    contents: int | None = None
    while rows := index.rows(start):
        part = start // PAGE_FRAMES
        out.write(data_element(f"rows-{part}", [Raw(row) for row in rows]))
        if contents is None:
            texts = _contents(index, index.numbers(start))
            characters += sum(len(each.text) for each in texts)
            contents = start if characters > MAX_EXPORT_CHARS else None
            out.write(data_element(f"contents-{part}", texts) if contents is None else "")
        start += len(rows)
    start = 0
    while items := index.items(start):
        out.write(data_element(f"conversation-{start // PAGE_FRAMES}", [Raw(item) for item in items]))
        start += len(items)
    info = info_of(name, index)
    info.contents = contents
    out.write(data_element("info", info))
    out.write(data_element("statistics", index.statistics()))
    out.write(page_end())
    return info


def _contents(index: RecordingIndex, numbers: Sequence[int]) -> list[FrameContent]:
    selected = set(numbers)
    return [content_of(entry) for number, entry in index.entries(numbers[0], numbers[-1]) if number in selected]
