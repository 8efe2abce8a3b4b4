"""Read recordings, including incomplete ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType


class Entry(Struct, frozen=True):
    """One line of a recording.

    Attributes:
        t: Seconds since the start of the recording.
        dir: `in` or `out`, as the recording side saw it.
        frame: The frame as JSON, if it was a message.
        text: The frame as text, if it was not JSON.
        gap: Number of frames that are missing here.
    """

    t: float = 0.0
    dir: str = ""
    frame: Raw | UnsetType = UNSET
    text: str | None = None
    gap: int = 0


class _Head(Struct):
    duologue: str


_decode = msgspec.json.Decoder(Entry).decode


def read_recording(path: str | Path) -> Iterator[Entry]:
    """Yield the entries of a recording in order; skip an incomplete line.

    Raises:
        ValueError: The file is not a recording.
    """
    with Path(path).open("rb") as lines:
        try:
            is_recording = msgspec.json.decode(lines.readline(), type=_Head).duologue == "recording"
        except msgspec.MsgspecError:
            is_recording = False
        if not is_recording:
            raise ValueError(f"{path} is not a recording")
        for line in lines:
            try:
                entry = _decode(line)
            except msgspec.MsgspecError:
                continue
            if entry != Entry():  # the header of another recording that was appended
                yield entry
