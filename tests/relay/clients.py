"""A client of a relay, in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from duologue.transports.base import Servable
from duologue.transports.memory import MemoryTransport, memory_pair

Json: TypeAlias = dict[str, Any]
SECONDS = 60.0


class Client:
    """Writes its own JSON."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self._frames: list[bytes] = []

    def send(self, message: Json | bytes) -> None:
        self.transport.send(message if isinstance(message, bytes) else json.dumps(message).encode())

    def ask(self, id: int | str, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    async def next(self) -> Json | None:
        """Return the next message; `None` at the end."""
        async with asyncio.timeout(SECONDS):
            while not self._frames:
                self._frames = await self.transport.receive()
                if not self._frames:
                    return None
        message: Json = json.loads(self._frames.pop(0))
        return message

    async def answer(self, id: int | str, method: str, **params: Any) -> Json:
        """Send a request and return its response; messages before it are dropped."""
        self.ask(id, method, **params)
        while (message := await self.next()) is not None:
            if message.get("id") == id and "method" not in message:
                return message
        raise AssertionError("there was no answer")


@asynccontextmanager
async def clients(relay: Servable, count: int) -> AsyncGenerator[list[Client]]:
    """So many clients of one relay; they leave at the end, and the relay with them."""
    pairs = [memory_pair() for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        for _, far in pairs:
            group.create_task(relay.serve(far))
        try:
            yield [Client(near) for near, _ in pairs]
        finally:
            for near, _ in pairs:
                await near.aclose()
