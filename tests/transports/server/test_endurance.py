"""Clients that are slow, silent, hostile or many, and a server that is stopped."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket as sockets
import struct
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from duologue.builtin.agent import builtin_agent
from duologue.transports.base import Transport
from duologue.transports.server import uvicorn_protocols as guarded
from duologue.transports.server.limits import Limits
from tests.transports.server.servers import (
    RESUME_REQUEST,
    SECONDS,
    TOKEN,
    Echo,
    Json,
    RunningServer,
    Socket,
    http_client_to,
    raw,
    running_server,
    socket_to,
)

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
UPGRADE = (
    "GET /acp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    f"Authorization: Bearer {TOKEN}\r\n%s\r\n"
)


class Waiting(Echo):
    """Answer `wait` when the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.waits = asyncio.Event()

    async def serve(self, transport: Transport) -> None:
        waits: list[asyncio.Task[None]] = []
        async with transport, asyncio.TaskGroup() as group:
            while frames := await transport.receive():
                for frame in frames:
                    message: Json = json.loads(frame)
                    if message.get("method") == "wait":
                        self.waits.set()
                        waits.append(group.create_task(self._answer_later(transport, message)))
                    else:
                        self.answer(transport, message)
            for task in waits:
                task.cancel()
        self.ended.set()

    async def _answer_later(self, transport: Transport, message: Json) -> None:
        await self.may_answer.wait()
        self.answer(transport, message)


# --- slow and hostile clients


@pytest.mark.fault("HTT-11")
@pytest.mark.parametrize("begin", [b"", b"GET /health HTTP/1.1\r\nHost: local", b"POST"])
async def test_slow_headers_time_out_without_delaying_other_clients(
    begin: bytes, monkeypatch: pytest.MonkeyPatch, chaos_factor: int, record_property: Any
) -> None:
    monkeypatch.setattr(guarded, "HEADER_SECONDS", 0.2)
    count = min(20 * chaos_factor, 2000)
    async with running_server(Echo()) as server, http_client_to(server) as good:
        slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(count)]
        for _, writer in slow:
            writer.write(begin)
        async with asyncio.timeout(SECONDS):
            await good.initialize()
        for reader, writer in slow:
            async with asyncio.timeout(SECONDS):
                try:
                    assert await reader.read() == b""
                except ConnectionResetError:
                    pass
            writer.close()
    record_property("count", count)


@pytest.mark.fault("HTT-11")
async def test_slow_headers_of_a_second_request_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "HEADER_SECONDS", 0.1)
    async with running_server(Echo()) as server, asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first = await reader.readuntil(b"ok\n")
        writer.write(b"GET /hea")
        try:
            rest = await reader.read()
        except ConnectionResetError:
            rest = b""
        writer.close()

    assert first.startswith(b"HTTP/1.1 200 ")
    assert rest == b""


async def _ends_within(reader: asyncio.StreamReader, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.fault("HTT-11")
async def test_headers_that_trickle_gain_no_time_with_each_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "HEADER_SECONDS", 0.5)
    async with running_server(Echo()) as server, asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        trickled = 0
        while not await _ends_within(reader, 0.05):
            writer.write(b"x")
            trickled += 1
        writer.close()

    assert trickled <= 10


@pytest.mark.fault("HTT-11")
async def test_the_time_for_headers_is_not_that_of_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "HEADER_SECONDS", 0.1)
    body = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
    head = f"POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}"
    async with running_server(Echo()) as server, asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"{head}\r\nContent-Type: application/json\r\n\r\n".encode() + body[:10])
        assert not await _ends_within(reader, 0.5)
        writer.write(body[10:])
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()


def test_the_time_for_headers_is_the_one_that_the_page_on_limits_names() -> None:
    page = (Path(__file__).parents[3] / "docs" / "topics" / "limits.md").read_text("utf-8")

    assert f"Headers have {guarded.HEADER_SECONDS:g} s;" in page


@pytest.mark.fault("HTT-11")
async def test_a_reader_that_does_not_read_its_events_is_disconnected() -> None:
    class Flooding(Echo):
        def answer(self, transport: Transport, message: Json) -> None:
            super().answer(transport, message)
            if message.get("method") == "flood":
                for _ in range(32):
                    transport.send(b'{"jsonrpc":"2.0","method":"x","params":"%b"}' % (b"x" * 1024 * 1024))

    async with running_server(Flooding(), Limits(stall_seconds=0.2)) as server, http_client_to(server) as client:
        await client.initialize()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = (
            f"GET /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nAcp-Connection-Id: {client.id}"
        )
        writer.write(f"{head}\r\nAccept: text/event-stream\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        [held] = server.app.connections.all()
        await client.post({"jsonrpc": "2.0", "method": "flood"})
        await _until(lambda: held.pending_bytes <= 5 * 1024 * 1024 and not held.is_congested)
        writer.transport.abort()


@pytest.mark.fault("HTT-12")
@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Content-Length : 5",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "X: a\nContent-Length: 5",
        "X: a\x00b",
    ],
)
async def test_a_request_that_two_servers_would_read_differently_is_refused(lines: str) -> None:
    echo = Echo()
    async with running_server(echo) as server:
        head = (
            f"POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json"
        )
        answer = await raw(
            server, f"{head}\r\n{lines}\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )

    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 "))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert echo.frames == []


@asynccontextmanager
async def raw_socket(
    server: RunningServer, more: str = ""
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a WebSocket whose frames a test writes byte by byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write((UPGRADE % more).encode())
    async with asyncio.timeout(SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        assert b"extensions" not in head.lower()
        writer.write(frame(1, INITIALIZE))
        assert (await read_frame(reader))[0] == 1
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


def frame(opcode: int, data: bytes, *, is_last: bool = True, reserved: int = 0) -> bytes:
    """Return a masked frame; the mask is all zero."""
    head = bytes([(0x80 if is_last else 0) | reserved | opcode])
    if len(data) < 126:
        size = bytes([0x80 | len(data)])
    elif len(data) < 65536:
        size = bytes([0x80 | 126]) + struct.pack("!H", len(data))
    else:
        size = bytes([0x80 | 127]) + struct.pack("!Q", len(data))
    return head + size + bytes(4) + data


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the opcode and the data of the next frame."""
    async with asyncio.timeout(SECONDS):
        first, size = await reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await reader.readexactly(8))
        return first & 15, await reader.readexactly(size)


async def closing_code(reader: asyncio.StreamReader) -> int:
    while (read := await read_frame(reader))[0] != 8:
        pass
    return int.from_bytes(read[1][:2], "big") if read[1] else 1005


@pytest.mark.fault("WSK-06", "WSK-10")
@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([frame(1, b"\xff\xfe")], 1007),
        ([frame(1, b"\xed\xa0\x80")], 1007),
        ([frame(1, b"a", is_last=False), frame(0, b"\xc3")], 1007),
        ([frame(3, b"")], 1002),
        ([frame(1, b"x", reserved=0x40)], 1002),
        ([frame(0, b"x")], 1002),
        ([frame(9, b"x" * 126)], 1002),
        ([frame(9, b"x", is_last=False)], 1002),
        ([frame(8, b"\x00")], 1002),
        ([frame(8, struct.pack("!H", 999))], 1002),
        ([frame(8, struct.pack("!H", 1005))], 1002),
        ([frame(8, struct.pack("!H", 1000) + b"\xff")], 1007),
        ([frame(1, b"{", is_last=False), frame(8, struct.pack("!H", 1000))], 1002),
        ([frame(8, struct.pack("!H", 1000) + b"x" * 124)], 1002),
        ([frame(8, b"")], 1005),
    ],
)
async def test_a_broken_frame_ends_the_connection_with_its_reason(frames: list[bytes], code: int) -> None:
    echo = Echo()
    async with running_server(echo) as server, raw_socket(server) as (reader, writer):
        writer.write(b"".join(frames))

        assert await closing_code(reader) == code
    assert len(echo.frames) == 1


@pytest.mark.fault("WSK-07")
async def test_compression_is_not_offered() -> None:
    async with running_server(Echo()) as server:
        more = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
        async with raw_socket(server, more) as (reader, writer):
            writer.write(frame(1, b"\x00" * 100, reserved=0x40))

            assert await closing_code(reader) == 1002


@pytest.mark.fault("WSK-08")
async def test_pings_are_answered_while_the_client_reads_the_pongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "MAX_UNREAD", 100_000)
    async with running_server(Echo()) as server:
        async with raw_socket(server) as (reader, writer):
            writer.write(frame(9, b"are you there") + frame(10, b"nobody asked"))

            assert await read_frame(reader) == (10, b"are you there")
        async with raw_socket(server) as (_, writer):
            flood = frame(9, b"x" * 125) * 1000
            with pytest.raises(ConnectionError):
                for _ in range(1000):
                    writer.write(flood)
                    async with asyncio.timeout(SECONDS):
                        await writer.drain()


@pytest.mark.fault("WSK-08", "WSK-09")
async def test_a_peer_that_does_not_answer_pings_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    from duologue.transports.server import run as running

    monkeypatch.setattr(running, "PING_SECONDS", 0.1)
    paced = Waiting()
    async with running_server(paced) as server, raw_socket(server):
        async with asyncio.timeout(SECONDS):
            await paced.ended.wait()


@pytest.mark.fault("WSK-04")
async def test_a_message_in_very_many_pieces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "MAX_FRAGMENTS", 1000)
    async with running_server(Echo()) as server, raw_socket(server) as (reader, writer):
        writer.write(frame(1, b"", is_last=False) + frame(0, b"", is_last=False) * 2000)

        assert await reader.read() == b""


@pytest.mark.fault("WSK-13")
async def test_a_client_that_does_not_read_does_not_slow_down_others() -> None:
    """The others ask a hundred questions in less than twice the time it takes without it."""

    class Talkative(Echo):
        async def serve(self, transport: Transport) -> None:
            async with transport:
                while frames := await transport.receive():
                    for frame in frames:
                        message: Json = json.loads(frame)
                        self.answer(transport, message)
                        while message.get("method") == "flood":
                            transport.send(b'{"jsonrpc":"2.0","method":"x","params":"%b"}' % (b"x" * 65536))
                            if transport.is_congested:
                                await transport.drain()

    async def ask_all(socket: Socket) -> float:
        began = asyncio.get_running_loop().time()
        for number in range(100):
            await socket.ask(number, "x", {})
        return asyncio.get_running_loop().time() - began

    async with running_server(Talkative()) as server, socket_to(server) as other, raw_socket(server) as (_, writer):
        await other.initialize()
        alone = min([await ask_all(other) for _ in range(3)])
        writer.write(frame(1, b'{"jsonrpc":"2.0","method":"flood"}'))
        await _until(lambda: any(held.is_congested for held in server.app.connections.all()))
        beside = min([await ask_all(other) for _ in range(3)])

    assert beside < 2 * alone + 0.05


# --- idle, many, and the end


@pytest.mark.fault("GWY-11")
async def test_idle_connections_are_ended_and_busy_ones_are_not() -> None:
    waiting = Waiting()
    async with (
        running_server(waiting, Limits(idle_seconds=0.2)) as server,
        socket_to(server) as idle,
        socket_to(server) as busy,
    ):
        await idle.initialize()
        await busy.initialize()
        await busy.send({"jsonrpc": "2.0", "id": 1, "method": "wait"})

        assert await idle.closed() == 1001
        async with socket_to(server) as later:  # by its end the busy one has been silent for as long, and more
            await later.initialize()
            assert await later.closed() == 1001
        assert server.app.connections.gauges == {"connections": 1, "requests_running": 1}
        waiting.may_answer.set()
        assert (await busy.next())["id"] == 1
        assert await busy.closed() == 1001


@pytest.mark.fault("GWY-13")
async def test_a_stopping_server_lets_requests_end_and_accepts_nothing_new() -> None:
    waiting = Waiting()
    async with (
        running_server(waiting) as server,
        socket_to(server) as busy,
        socket_to(server) as idle,
        http_client_to(server) as client,
    ):
        await busy.initialize()
        await idle.initialize()
        await busy.send({"jsonrpc": "2.0", "id": 1, "method": "wait"})
        await waiting.waits.wait()
        async with asyncio.TaskGroup() as group:
            draining = group.create_task(server.app.connections.drain(SECONDS))
            await _until(lambda: server.app.connections.is_draining)
            refused = await busy.ask(2, "session/new", {})
            with pytest.raises(InvalidStatus) as closed:
                async with socket_to(server):
                    pass
            over_http = await client.post(INITIALIZE)
            health = await client.client.get(f"{server.base}/health")
            assert not draining.done()
            waiting.may_answer.set()
            answer = await busy.next()

        assert refused["error"]["code"] == -32603
        assert "connect again" in refused["error"]["message"]
        assert (closed.value.response.status_code, over_http.status_code, health.status_code) == (503, 503, 503)
        assert answer["id"] == 1
        assert (await busy.closed(), await idle.closed()) == (1001, 1001)


@pytest.mark.fault("GWY-13")
async def test_work_that_does_not_end_is_interrupted_in_time() -> None:
    agent = builtin_agent()
    async with running_server(agent) as server, socket_to(server) as socket:
        await socket.initialize()
        session = (await socket.ask(1, "session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        prompt = [{"type": "text", "text": "/cancel-me"}]
        await socket.send(
            {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}}
        )
        await socket.next()
        async with asyncio.timeout(60):
            await server.app.connections.drain(0.1)

        assert server.app.connections.gauges == {"connections": 0, "requests_running": 0}
        assert agent._open_sessions == {}
        socket.cut()


@pytest.mark.fault("REC-10")
@pytest.mark.timeout(200)
async def test_all_clients_resume_at_once(chaos_factor: int, record_property: Any) -> None:
    count = min(50 * chaos_factor, 5000)
    async with running_server(Echo(), seconds=180) as server:
        ids: list[str] = []
        async with AsyncExitStack() as stack:
            for _ in range(count):
                socket = await stack.enter_async_context(socket_to(server))
                await socket.initialize(RESUME_REQUEST)
                ids.append(socket.id)
                socket.cut()

        async def come_back(id: str) -> str:
            async with socket_to(server, open_timeout=30) as socket:
                params = {"connectionId": id, "received": 0}
                await socket.send({"jsonrpc": "2.0", "method": "_duologue/resume", "params": params})
                method: str = (await socket.next())["method"]
                return method

        async with asyncio.timeout(60):
            words = await asyncio.gather(*map(come_back, ids))

    assert set(words) == {"_duologue/resumed"}
    record_property("count", count)


@pytest.mark.fault("WSK-11")
async def test_idle_connections_are_cheap(chaos_factor: int, record_property: Any) -> None:
    """The clients are bare sockets, which take next to nothing of the same process."""
    count = 500 if chaos_factor == 1 else 5000
    async with running_server(builtin_agent()) as server:
        clients = [await bare_socket(server) for _ in range(20)]
        gc.collect()
        before = _resident()
        clients += [await bare_socket(server) for _ in range(count)]
        gc.collect()
        each = (_resident() - before) / count
        for client in clients:
            client.close()
    record_property("count", count)

    assert each <= 64 * 1024


async def bare_socket(server: RunningServer) -> sockets.socket:
    """Open a WebSocket and initialize the connection."""
    loop = asyncio.get_running_loop()
    client = sockets.socket()
    client.setblocking(False)
    async with asyncio.timeout(SECONDS):
        await loop.sock_connect(client, ("127.0.0.1", server.port))
        await loop.sock_sendall(client, (UPGRADE % "").encode())
        assert (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 101")
        await loop.sock_sendall(client, frame(1, INITIALIZE))
        assert await loop.sock_recv(client, 65536)
    return client


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.fault("HTT-16")
async def test_a_permission_request_without_a_reader_is_rejected_in_the_end() -> None:
    agent = builtin_agent()
    agent._permission_timeout = 0.2
    async with running_server(agent) as server, http_client_to(server) as client:
        await client.initialize()
        async with client.listen() as events:
            await client.post(
                {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
            )
            session = (await events.next())["result"]["sessionId"]
        prompt = [{"type": "text", "text": "/ask"}]
        params = {"sessionId": session, "prompt": prompt}
        await client.post({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params}, session)
        await _until(lambda: server.app.connections.gauges["requests_running"] == 0)


@pytest.mark.fault("REC-11")
async def test_a_client_that_missed_too_much_loads_the_session_and_gets_all_of_it_once() -> None:
    agent = builtin_agent()
    async with running_server(agent) as server:
        async with socket_to(server) as socket:
            await socket.initialize(RESUME_REQUEST)
            session = (await socket.ask(1, "session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
            prompt = [{"type": "text", "text": "/stream 50"}]
            params = {"sessionId": session, "prompt": prompt}
            await socket.send({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params})
            await socket.next()
            socket.cut()
        await _until(lambda: server.app.connections.gauges["requests_running"] == 0)
        async with socket_to(server) as back:
            params = {"connectionId": socket.id, "received": 1000}
            await back.send({"jsonrpc": "2.0", "method": "_duologue/resume", "params": params})
            assert (await back.next())["method"] == "_duologue/lost"
        async with socket_to(server) as again:
            await again.initialize(RESUME_REQUEST)
            replayed = await _load(again, session)

        async with socket_to(server) as uncut:
            await uncut.initialize()
            other = (await uncut.ask(1, "session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
            await uncut.ask(2, "session/prompt", {"sessionId": other, "prompt": prompt})
        async with socket_to(server) as reader:
            await reader.initialize()
            whole = await _load(reader, other)

    assert replayed == whole
    assert len(replayed) > 50


async def _load(socket: Socket, session: str) -> str:
    """Load a session; return the text of its messages."""
    params: Json = {"sessionId": session, "cwd": "/", "mcpServers": []}
    await socket.send({"jsonrpc": "2.0", "id": 9, "method": "session/load", "params": params})
    text = ""
    while "result" not in (message := await socket.next()):
        update = message["params"]["update"]
        text += update.get("content", {}).get("text", "") if update["sessionUpdate"] == "agent_message_chunk" else ""
    return text


async def _until(is_so: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


POST = f"POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.fault("HTT-12")
async def test_trailers_are_no_headers() -> None:
    chunked = b"%x\r\n%b\r\n0\r\nAcp-Connection-Id: other\r\nHost: evil.example\r\n\r\n" % (len(INITIALIZE), INITIALIZE)
    async with running_server(Echo()) as server:
        answer = await raw(server, f"{POST}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked + LAST)

    assert answer.count(b"HTTP/1.1 200 ") == 2


@pytest.mark.fault("HTT-12")
async def test_junk_after_a_request_does_not_change_its_response() -> None:
    async with running_server(Echo()) as server:
        for junk in (b"junk\r\n\r\n", b"\x00\x01", LAST + HEALTH):
            answer = await raw(server, HEALTH + junk)

            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"HTTP/1.1 400 " not in answer


@pytest.mark.fault("HTT-12")
@pytest.mark.parametrize("target", ["http://localhost/health", "http://evil.example/health", "*", "localhost:80"])
async def test_a_target_that_may_name_another_host_is_refused(target: str) -> None:
    async with running_server(Echo()) as server:
        answer = await raw(server, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("more", ["", "Content-Length: {size}\r\n"])
async def test_an_upgrade_to_another_protocol_is_declined_without_losing_the_request(more: str) -> None:
    """Some HTTP clients offer HTTP/2 with their first request, and its body follows."""
    upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
    async with running_server(Echo()) as server:
        head = POST if more else "GET /health HTTP/1.1\r\nHost: localhost\r\n"
        body = INITIALIZE if more else b""
        answer = await raw(server, f"{head}{upgrade}{more.format(size=len(body))}\r\n".encode() + body + LAST)

    assert answer.count(b"HTTP/1.1 200 ") == 2


@pytest.mark.fault("HTT-10")
@pytest.mark.parametrize(
    "begin",
    [
        "X: ",
        "Transfer-Encoding: chunked\r\n\r\n1;",
        "Transfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        "Transfer-Encoding: chunked\r\n\r\n800000\r\n" + "x" * 0x800000 + "\r\n0\r\nX: ",
    ],
    ids=["header", "chunk", "trailer", "trailer after a long body"],
)
async def test_headers_trailers_and_chunk_sizes_without_end_are_not_collected(begin: str) -> None:
    async with running_server(Echo()) as server, asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"{POST}{begin}".encode())
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                writer.write(b"x" * 65536)
                await writer.drain()
                if reader.at_eof():
                    raise ConnectionResetError
        writer.transport.abort()


@pytest.mark.fault("HTT-11")
async def test_empty_lines_before_a_request_gain_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "HEADER_SECONDS", 0.1)
    async with running_server(Echo()) as server, asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEALTH)
        await reader.readuntil(b"ok\n")
        writer.write(b"\r\n")

        assert await _ends_within(reader, SECONDS)
        writer.close()


@pytest.mark.fault("HTT-11")
async def test_the_time_for_headers_does_not_end_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "HEADER_SECONDS", 0.1)
    async with running_server(Echo()) as server, raw_socket(server) as (reader, _):
        assert not await _ends_within(reader, 0.5)
