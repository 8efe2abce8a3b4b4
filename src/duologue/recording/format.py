"""The file format of recordings, version 2: JSON lines, a header and then one line for each frame.

    {"duologue":"recording","version":2,"started":"2026-…"}
    {"t":0.013000,"dir":"to_agent","frame":{"jsonrpc":"2.0",…}}

Version 1, which only clients wrote, has `out` for `to_agent` and `in` for `to_client`; both are read.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

VERSION = 2
"""The version that is written; older ones are read as well."""

MAGIC = b'{"duologue":"recording"'
"""Every recording begins with this."""

FrameDirection: TypeAlias = Literal["to_agent", "to_client"]
"""The receiver of a frame; it does not depend on the side that records."""


class Header(Struct, omit_defaults=True):
    """The first line of a recording, and of each part that was appended later.

    Attributes:
        duologue: Always `recording`.
        version: Version of the format.
        started: When the recording began: UTC, ISO 8601.
        agent: Command or URL of the agent, secrets removed.
    """

    duologue: Literal["recording"]
    version: int = 1
    started: str = ""
    agent: list[str] = []


class Entry(Struct, frozen=True, omit_defaults=True):
    """One line of a recording.

    Attributes:
        t: Seconds since the start of the recording.
        dir: Who receives the frame: `to_agent` or `to_client`; empty for what is not a frame.
        frame: The frame as JSON, without its secrets.
        text: The frame as text, if it was not JSON.
        invalid: Why the frame is not a message of JSON-RPC; empty if it is one.
        redacted: True if secrets were removed from the frame.
        stderr: What the agent wrote to stderr.
        exit_code: Exit code of the agent's process, negative for a signal.
        gap: Number of frames that are missing here.
    """

    t: float = 0.0
    dir: FrameDirection | Literal[""] = ""
    frame: Raw | UnsetType = UNSET
    text: str | None = None
    invalid: str = ""
    redacted: bool = False
    stderr: str | None = None
    exit_code: int | None = None
    gap: int = 0


class _EarlierEntry(Struct):
    t: float = 0.0
    dir: Literal["in", "out", ""] = ""
    frame: Raw | UnsetType = UNSET
    text: str | None = None
    gap: int = 0


DIRECTION_OF: dict[str, FrameDirection | Literal[""]] = {"out": "to_agent", "in": "to_client", "": ""}
"""Directions of version 1, and of observers on the client's side."""

encode_line = msgspec.json.Encoder().encode

_decode_header = msgspec.json.Decoder(Header).decode
_decode_entry = msgspec.json.Decoder(Entry).decode
_decode_earlier = msgspec.json.Decoder(_EarlierEntry).decode


def read_header(line: bytes) -> Header | None:
    """Return the header on a line; None if the line is none."""
    if not line.startswith(b'{"duologue"'):
        return None
    try:
        return _decode_header(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def read_entry(line: bytes, version: int) -> Entry | None:
    """Return the entry on a line of a recording of that version; None if the line is damaged."""
    try:
        if version > 1:
            return _decode_entry(line)
        earlier = _decode_earlier(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return Entry(t=earlier.t, dir=DIRECTION_OF[earlier.dir], frame=earlier.frame, text=earlier.text, gap=earlier.gap)
