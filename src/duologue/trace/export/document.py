"""Write a conversation as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from io import TextIOBase

import msgspec

from duologue.recording.format import Header
from duologue.trace.item_queue import ConversationItem

FORMAT = 1
"""Version of the document."""


def write_json(header: Header, items: Iterable[ConversationItem], out: TextIOBase) -> None:
    """Write the conversation of a recording as an object with its `items`, one on each line."""
    recording = {"started": header.started, "agent": header.agent}
    out.write(f'{{"format":{FORMAT},"recording":{msgspec.json.encode(recording).decode()},"items":[')
    out.writelines(
        f"{',' if number else ''}\n{msgspec.json.encode(item).decode()}" for number, item in enumerate(items)
    )
    out.write("\n]}\n")
