"""Limit what a connection reads at once."""

from __future__ import annotations

import asyncio
from abc import abstractmethod

READ_BYTES = 64 * 1024
"""As much as a pipe holds: with more the layers above would buffer messages that they otherwise deliver at once."""


class SmallReads(asyncio.BufferedProtocol):
    """Call `data_received` with at most `READ_BYTES` bytes; asyncio itself reads four times as much."""

    _read_buffer: memoryview | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._read_buffer is None:
            self._read_buffer = memoryview(bytearray(READ_BYTES))
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert self._read_buffer is not None
        self.data_received(bytes(self._read_buffer[:nbytes]))

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Process bytes that arrived."""
