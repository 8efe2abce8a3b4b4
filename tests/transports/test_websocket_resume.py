"""A WebSocket that breaks: each frame arrives once and in order, or there is an error."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from duologue.errors import ConnectionLost, OutputLimitExceeded, ResumeFailed
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.remote.websocket import WebSocketTransport
from duologue.transports.resume.protocol import (
    ACKNOWLEDGE_FRAMES,
    ACKNOWLEDGE_SECONDS,
    WINDOW_BYTES,
    RetryPolicy,
    control,
)
from tests.transports.waiting import until
from tests.transports.wsserver import Json, SocketHandler, receive_message, send_message, serving

QUICK = RetryPolicy(first=0.01, longest=0.05, limit=5.0)
INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
GRANT = {"version": 1, "connectionId": "c-1", "windowBytes": 1000, "graceSeconds": 60}


async def answer_initialize(socket: ServerConnection, **grant: Any) -> None:
    """Answer `initialize` with a grant for resuming."""
    request = await receive_message(socket)
    assert request["params"].pop("_meta") == {"duologue/resume": {"version": 1}}
    result = {"protocolVersion": 1, "_meta": {"duologue/resume": {**GRANT, **grant}}}
    await send_message(socket, id=request["id"], result=result)


@contextlib.asynccontextmanager
async def initialized(
    address: RemoteEndpoint, retry: RetryPolicy = QUICK, **options: Any
) -> AsyncGenerator[WebSocketTransport]:
    """Open an initialized transport."""
    async with asyncio.timeout(60), WebSocketTransport(address, retry=retry, **options) as transport:
        transport.send(INITIALIZE)
        [answer] = await transport.receive()
        assert answer == b'{"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}}'
        yield transport


def taking_turns(*handlers: SocketHandler) -> SocketHandler:
    """Run one function per WebSocket; the last one is used for all others."""
    turns = iter(itertools.chain(handlers, itertools.repeat(handlers[-1])))

    async def handle(socket: ServerConnection) -> None:
        await next(turns)(socket)

    return handle


async def numbers(transport: WebSocketTransport, wanted: int) -> list[int]:
    got: list[int] = []
    while len(got) < wanted:
        got += [json.loads(frame)["n"] for frame in await transport.receive()]
    return got


def expect_resume(message: Json, received: int) -> None:
    assert message["method"] == "_duologue/resume"
    assert message["params"] == {"connectionId": "c-1", "received": received}


async def test_both_ends_go_on_exactly_where_they_were() -> None:
    received: list[int] = []

    async def first(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        received.append((await receive_message(socket))["n"])
        await send_message(socket, n=1)
        await send_message(socket, n=2)
        await (await socket.ping())  # the client has both
        socket.transport.abort()

    async def second(socket: ServerConnection) -> None:
        expect_resume(await receive_message(socket), received=2)
        await socket.send(control("resumed", received=1).decode())
        await send_message(socket, n=3)
        received.extend([(await receive_message(socket))["n"] for _ in range(2)])
        await send_message(socket, n=4)

    async with serving(taking_turns(first, second)) as address, initialized(address) as transport:
        for number in (1, 2, 3):
            transport.send(b'{"n":%d}' % number)
        assert await numbers(transport, 4) == [1, 2, 3, 4]
        assert transport.reconnects == 1
    assert received == [1, 2, 3]


async def test_frames_sent_while_the_connection_is_broken_wait_for_it() -> None:
    is_back = asyncio.Event()
    received: list[int] = []

    async def first(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        socket.transport.abort()

    async def second(socket: ServerConnection) -> None:
        await is_back.wait()
        expect_resume(await receive_message(socket), received=0)
        await socket.send(control("resumed", received=0).decode())
        received.extend([(await receive_message(socket))["n"] for _ in range(100)])

    async with serving(taking_turns(first, second)) as address, initialized(address) as transport:
        for number in range(100):
            transport.send(b'{"n":%d}' % number)
            await asyncio.sleep(0)
        is_back.set()
        await until(lambda: len(received) == 100)
    assert received == list(range(100))


async def test_received_frames_are_acknowledged_from_time_to_time_and_acknowledged_ones_are_dropped() -> None:
    counts = [0]
    total = 3 * ACKNOWLEDGE_FRAMES
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def handle(socket: ServerConnection) -> None:
        await answer_initialize(socket, windowBytes=WINDOW_BYTES)
        await receive_message(socket)
        for number in range(total):
            await send_message(socket, n=number)
        while total - counts[-1] >= ACKNOWLEDGE_FRAMES:
            counts.append((await receive_message(socket))["params"]["count"])
        await socket.send(control("received", count=1).decode())
        await socket.send(control("received", count=99).decode())  # more than there were: nonsense
        await send_message(socket, n=total)

    async with serving(handle) as address, initialized(address) as transport:
        transport.send(b'{"n":1}')
        assert await numbers(transport, total + 1) == list(range(total + 1))
        assert transport._window.size == 0
    assert all(after > before for before, after in itertools.pairwise(counts))
    # One for so many frames, and one for each time that the timer ran out in between.
    assert len(counts) - 1 <= total // ACKNOWLEDGE_FRAMES + (loop.time() - began) / ACKNOWLEDGE_SECONDS


async def test_a_server_that_acknowledges_nothing_congests_the_sender() -> None:
    async def handle(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        async for message in socket:
            if "drain" in str(message)[:20]:
                await socket.send(control("received", count=6).decode())

    async with serving(handle) as address, initialized(address, max_queued_bytes=2_000_000) as transport:
        for _ in range(5):
            assert not transport.is_congested
            transport.send(b'"' + b"x" * 1_000_000 + b'"')
        assert transport.is_congested
        transport.send(b'"drain"')
        await transport.drain()
        with pytest.raises(OutputLimitExceeded):
            for _ in range(20):
                transport.send(b'"' + b"x" * 1_000_000 + b'"')


@pytest.mark.parametrize("code", [1001, 1012, 1013])
async def test_a_server_that_restarts_is_taken_at_its_word(code: int) -> None:
    async def first(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        await socket.close(code, "back in a moment")

    async def second(socket: ServerConnection) -> None:
        expect_resume(await receive_message(socket), received=0)
        await socket.send(control("resumed", received=0).decode())
        await send_message(socket, n=1)

    async with serving(taking_turns(first, second)) as address, initialized(address) as transport:
        assert await numbers(transport, 1) == [1]


@pytest.mark.parametrize("code", [1002, 1003, 1008, 1011, 4000, 4409])
async def test_a_server_that_closes_with_a_complaint_is_not_bothered_again(code: int) -> None:
    connections = 0

    async def handle(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        await answer_initialize(socket)
        await socket.close(code)

    async with serving(handle) as address, initialized(address) as transport:
        with pytest.raises(ConnectionLost):
            await transport.receive()
    assert connections == 1


@pytest.mark.fault("REC-03")
@pytest.mark.parametrize(
    "answer",
    [
        control("lost", reason="older than what is kept"),
        control("resumed", received=17),
        control("resumed", received=-1),
        b'{"jsonrpc":"2.0","method":"_duologue/resumed","params":{"received":"all"}}',
        b'{"jsonrpc":"2.0","id":0,"result":{}}',
    ],
)
async def test_lost_history_is_an_error_and_never_a_silent_gap(answer: bytes) -> None:
    async def first(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        socket.transport.abort()

    async def second(socket: ServerConnection) -> None:
        await receive_message(socket)
        await socket.send(answer.decode())
        await socket.close(4410)

    async with serving(taking_turns(first, second)) as address, initialized(address) as transport:
        with pytest.raises(ResumeFailed, match="load the session"):
            await transport.receive()
        with pytest.raises(ResumeFailed):
            transport.send(b"{}")


async def test_a_server_that_only_closes_as_unknown_is_understood_too() -> None:
    async def first(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        socket.transport.abort()

    async def second(socket: ServerConnection) -> None:
        await socket.close(4410, "who are you?")

    async with serving(taking_turns(first, second)) as address, initialized(address) as transport:
        with pytest.raises(ResumeFailed, match="who are you"):
            await transport.receive()


async def test_a_new_connection_that_breaks_at_once_is_tried_again() -> None:
    async def first(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        socket.transport.abort()

    async def flaky(socket: ServerConnection) -> None:
        socket.transport.abort()

    async def good(socket: ServerConnection) -> None:
        await receive_message(socket)
        await socket.send(control("resumed", received=0).decode())
        await send_message(socket, n=1)

    handle = taking_turns(first, flaky, flaky, flaky, good)
    async with serving(handle) as address, initialized(address) as transport:
        assert await numbers(transport, 1) == [1]


@pytest.mark.fault("REC-12")
async def test_a_server_that_stays_away_is_reported_when_retries_end() -> None:
    async def handle(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        await receive_message(socket)

    server = contextlib.AsyncExitStack()
    address = await server.enter_async_context(serving(handle))
    async with initialized(address, RetryPolicy(first=0.01, longest=0.05, limit=0.5)) as transport:
        transport.send(b"{}")
        await server.aclose()
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionLost, match="could not be resumed"):
                await transport.receive()
        with pytest.raises(ConnectionLost):
            transport.send(b"{}")


@pytest.mark.fault("REC-12")
async def test_the_client_does_not_retry_longer_than_the_server_keeps_the_connection() -> None:
    connections = 0

    async def handle(socket: ServerConnection) -> None:
        await answer_initialize(socket, graceSeconds=0.2)
        socket.transport.abort()

    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        nonlocal connections
        connections += 1
        return Response(503, "Busy", Headers({"Content-Length": "0"})) if connections > 1 else None

    async with serving(handle, process_request=refuse) as address, initialized(address) as transport:
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionLost, match="503"):
                await transport.receive()
    assert connections > 2


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_return_is_not_tried_again(status: int) -> None:
    connections = 0

    async def handle(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        socket.transport.abort()

    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        nonlocal connections
        connections += 1
        return Response(status, "No", Headers({"Content-Length": "0"})) if connections > 1 else None

    async with serving(handle, process_request=refuse) as address, initialized(address) as transport:
        with pytest.raises(ConnectionLost, match=f"HTTP {status}"):
            await transport.receive()
    assert connections == 2


async def test_a_break_before_the_terms_are_known_is_the_end() -> None:
    async def handle(socket: ServerConnection) -> None:
        await receive_message(socket)
        socket.transport.abort()

    async with serving(handle) as address, WebSocketTransport(address, retry=QUICK) as transport:
        transport.send(INITIALIZE)
        with pytest.raises(ConnectionLost, match="broke"):
            await transport.receive()


async def test_cookies_are_returned_with_every_new_connection_and_forgotten_at_the_end() -> None:
    seen: list[str | None] = []

    def route(connection: ServerConnection, request: Request, response: Response) -> None:
        seen.append(request.headers.get("Cookie"))
        response.headers["Set-Cookie"] = "node=7; Path=/"
        response.headers["Set-Cookie"] = "big=" + "x" * 5000

    async def first(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        socket.transport.abort()

    async def second(socket: ServerConnection) -> None:
        await receive_message(socket)
        await socket.send(control("resumed", received=0).decode())
        await send_message(socket, n=1)

    async with serving(taking_turns(first, second), process_response=route) as address:
        async with initialized(address) as transport:
            assert await numbers(transport, 1) == [1]
    assert seen == [None, "node=7"]
    assert len(transport._connector.cookies) == 0


async def test_leaving_while_the_connection_is_broken_takes_no_time() -> None:
    async def handle(socket: ServerConnection) -> None:
        await answer_initialize(socket)
        socket.transport.abort()

    retry = RetryPolicy(first=100.0, longest=100.0)
    async with serving(handle) as address, initialized(address, retry) as transport:
        await until(lambda: transport._socket is None)
        async with asyncio.timeout(60):
            await transport.aclose()
        assert await transport.receive() == []
