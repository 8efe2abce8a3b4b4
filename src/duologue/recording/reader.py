"""Reads recordings back, also those that were cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

__all__ = ["Entry", "read_recording"]


class Entry(Struct, frozen=True):
    """One line: a frame as bytes (`frame`), or text that was none, or a gap."""

    t: float = 0.0
    dir: str = ""
    frame: Raw | UnsetType = UNSET
    text: str | None = None
    gap: int = 0


class _Head(Struct):
    duologue: str


_decode = msgspec.json.Decoder(Entry).decode


def read_recording(path: str | Path) -> Iterator[Entry]:
    """The entries of a recording in order; a line that was cut off is left out.

    Raises:
        ValueError: This is no recording.
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
            if entry != Entry():  # another start: the file was appended to
                yield entry
