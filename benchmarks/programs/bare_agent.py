"""The least an agent on asyncio can do: send back what it gets. Nothing is parsed."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.script import run


class Echo(asyncio.Protocol):
    def __init__(self, output: asyncio.WriteTransport, over: asyncio.Event) -> None:
        self.output = output
        self.over = over

    def data_received(self, data: bytes) -> None:
        self.output.write(data)

    def eof_received(self) -> None:
        self.over.set()


async def main() -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    output, _ = await loop.connect_write_pipe(asyncio.Protocol, sys.stdout)
    await loop.connect_read_pipe(lambda: Echo(output, over), sys.stdin)
    await over.wait()


run(main())
