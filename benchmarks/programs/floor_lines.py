"""Lines over pipes, as little as asyncio allows: what both floor programs share. No limits, no back-pressure."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import IO

import msgspec

READ_SIZE = 64 * 1024
"""As in duologue; with asyncio's own 256 KiB every read maps memory."""

encode = msgspec.json.Encoder().encode


class Lines(asyncio.Protocol):
    """Passes on every line that arrives, and writes what is sent in one iteration of the event loop together."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._unsent: list[bytes] = []
        self._output: asyncio.WriteTransport

    async def open(self, source: IO[bytes], target: IO[bytes]) -> None:
        self._output, _ = await self._loop.connect_write_pipe(asyncio.Protocol, target)
        reader, _ = await self._loop.connect_read_pipe(lambda: self, source)
        reader.max_size = READ_SIZE  # type: ignore[attr-defined]  # asyncio's pipes have it, their interface does not list it

    @abstractmethod
    def received(self, line: bytes) -> None:
        """Handle one line."""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.received(line)

    def eof_received(self) -> None:
        self.over.set()

    def send(self, message: msgspec.Struct) -> None:
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(encode(message))

    def _flush(self) -> None:
        self._output.write(b"\n".join([*self._unsent, b""]))
        self._unsent.clear()

    def close(self) -> None:
        self._output.close()
