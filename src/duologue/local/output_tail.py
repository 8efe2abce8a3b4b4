"""The newest output of a command: bounded bytes, as text that is cut between characters."""

from __future__ import annotations

import asyncio
import codecs
import logging
from collections.abc import Callable

MOST_CONTINUATION_BYTES = 3
"""Bytes that may follow the first byte of a UTF-8 character."""

log = logging.getLogger(__name__)


class OutputTail(asyncio.Protocol):
    """Receives the output of a command and keeps the end of it.

    Args:
        limit: Bytes to keep.
        on_output: Called with each piece of raw output. If it raises, that is logged and it is not called again.

    Attributes:
        received: Bytes received so far.
        gone: Set when the stream has ended.
    """

    def __init__(self, limit: int, on_output: Callable[[bytes], None] | None = None) -> None:
        self.received = 0
        self.gone = asyncio.Event()
        self._limit = limit
        self._on_output = on_output
        self._data = bytearray()
        self._is_cut = False

    def data_received(self, data: bytes) -> None:
        if not data:
            return
        self.received += len(data)
        self._data += data
        # Cut in large steps: the kept bytes are moved once per `limit` bytes.
        if len(self._data) > 2 * self._limit:
            del self._data[: len(self._data) - self._limit]
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
        """Return the newest output, never more than `limit` bytes of UTF-8, and whether older output was dropped.

        An incomplete character at the end is left out until the rest arrives, or until `is_final`.
        """
        tail = bytes(self._data[-self._limit :]) if self._limit else b""
        is_cut = self._is_cut or len(tail) < len(self._data)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        text = decode(_from_whole_character(tail) if is_cut else tail, is_final)
        # The replacement character for one invalid byte takes three bytes.
        encoded = text.encode("utf-8")
        if len(encoded) > self._limit:
            is_cut = True
            text = _from_whole_character(encoded[-self._limit :]).decode("utf-8")
        return text, is_cut


def _from_whole_character(data: bytes) -> bytes:
    """Remove the bytes at the start that belong to a truncated character."""
    start = 0
    while start < min(len(data), MOST_CONTINUATION_BYTES) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
