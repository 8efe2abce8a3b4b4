"""A WebSocket server that a test writes as one function, and a wire that a test can cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from websockets.asyncio.server import Server, ServerConnection, serve

from duologue.transports.base import Servable, Transport
from duologue.transports.memory import memory_pair
from duologue.transports.remote.url import RemoteEndpoint

Json: TypeAlias = dict[str, Any]
SocketHandler: TypeAlias = Callable[[ServerConnection], Awaitable[None]]

LONG = 64 * 1024 * 1024


@asynccontextmanager
async def serving(handle: SocketHandler, **options: Any) -> AsyncGenerator[RemoteEndpoint]:
    """Run a server that calls `handle` for each WebSocket; yield its URL."""
    options = {"compression": None, "max_size": LONG, "ping_interval": None, "close_timeout": 30, **options}
    async with serve(handle, "127.0.0.1", 0, **options) as server:
        yield RemoteEndpoint.of(f"ws://127.0.0.1:{port_of(server)}/acp")


def port_of(server: Server) -> int:
    """Return the port that the system chose."""
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port


def handler_for(agent: Servable) -> SocketHandler:
    """Serve an agent object over plain WebSocket, without resuming."""

    async def handle(socket: ServerConnection) -> None:
        near, far = memory_pair()
        async with asyncio.TaskGroup() as group:
            served = group.create_task(agent.serve(far))
            writing = group.create_task(_write(near, socket))
            async for message in socket:
                near.send(message.encode() if isinstance(message, str) else message)
            await near.aclose()
            await served
            writing.cancel()

    return handle


async def _write(near: Transport, socket: ServerConnection) -> None:
    while frames := await near.receive():
        for frame in frames:
            await socket.send(frame, text=True)


async def receive_message(socket: ServerConnection) -> Json:
    """Return the next message of the client."""
    message: Json = json.loads(await socket.recv())
    return message


async def send_message(socket: ServerConnection, **message: Any) -> None:
    """Send one message."""
    await socket.send(json.dumps({"jsonrpc": "2.0", **message}))


class CuttingProxy:
    """Carry bytes between a client and a server, and cut all connections on demand.

    Attributes:
        cuts: How often something was cut.
        is_down: New connections are refused by cutting them at once.
        server_port: Where the server is.
    """

    def __init__(self, server_port: int = 0) -> None:
        self.port = 0
        self.server_port = server_port
        self.cuts = 0
        self.is_down = False
        self.after_bytes: Callable[[], int] | None = None
        """Asked for each connection: how many bytes of the server may pass before it is cut."""
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[CuttingProxy]:
        """Carry from now on to the end of the block."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await server.wait_closed()

    def cut(self) -> None:
        """Reset the TCP connections on both sides."""
        for writer in self._writers:
            self.cuts += 1
            writer.transport.abort()
        self._writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.server_port)
        self._writers |= {writer, back}
        limit = None if self.after_bytes is None else self.after_bytes()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, back, None))
                group.create_task(self._copy(there, writer, limit))
        finally:
            self._writers -= {writer, back}
            for each in (writer, back):
                each.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
        try:
            while data := await reader.read(65536):
                if limit is not None:
                    data, limit = data[:limit], limit - len(data)
                writer.write(data)
                await writer.drain()
                if limit is not None and limit <= 0:
                    self.cuts += 1
                    writer.transport.abort()
                    return
            if not writer.is_closing():
                writer.write_eof()
        except OSError:
            writer.transport.abort()
