"""Text messages as a server writes them: each one frame, not masked, not compressed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import filterfalse

TEXT = 0x81
"""The first byte of a text message in one frame."""

SHORT = 126
"""Longer messages have their length after the second byte."""

_MEDIUM = struct.Struct("!BBH")
_LONG = struct.Struct("!BBQ")


def _head(size: int) -> bytes:
    """Return the head of a text message in one frame."""
    if size < SHORT:
        return bytes((TEXT, size))
    return _MEDIUM.pack(TEXT, SHORT, size) if size < 1 << 16 else _LONG.pack(TEXT, SHORT + 1, size)


_HEADS = [_head(size) for size in range(2048)]
"""The heads of most messages: an agent that streams sends many small ones."""


class WebSocketFrames:
    """Write each message as one text frame."""

    @staticmethod
    def encode(messages: list[bytes], first: int = 1) -> bytes:
        """Return the frames of these messages."""
        texts = _as_texts(messages)
        pieces = texts * 2
        pieces[1::2] = texts
        try:
            pieces[::2] = [_HEADS[len(text)] for text in texts]
        except IndexError:
            pieces[::2] = [_head(len(text)) for text in texts]
        return b"".join(pieces)

    @staticmethod
    def offsets(data: bytes) -> list[int]:
        """Return where each frame begins."""
        return [begin for begin, _, _ in _frames(data)]


def texts_of(data: bytes) -> list[str]:
    """Return the messages in these frames."""
    return [data[body:end].decode() for _, body, end in _frames(data)]


def _frames(data: bytes) -> list[tuple[int, int, int]]:
    """Return where each frame, its message and the next frame begin."""
    found: list[tuple[int, int, int]] = []
    begin = 0
    while begin < len(data):
        size, body = data[begin + 1], begin + 2
        if size >= SHORT:
            layout = _MEDIUM if size == SHORT else _LONG
            size, body = layout.unpack_from(data, begin)[2], begin + layout.size
        found.append((begin, body, body + size))
        begin = body + size
    return found


def _as_texts(frames: list[bytes]) -> list[bytes]:
    """Replace what is no UTF-8: an agent may have written anything, and a text frame must be text."""
    others: Iterator[bytes] = filterfalse(bytes.isascii, frames)
    try:
        b"\n".join(others).decode()  # a line end is no part of a longer character: each is UTF-8 if all together are
    except UnicodeDecodeError:
        return [frame.decode("utf-8", "replace").encode() for frame in frames]
    return frames
