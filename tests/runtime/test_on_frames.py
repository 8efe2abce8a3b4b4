"""Frames that a transport passes on as soon as they arrive are handled like any others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from duologue.errors import NotAnAgent
from duologue.runtime.connection import Connection
from duologue.runtime.dispatcher import MAX_STRAY_LINES
from duologue.runtime.handlers import Context, Handlers
from duologue.transports.buffered import READ_AHEAD
from duologue.transports.stdio.socket import SocketTransport
from tests.runtime.messages import PING, UPDATE, Ping, Seen, Update, frame

BOUND = 20_000
COUNT = 10_000


@asynccontextmanager
async def listening(handlers: Handlers, *observers: Seen) -> AsyncGenerator[tuple[Connection, SocketTransport]]:
    """Open a connection with a small limit; yield it with the raw other end of its socket."""
    ours, theirs = socket.socketpair()
    connection = Connection(
        SocketTransport(ours),
        handlers,
        ignore_stray_output=True,
        observers=observers,
        max_incoming_bytes=BOUND,
        max_pending=10,
    )
    async with asyncio.timeout(60), SocketTransport(theirs) as raw, connection:
        yield connection, raw


async def test_order_and_limits_hold_for_frames_handled_on_arrival() -> None:
    handlers = Handlers()
    seen: list[int] = []
    most = 0
    done = asyncio.Event()

    async with listening(handlers) as (connection, raw):

        @handlers.on(UPDATE)
        async def update(context: Context, params: Update) -> None:
            nonlocal most
            await asyncio.sleep(0)
            most = max(most, connection._queues.queued_bytes)
            seen.append(int(params.text))
            if len(seen) == COUNT:
                done.set()

        for number in range(COUNT):
            raw.send(frame(method="update", params={"sessionId": "s", "text": f"{number:0300}"}))
        await done.wait()

    assert seen == list(range(COUNT))
    assert most < BOUND + READ_AHEAD + 300_000  # the bound, what the transport keeps, and one read


async def test_a_response_is_handled_on_arrival() -> None:
    results: list[bool] = []

    async with listening(Handlers()) as (connection, raw):
        handle = connection._transport.on_frames
        assert handle is not None

        def record_and_handle(frames: list[bytes]) -> bool:
            results.append(handle(frames))
            return results[-1]

        connection._transport.on_frames = record_and_handle
        asking = asyncio.ensure_future(connection.request(PING, Ping(text="?")))
        assert len(await raw.receive()) == 1
        raw.send(frame(id=1, result={"text": "!"}))
        assert await asking == Ping(text="!")

    assert results == [True]


async def test_endless_stray_output_ends_the_connection_even_if_handled_on_arrival() -> None:
    seen = Seen()

    async with listening(Handlers(), seen) as (connection, raw):
        for _ in range(MAX_STRAY_LINES + 10):
            raw.send(b"Welcome!")
        await connection.wait_closed()
        with pytest.raises(NotAnAgent, match="is this command an ACP agent"):
            await connection.request(PING, Ping())

    assert len(seen) == MAX_STRAY_LINES + 1  # what follows is not looked at, and nothing is seen twice
