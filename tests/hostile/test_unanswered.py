"""Clients with endless requests. The promise of `docs/topics/limits.md`: what a server stores for each is bounded."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from duologue.transports.base import Transport
from duologue.transports.server.http_streams import HttpServerConnection
from duologue.transports.server.limits import Limits
from tests.cli.test_serve import served
from tests.memory import peak_bytes
from tests.transports.server.servers import Echo, Json, RunningServer, Socket, http_client_to, running_server, socket_to

SILENT = """
import sys
from contextlib import suppress
for line in sys.stdin.buffer:
    if b"initialize" in line:
        sys.stdout.write('{"jsonrpc":"2.0","id":0,"result":{}}\\n')
        sys.stdout.flush()
"""
BURST = 1000


class Silent(Echo):
    """Answers `initialize` and `session/new`, and nothing else."""

    def answer(self, transport: Transport, message: Json) -> None:
        if message.get("method") == "session/new":
            message["params"] = {"sessionId": "s"}
        if message.get("method") in ("initialize", "session/new"):
            super().answer(transport, message)


def request(id: int | str, method: str = "never", **params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


async def flood(socket: Socket, count: int) -> int:
    """Send so many requests, and return how many were answered with "busy"."""
    busy = 0
    for start in range(1, count, BURST):
        for id in range(start, start + BURST):
            await socket.send(request(id, text="x" * 100))
        while busy < start + BURST - 1 - 1024:
            answer = await socket.next()
            assert answer["error"]["code"] == -32603
            assert "busy" in answer["error"]["message"]
            busy += 1
    return busy


@pytest.mark.fault("GWY-20", "RPC-19")
async def test_further_requests_are_rejected_as_busy_while_none_is_answered(
    tmp_path: Path, chaos_factor: int, record_property: object
) -> None:
    count = 20_000 * min(chaos_factor, 12)
    async with served(tmp_path, "--", sys.executable, "-c", SILENT) as server:
        url, _, token = server.url.partition("#token=")
        address = RunningServer(None, int(url.rpartition(":")[2].partition("/")[0]))  # type: ignore[arg-type]  # another process
        async with socket_to(address, token) as socket:
            await socket.initialize()
            before = peak_bytes(server.process.pid)
            busy = await flood(socket, count)
            grown = peak_bytes(server.process.pid) - before
            await socket.send(request("again"))
            assert "busy" in (await socket.next())["error"]["message"]
        async with socket_to(address, token) as other:
            await other.initialize()
    assert busy == count - 1024
    assert grown < 32 * 1024 * 1024


@pytest.mark.fault("GWY-20")
async def test_each_response_frees_a_slot() -> None:
    echo = Silent()
    async with running_server(echo, Limits(requests=3)) as server, socket_to(server) as socket:
        await socket.initialize()
        for id in (1, 2, 3, 4):
            await socket.send(request(id))
        assert (await socket.next())["id"] == 4
        echo.transports[0].send(b'{"jsonrpc":"2.0","id":2,"result":{}}')
        assert (await socket.next())["id"] == 2
        await socket.send(request(5))
        await socket.send(request(6))
        assert (await socket.next())["id"] == 6
        assert [json.loads(frame)["id"] for frame in echo.frames] == [0, 1, 2, 3, 5]


@pytest.mark.fault("GWY-20")
async def test_over_http_the_error_arrives_on_the_stream_of_the_session() -> None:
    async with running_server(Silent(), Limits(requests=1)) as server, http_client_to(server) as client:
        await client.initialize()
        async with client.listen() as events:
            await client.post(request(1, "session/new"))
            assert (await events.next())["id"] == 1
        async with client.listen("s") as events:
            for id in (2, 3):
                assert (await client.post(request(id, sessionId="s"), "s")).status_code == 202
            answer = await events.next()
    assert (answer["id"], answer["error"]["message"]) == (3, "busy: 1 requests are already running")


@pytest.mark.fault("GWY-20", "RPC-08")
@pytest.mark.parametrize(
    "message",
    [
        request("x" * 1025),
        request(1, "x" * 1025),
        request(1, sessionId="x" * 1025),
        '{"jsonrpc":"2.0","method":"x","id":%s}' % ("1" * 1025),
    ],
)
async def test_only_short_ids_methods_and_sessions_of_requests_are_stored(message: str) -> None:
    async with running_server(echo := Silent()) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.send(message)
        answer = await socket.next()
        assert answer["error"]["code"] == -32600
        assert len(json.dumps(answer)) < 500
        assert len(echo.frames) == 1


@pytest.mark.fault("GWY-20")
async def test_a_client_that_reads_no_errors_is_disconnected() -> None:
    async with running_server(Silent(), Limits(requests=1, queued_bytes=100_000, write_ahead=1000)) as server:
        async with socket_to(server) as socket:
            await socket.initialize()
            [held] = server.app.connections.all()
            socket.connection.transport.pause_reading()
            with suppress(ConnectionClosed):
                for id in range(1, 100_000):
                    await socket.send(request(f"{id:01000}"))
                    if held.is_gone:
                        break
            assert held.is_gone
            assert held.pending_bytes <= 200_000
            socket.cut()


@pytest.mark.fault("GWY-20")
async def test_sessions_and_message_numbers_made_up_by_a_client_are_bounded() -> None:
    limits = Limits(sessions=10, window_frames=10, requests=1000)
    async with running_server(Silent(), limits) as server, http_client_to(server) as client:
        await client.initialize()
        statuses = [
            (await client.post(request(id, "session/load", sessionId=f"s{id}"))).status_code for id in range(1, 13)
        ]
        assert statuses == [202] * 10 + [429] * 2
        numbered = [
            (await client.post(request(100 + number, "x"), Duologue_Message=str(number))).status_code
            for number in (2, 9, 10, 11, 1000, 1, 11)
        ]
        assert numbered == [202, 202, 202, 400, 400, 202, 202]
        [held] = server.app.connections.all()
        assert isinstance(held, HttpServerConnection)
        assert len(held.sessions) == 10
