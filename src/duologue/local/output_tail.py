"""The output of a command: its newest bytes, bounded, as text that is cut between characters."""

from __future__ import annotations

import asyncio
import codecs
import logging
from collections.abc import Callable

__all__ = ["OutputTail"]

MOST_CONTINUATION_BYTES = 3
"""A character of UTF-8 is one byte and at most this many more."""

log = logging.getLogger(__name__)


class OutputTail(asyncio.Protocol):
    """Takes all a command writes and keeps the end of it.

    Args:
        limit: Bytes to keep.
        on_output: Called with each piece as it comes, raw. If it fails it is reported once and not called again.

    Attributes:
        received: Bytes taken so far.
        gone: Set when no more can come.
    """

    def __init__(self, limit: int, on_output: Callable[[bytes], None] | None = None) -> None:
        self.received = 0
        self.gone = asyncio.Event()
        self._limit = limit
        self._on_output = on_output
        self._kept = bytearray()
        self._is_cut = False

    def data_received(self, data: bytes) -> None:
        if not data:
            return
        self.received += len(data)
        self._kept += data
        # Cut in large steps: one move of what is kept per `limit` bytes.
        if len(self._kept) > 2 * self._limit:
            del self._kept[: len(self._kept) - self._limit]
            self._is_cut = True
        if self._on_output is not None:
            try:
                self._on_output(data)
            except Exception:
                self._on_output = None
                log.exception("the output callback failed; it is not called again")

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()

    def text(self, *, is_final: bool) -> tuple[str, bool]:
        """What is kept, and whether anything before it was dropped; never more bytes of UTF-8 than the limit.

        A character whose last bytes may still come is left out until they do, or until `is_final`.
        """
        tail = bytes(self._kept[-self._limit :]) if self._limit else b""
        is_cut = self._is_cut or len(tail) < len(self._kept)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        text = decode(_from_whole_character(tail) if is_cut else tail, is_final)
        # The mark for one invalid byte takes three.
        encoded = text.encode("utf-8")
        if len(encoded) > self._limit:
            is_cut = True
            text = _from_whole_character(encoded[-self._limit :]).decode("utf-8")
        return text, is_cut


def _from_whole_character(data: bytes) -> bytes:
    """Without the bytes at the start that end a character whose first byte was cut off."""
    start = 0
    while start < min(len(data), MOST_CONTINUATION_BYTES) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
