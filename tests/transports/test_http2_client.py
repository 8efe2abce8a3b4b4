"""HTTP/2 for clients, against a server whose frames a test chooses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame

from duologue.transports.remote.http2_connection import Http2Connection
from duologue.transports.remote.http_client import HttpClient
from duologue.transports.remote.http_connection import READ_AHEAD, HttpError, HttpRequest
from duologue.transports.remote.url import RemoteEndpoint
from tests.transports.certificates import Authority
from tests.transports.waiting import until

OK = [(":status", "200")]
GET = HttpRequest("GET", "https", "h", "/acp", [("Accept", "*/*")], None)

Respond: TypeAlias = Callable[[h2.connection.H2Connection, asyncio.StreamWriter, int], None]


@asynccontextmanager
async def connected(respond: Respond, *, reads: bool = True) -> AsyncGenerator[Http2Connection]:
    """Open a connection to a server that calls `respond` with the headers of each request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        writer.write(state.data_to_send())
        with suppress(ConnectionError):
            await answer_all(state, reader, writer)
        writer.transport.abort()
        ended.set()

    async def answer_all(
        state: h2.connection.H2Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            for event in state.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    assert event.stream_id is not None
                    respond(state, writer, event.stream_id)
                elif isinstance(event, h2.events.DataReceived) and reads:
                    assert event.stream_id is not None
                    state.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            if output := state.data_to_send():
                writer.write(output)

    ended = asyncio.Event()
    async with asyncio.timeout(60), await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        _, connection = await asyncio.get_running_loop().create_connection(Http2Connection, "127.0.0.1", port)
        try:
            yield connection
        finally:
            await connection.aclose()
            await ended.wait()


async def body_of(connection: Http2Connection, request: HttpRequest = GET, seconds: float | None = 5.0) -> bytes:
    await connection.send(request, seconds)
    body = b""
    while data := await connection.read():
        body += data
    return body


def answer(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
    state.send_headers(stream, OK)
    state.send_data(stream, b"ok", end_stream=True)


async def test_one_connection_carries_one_request_after_the_other() -> None:
    async with connected(answer) as connection:
        for _ in range(3):
            assert await body_of(connection) == b"ok"
            assert connection.is_reusable


async def test_a_body_that_was_not_read_is_not_read_as_part_of_the_next_response() -> None:
    async with connected(answer) as connection:
        await connection.send(GET, 5)
        await until(lambda: connection._is_complete)
        assert not connection.is_reusable


async def test_a_body_longer_than_the_windows_is_sent_and_received() -> None:
    def echo(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        state.send_headers(stream, OK)
        for _ in range(8):
            state.send_data(stream, b"x" * 16_000)
        state.send_data(stream, b"", end_stream=True)

    async with connected(echo) as connection:
        request = HttpRequest("POST", "https", "h", "/", [], b"x" * 30_000)
        for _ in range(5):
            assert len(await body_of(connection, request)) == 128_000


async def test_a_body_that_breaks_off_with_its_connection_is_an_error() -> None:
    def break_off(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        state.send_headers(stream, OK)
        state.send_data(stream, b"half")
        writer.write(state.data_to_send())
        writer.write_eof()

    async with connected(break_off) as connection:
        with pytest.raises(HttpError, match="closed the connection"):
            await body_of(connection)


async def test_a_server_that_ends_the_connection_may_finish_its_response_first() -> None:
    def go_away(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        writer.write(state.data_to_send() + GoAwayFrame(0, last_stream_id=stream).serialize())
        answer(state, writer, stream)

    async with connected(go_away) as connection:
        assert await body_of(connection) == b"ok"
        assert not connection.is_reusable


@pytest.mark.parametrize("code", [0, 11])
async def test_a_request_that_the_server_did_not_accept_before_it_ended_the_connection_fails(code: int) -> None:
    def go_away(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        writer.write(state.data_to_send() + GoAwayFrame(0, last_stream_id=0, error_code=code).serialize())

    async with connected(go_away) as connection:
        with pytest.raises(HttpError, match="ended the connection"):
            await body_of(connection, seconds=None)


async def test_a_stream_that_is_reset_is_an_error() -> None:
    def reset(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        state.reset_stream(stream, 2)

    async with connected(reset) as connection:
        with pytest.raises(HttpError, match="broke off"):
            await body_of(connection)


async def test_a_connection_is_not_used_again_if_the_response_came_before_the_whole_request() -> None:
    async with connected(answer, reads=False) as connection:
        assert await body_of(connection, HttpRequest("POST", "https", "h", "/", [], b"x" * 1_000_000)) == b"ok"
        assert not connection.is_reusable


async def test_a_server_that_accepts_no_streams_is_an_error() -> None:
    def forbid(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        state.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 0})
        answer(state, writer, stream)

    async with connected(forbid) as connection:
        assert await body_of(connection) == b"ok"
        with pytest.raises(HttpError, match="does not accept the request"):
            await body_of(connection)


async def test_a_slow_reader_is_no_silence_of_the_server() -> None:
    def fill(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        state.send_headers(stream, OK)
        for _ in range(4):
            state.send_data(stream, b"x" * 16_000)

    async with connected(fill) as connection:
        await connection.send(GET, 0.05)
        await until(lambda: sum(map(len, connection._body)) == 64_000)
        await asyncio.sleep(0.2)  # longer than the server may be silent
        assert not connection.closed.is_set()
        assert len(await connection.read()) == 64_000
        with pytest.raises(HttpError, match="silent"):
            await connection.read()


async def test_pings_whose_responses_the_server_does_not_read_are_bounded() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        writer.write(state.data_to_send())
        pings = PingFrame(0, opaque_data=b"12345678").serialize() * 4000
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(pings)
                await writer.drain()
        writer.transport.abort()
        ended.set()

    ended, listener = asyncio.Event(), socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # else the system buffers megabytes
    async with asyncio.timeout(60), await asyncio.start_server(flood, sock=listener) as server:
        port = server.sockets[0].getsockname()[1]
        _, connection = await asyncio.get_running_loop().create_connection(Http2Connection, "127.0.0.1", port)
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with pytest.raises(HttpError, match="does not read"):
            await body_of(connection, seconds=None)
        await connection.aclose()
        await ended.wait()


async def test_a_status_that_is_no_number_is_an_error() -> None:
    def confuse(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        state.send_headers(stream, [(":status", "2x0")])

    async with connected(confuse) as connection:
        with pytest.raises(HttpError, match="no valid HTTP/2"):
            await body_of(connection)


async def test_more_than_the_window_is_an_error() -> None:
    def flood(state: h2.connection.H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        state.send_headers(stream, OK)
        frames = DataFrame(stream, b"x" * 16_000).serialize() * (READ_AHEAD // 16_000 + 10)
        writer.write(state.data_to_send() + frames)

    async with connected(flood) as connection:
        await connection.send(GET, 5)
        await connection.closed.wait()
        with pytest.raises(HttpError, match="no valid HTTP/2"):
            while True:
                await connection.read()


async def test_a_server_that_closes_as_soon_as_it_has_agreed_to_http_2_is_an_error(tmp_path: Path) -> None:
    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    authority = Authority(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(authority.sign("127.0.0.1"))
    tls.set_alpn_protocols(["h2"])
    async with asyncio.timeout(60), await asyncio.start_server(close, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        client = HttpClient(RemoteEndpoint.of(f"https://127.0.0.1:{port}", trust=authority.file), 100)
        for _ in range(10):
            with pytest.raises(HttpError):
                await client.request("GET", {}, seconds=None)
        await client.aclose()
