"""Describe a recording by the directory of its first session, its first prompt and its agent."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from duologue.recording.reader import RecordingReader

MAX_BYTES = 8 << 20
"""Bytes that are searched for the first prompt: more only if a single message is longer."""


class RecordingDigest(Struct, frozen=True, kw_only=True):
    """Description of a recording.

    Attributes:
        agent: Command or URL of the agent; empty if it is not known.
        started: When it began: UTC, ISO 8601.
        cwd: Directory of the first session; empty if there is none.
        title: First line of the first prompt; empty if there is none.
    """

    agent: tuple[str, ...] = ()
    started: str = ""
    cwd: str = ""
    title: str = ""


class _Block(Struct):
    text: str = ""


class _Params(Struct):
    cwd: str = ""
    prompt: list[_Block] = []


class _Message(Struct):
    method: str = ""
    params: _Params = msgspec.field(default_factory=_Params)


_decode = msgspec.json.Decoder(_Message).decode


def digest_of(path: Path) -> RecordingDigest:
    """Return what a recording is about; read only its beginning.

    Raises:
        ValueError: The file is not a recording.
        OSError: The file cannot be read.
    """
    cwd = title = ""
    with RecordingReader(path) as reader:
        for entry in reader:
            if entry.dir == "to_agent" and isinstance(entry.frame, Raw):
                message = _message(entry.frame)
                cwd = cwd or message.params.cwd
                title = _first_line(message.params.prompt)
            if title or reader.position > MAX_BYTES:
                break
        header = reader.header
    return RecordingDigest(agent=tuple(header.agent), started=header.started, cwd=cwd, title=title)


def _message(frame: Raw) -> _Message:
    try:
        return _decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Message()


def _first_line(blocks: list[_Block]) -> str:
    texts = (block.text.strip() for block in blocks)
    return next((text.partition("\n")[0] for text in texts if text), "")
