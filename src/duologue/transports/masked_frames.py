"""Text messages as a WebSocket client writes them: each one frame, masked, not compressed."""

from __future__ import annotations

import struct
from secrets import token_bytes

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]  # in C where it was built

TEXT = 0x81
"""The first byte of a text message in one frame."""

MASKED = 0x80
"""Added to the second byte of a masked frame, which is its length if that is less than `SHORT`."""

SHORT = 126
MASK_BYTES = 4

_MEDIUM = struct.Struct("!BBH")
_LONG = struct.Struct("!BBQ")


def write_masked_text(text: bytes) -> bytes:
    """Return a text message as one masked frame."""
    size, mask = len(text), token_bytes(MASK_BYTES)
    if size < SHORT:
        head = bytes((TEXT, MASKED | size))
    elif size < 1 << 16:
        head = _MEDIUM.pack(TEXT, MASKED | SHORT, size)
    else:
        head = _LONG.pack(TEXT, MASKED | SHORT + 1, size)
    return b"".join((head, mask, apply_mask(text, mask)))


def read_masked_text(data: bytes, begin: int) -> tuple[bytes, int] | None:
    """Return the text message in one masked frame that begins at `begin`, and where the frame ends.

    `None` stands for everything else: another frame, an incomplete one, 64 KiB and more, and what is no UTF-8.
    """
    mask = begin + 2
    if len(data) < mask or data[begin] != TEXT or not MASKED <= data[begin + 1] <= MASKED + SHORT:
        return None
    size = data[begin + 1] - MASKED
    if size == SHORT:
        mask += 2
        size = int.from_bytes(data[begin + 2 : mask], "big")
    body = mask + MASK_BYTES
    end = body + size
    if end > len(data):
        return None
    text = apply_mask(data[body:end], data[mask:body])
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return None
    return text, end
