"""The server does not speak HTTP/2: a client that begins with it is disconnected."""

from __future__ import annotations

import asyncio
import struct

import pytest

from duologue.agent.agent import Agent
from tests.transports.server.servers import RunningServer, running_server, socket_to

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, RESET, PING, HEADERS, CONTINUATION = 0x4, 0x3, 0x6, 0x1, 0x9


def frame(kind: int, stream: int, body: bytes = b"", flags: int = 0) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


FLOODS = {
    "rapid resets": b"".join(
        frame(HEADERS, 2 * n + 1, b"\x82\x86\x84") + frame(RESET, 2 * n + 1, b"\0\0\0\x08") for n in range(10_000)
    ),
    "endless continuation": frame(HEADERS, 1, b"\x82") + frame(CONTINUATION, 1, b"\0" * 16_000) * 200,
    "settings": frame(SETTINGS, 0, b"\0\x01\0\0\x10\0") * 20_000,
    "pings": frame(PING, 0, b"12345678") * 20_000,
    "header table": frame(HEADERS, 1, (b"\x40\x01a" + b"\x7f\x80\x7e" + b"b" * 16_000)) * 100,
}


@pytest.mark.fault("HTT-13")
@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_in_http_2_is_cut_off_without_affecting_other_clients(name: str) -> None:
    async with running_server(Agent("quiet")) as server:
        async with asyncio.timeout(60):
            answer = await _send(server, PREFACE + FLOODS[name])
        assert not answer or answer.startswith(b"HTTP/1.1 400 ")
        async with asyncio.timeout(60), socket_to(server):
            pass


async def _send(server: RunningServer, data: bytes) -> bytes:
    """Return what the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()
