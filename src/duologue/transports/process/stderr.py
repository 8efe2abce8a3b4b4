"""Read the stderr of a child process; keep its end, and sanitize it for display."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from duologue.sanitize import escape_bytes

__all__ = ["TAIL_BYTES", "StderrTail"]

TAIL_BYTES = 64 * 1024
"""Enough for the longest traceback."""

log = logging.getLogger(__name__)


class StderrTail(asyncio.Protocol):
    """Read a child's stderr and keep the end of it.

    Args:
        on_data: Called with each piece of raw data. If it fails, that is logged once and it is not called again.
        limit: Bytes to keep.
    """

    def __init__(self, on_data: Callable[[bytes], None] | None = None, limit: int = TAIL_BYTES) -> None:
        self._on_data = on_data
        self._limit = limit
        self._tail = bytearray()
        self.gone = asyncio.Event()

    def __str__(self) -> str:
        return escape_bytes(bytes(self._tail[-self._limit :]))

    def data_received(self, data: bytes) -> None:
        self._tail += data
        # Cut in large steps: one copy of the tail per `limit` bytes.
        if len(self._tail) > 2 * self._limit:
            del self._tail[: -self._limit]
        if self._on_data is not None:
            try:
                self._on_data(data)
            except Exception:
                self._on_data = None
                log.exception("the stderr callback failed; it is not called again")

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
