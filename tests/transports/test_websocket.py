"""The client's side of a WebSocket: frames, limits, bad manners of servers, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response

from duologue.errors import ConnectError, ConnectionLost, MessageTooLarge, OutputLimitExceeded
from duologue.transports.remote import small_reads
from duologue.transports.remote.url import RemoteEndpoint
from duologue.transports.remote.websocket import WebSocketTransport
from tests.memory import peak_bytes, reset_peak
from tests.transports.waiting import until
from tests.transports.wsserver import SocketHandler, serving

LIMIT = 1024 * 1024
IMPATIENT = {"close_timeout": 0.1}  # a server that reads nothing waits for a goodbye in vain


@contextlib.asynccontextmanager
async def open_to(
    handle: SocketHandler, server: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[WebSocketTransport]:
    """Open a transport to a server that runs `handle` and has these options of the library."""
    async with asyncio.timeout(60), serving(handle, **(server or {})) as address:
        async with WebSocketTransport(address, **options) as transport:
            yield transport


async def echo(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)


async def listen(socket: ServerConnection) -> None:
    async for _ in socket:
        pass


async def everything(transport: WebSocketTransport) -> list[bytes]:
    """Receive all frames up to the end."""
    frames: list[bytes] = []
    while some := await transport.receive():
        frames += some
    return frames


async def count(transport: WebSocketTransport, wanted: int) -> list[bytes]:
    """Receive this many frames."""
    frames: list[bytes] = []
    while len(frames) < wanted:
        frames += await transport.receive()
    return frames


def raw(socket: ServerConnection, opcode: Opcode, data: bytes, *, fin: bool = True) -> None:
    """Send a frame exactly as given, without the checks of the library."""
    socket.transport.write(Frame(opcode, data, fin).serialize(mask=False))


async def test_frames_go_both_ways_whole_and_in_order() -> None:
    sent = [b'{"n":%d,"t":"%s"}' % (number, "höhe 🎈".encode() * number) for number in range(200)]
    async with open_to(echo) as transport:
        for frame in sent:
            transport.send(frame)
        assert await count(transport, 200) == sent


async def test_a_taker_gets_frames_without_being_woken() -> None:
    taken: list[bytes] = []

    def take(frames: list[bytes]) -> bool:
        taken.extend(frames)
        return True

    async with open_to(echo) as transport:
        transport.on_frames = take
        transport.send(b"{}")
        await until(lambda: taken == [b"{}"])


async def test_headers_and_token_are_shown_with_the_upgrade() -> None:
    seen: list[Headers] = []

    async def read_headers(socket: ServerConnection) -> None:
        assert socket.request is not None
        seen.append(socket.request.headers)

    async with serving(read_headers) as address:
        address = RemoteEndpoint.of(address.socket_url + "#token=abc", headers={"X-Team": "blue"})
        async with WebSocketTransport(address) as transport:
            await everything(transport)
    assert (seen[0]["Authorization"], seen[0]["X-Team"]) == ("Bearer abc", "blue")
    assert "Sec-WebSocket-Extensions" not in seen[0]  # compression is off


async def test_leaving_says_goodbye_after_everything_that_was_sent() -> None:
    received: list[str | bytes] = []
    codes: list[int | None] = []

    async def keep(socket: ServerConnection) -> None:
        received.extend([message async for message in socket])
        codes.append(socket.close_code)

    async with open_to(keep) as transport:
        for number in range(100):
            transport.send(b"%d" % number)
    assert received == [str(number) for number in range(100)]
    assert codes == [1000]
    with pytest.raises(ConnectionLost, match="closed"):
        transport.send(b"{}")
    await transport.aclose()


async def test_a_proper_end_of_the_server_is_the_end_and_no_error() -> None:
    async def leave(socket: ServerConnection) -> None:
        await socket.send("last")

    async with open_to(leave) as transport:
        assert await everything(transport) == [b"last"]
        with pytest.raises(ConnectionLost):
            transport.send(b"{}")


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 426, 500, 503])
async def test_a_refused_upgrade_is_an_error_that_names_the_status(status: int) -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return Response(status, "No", Headers({"Location": "http://elsewhere.example/", "Content-Length": "0"}))

    async with serving(echo, process_request=refuse) as address:
        with pytest.raises(ConnectError, match=f"HTTP {status}") as caught:
            async with WebSocketTransport(address):
                pass
    assert caught.value.status == status


async def test_no_server_at_the_url_is_an_error_at_once() -> None:
    async with serving(echo) as address:
        pass
    with pytest.raises(ConnectError, match="cannot reach ws://127"):
        async with WebSocketTransport(address):
            pass


@pytest.mark.fault("HTT-19")
async def test_a_redirect_is_not_followed_and_no_other_server_gets_the_token() -> None:
    requests: list[Request] = []

    def record_request(connection: ServerConnection, request: Request) -> None:
        requests.append(request)

    async with serving(echo, process_request=record_request) as elsewhere:

        def redirect(connection: ServerConnection, request: Request) -> Response:
            return Response(302, "Found", Headers({"Location": elsewhere.socket_url, "Content-Length": "0"}))

        async with serving(echo, process_request=redirect) as address:
            with pytest.raises(ConnectError, match=r"redirects to ws://.* not followed"):
                async with WebSocketTransport(RemoteEndpoint.of(address.socket_url, token="secret")):
                    pass
    assert requests == []


# What servers do that they should not


@pytest.mark.fault("WSK-04")
async def test_a_message_over_the_limit_closes_with_1009_and_is_not_kept() -> None:
    codes: list[int | None] = []

    async def flood(socket: ServerConnection) -> None:
        with contextlib.suppress(Exception):
            await socket.send("x" * (LIMIT + 1))
        await socket.wait_closed()
        codes.append(socket.close_code)

    async with open_to(flood, max_message_bytes=LIMIT) as transport:
        with pytest.raises(MessageTooLarge, match="1048577"):
            await everything(transport)
    await until(lambda: codes == [1009])


@pytest.mark.fault("WSK-04")
async def test_a_million_fragments_cost_no_more_than_their_bytes(chaos_factor: int, record_property: Any) -> None:
    fragments = 10_000 * chaos_factor
    record_property("count", fragments)

    async def send_fragments(socket: ServerConnection) -> None:
        raw(socket, Opcode.TEXT, b"[", fin=False)
        for number in range(fragments):
            raw(socket, Opcode.CONT, b"1", fin=False)
            if number % 10_000 == 0:
                await asyncio.sleep(0)
        raw(socket, Opcode.CONT, b"]")
        await socket.wait_closed()

    before = reset_peak()
    async with open_to(send_fragments, max_message_bytes=LIMIT + fragments) as transport:
        [frame] = await transport.receive()
    assert frame == b"[" + b"1" * fragments + b"]"
    assert peak_bytes() - before < 64 * 2**20


@pytest.mark.fault("WSK-04")
async def test_fragments_that_never_end_are_cut_at_the_limit() -> None:
    async def send_fragments(socket: ServerConnection) -> None:
        raw(socket, Opcode.TEXT, b"[", fin=False)
        while not socket.transport.is_closing():
            raw(socket, Opcode.CONT, b"1" * 10_000, fin=False)
            await asyncio.sleep(0)

    async with open_to(send_fragments, max_message_bytes=LIMIT) as transport:
        with pytest.raises(MessageTooLarge):
            await everything(transport)


@pytest.mark.fault("WSK-05")
async def test_binary_messages_are_ignored_whole_or_in_pieces() -> None:
    async def mix(socket: ServerConnection) -> None:
        await socket.send(b'{"binary":true}')
        await socket.send("1")
        await socket.send([b'{"bi', b'nary":', b"true}"])
        await socket.send(["[", "2", "]"])

    async with open_to(mix) as transport:
        assert await everything(transport) == [b"1", b"[2]"]


@pytest.mark.fault("WSK-06")
@pytest.mark.parametrize("text", [b"\xff", b'{"a":"\xed\xa0\x80"}', b"\xc3"])
async def test_text_that_is_not_utf_8_closes_with_1007(text: bytes) -> None:
    codes: list[int | None] = []

    async def send_invalid_text(socket: ServerConnection) -> None:
        raw(socket, Opcode.TEXT, text[:1], fin=False)
        raw(socket, Opcode.CONT, text[1:])
        await socket.wait_closed()
        codes.append(socket.close_code)

    async with open_to(send_invalid_text) as transport:
        with pytest.raises(ConnectionLost, match="violated the WebSocket protocol"):
            await everything(transport)
    await until(lambda: codes == [1007])


@pytest.mark.fault("WSK-07")
async def test_a_compressed_bomb_is_not_even_unpacked() -> None:
    bomb = zlib.compress(b"x" * 10_000_000)[2:]

    async def attack(socket: ServerConnection) -> None:
        frame = bytearray(Frame(Opcode.TEXT, bomb).serialize(mask=False))
        frame[0] |= 0x40  # "compressed"
        socket.transport.write(frame)
        await socket.wait_closed()

    async with open_to(attack, max_message_bytes=LIMIT) as transport:
        with pytest.raises(ConnectionLost, match="reserved"):
            await everything(transport)


@pytest.mark.fault("WSK-08")
async def test_pings_and_unasked_pongs_in_masses_change_nothing() -> None:
    async def flood(socket: ServerConnection) -> None:
        for _ in range(1000):
            raw(socket, Opcode.PING, b"x" * 125)
            raw(socket, Opcode.PONG, b"y" * 125)
        await socket.send("{}")

    async with open_to(flood) as transport:
        assert await everything(transport) == [b"{}"]


@pytest.mark.fault("WSK-08", "WSK-09")
async def test_a_server_that_answers_no_ping_is_noticed() -> None:
    async def die(socket: ServerConnection) -> None:
        socket.transport.pause_reading()  # as if the cable were pulled: nothing arrives, and nothing comes
        await socket.wait_closed()

    async with open_to(die, server=IMPATIENT, ping_seconds=0.1) as transport:
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionLost, match="broke"):
                await everything(transport)


@pytest.mark.fault("WSK-09")
async def test_a_connection_that_ends_without_goodbye_is_lost() -> None:
    async def vanish(socket: ServerConnection) -> None:
        await socket.send("{}")
        await socket.recv()
        socket.transport.abort()

    async with open_to(vanish) as transport:
        assert await transport.receive() == [b"{}"]
        transport.send(b"{}")
        with pytest.raises(ConnectionLost, match="broke"):
            await transport.receive()


@pytest.mark.fault("WSK-10")
@pytest.mark.parametrize(
    "payload",
    [
        b"\x03",
        (999).to_bytes(2, "big"),
        (1005).to_bytes(2, "big"),
        (5000).to_bytes(2, "big"),
        (1000).to_bytes(2, "big") + b"\xff",
    ],
)
async def test_a_malformed_goodbye_is_answered_with_one_and_lost(payload: bytes) -> None:
    async def leave(socket: ServerConnection) -> None:
        raw(socket, Opcode.TEXT, b"{}")
        raw(socket, Opcode.CLOSE, payload)
        await socket.wait_closed()

    async with open_to(leave) as transport:
        assert await transport.receive() == [b"{}"]
        with pytest.raises(ConnectionLost):
            await transport.receive()


@pytest.mark.fault("WSK-10")
async def test_a_goodbye_in_the_middle_of_a_message_or_one_that_is_too_long_is_no_accident() -> None:
    async def interrupt(socket: ServerConnection) -> None:
        raw(socket, Opcode.TEXT, b'{"half":', fin=False)
        await socket.close(1011, "ouch")

    async def send_close(socket: ServerConnection) -> None:
        socket.transport.write(b"\x88\x7e\x00\x7f" + (1000).to_bytes(2, "big") + b"x" * 125)
        await socket.wait_closed()

    async with open_to(interrupt) as transport:
        with pytest.raises(ConnectionLost, match="ouch"):
            await transport.receive()
    async with open_to(send_close) as transport:
        with pytest.raises(ConnectionLost, match="violated the WebSocket protocol"):
            await transport.receive()


# Pace


async def test_a_flood_that_is_not_received_stays_in_the_network() -> None:
    sent = 0

    async def flood(socket: ServerConnection) -> None:
        nonlocal sent
        for _ in range(256):
            await socket.send("x" * 65536)
            sent += 1

    async with open_to(flood) as transport:
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 256
        assert len(await everything(transport)) == 256


async def test_a_server_that_reads_nothing_congests_and_then_ends_the_connection() -> None:
    async def sleep(socket: ServerConnection) -> None:
        socket.transport.pause_reading()
        await socket.wait_closed()

    async with open_to(sleep, server=IMPATIENT, max_queued_bytes=LIMIT) as transport:
        while not transport.is_congested:
            transport.send(b"x" * 65536)
            await asyncio.sleep(0)
        assert transport.pending_bytes > 0
        with pytest.raises(OutputLimitExceeded):
            while True:
                transport.send(b"x" * 65536)
        with pytest.raises(OutputLimitExceeded):
            await transport.drain()
        with pytest.raises(OutputLimitExceeded):
            await transport.receive()


async def test_a_connection_to_a_server_that_reads_nothing_for_too_long_is_aborted() -> None:
    async def sleep(socket: ServerConnection) -> None:
        socket.transport.pause_reading()
        await socket.wait_closed()

    async with open_to(sleep, server=IMPATIENT, output_stall=0.1) as transport:
        while not transport.is_congested:
            transport.send(b"x" * 65536)
            await asyncio.sleep(0)
        with pytest.raises(OutputLimitExceeded, match=r"0.1 s"):
            await transport.receive()


async def test_draining_ends_when_the_server_reads_again() -> None:
    async def pause(socket: ServerConnection) -> None:
        socket.transport.pause_reading()
        await asyncio.sleep(0.2)
        socket.transport.resume_reading()
        await listen(socket)

    async with open_to(pause) as transport:
        while not transport.is_congested:
            transport.send(b"x" * 65536)
            await asyncio.sleep(0)
        await transport.drain()
        assert not transport.is_congested


async def test_sending_before_entering_is_refused() -> None:
    with pytest.raises(ConnectionLost, match="not entered"):
        WebSocketTransport(RemoteEndpoint.of("ws://localhost")).send(b"{}")


async def test_the_request_to_resume_does_not_disturb_a_server_without_resuming() -> None:
    received: list[dict[str, Any]] = []

    async def answer_initialize(socket: ServerConnection) -> None:
        received.append(json.loads(await socket.recv()))
        await socket.send('{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}')
        await socket.send('{"jsonrpc":"2.0","method":"_duologue/received","params":{"count":5}}')

    async with open_to(answer_initialize) as transport:
        transport.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}')
        frames = await everything(transport)
    assert received[0]["params"]["_meta"] == {"duologue/resume": {"version": 1}}
    assert len(frames) == 2


async def test_nothing_is_kept_for_a_server_that_does_not_know_of_returning() -> None:
    async def answer_initialize(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.recv()
        await socket.send('{"jsonrpc":"2.0","id":0,"result":{}}')
        await listen(socket)

    async with open_to(answer_initialize) as transport:
        transport.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}')
        transport.send(b'"' + b"x" * 5_000_000 + b'"')  # before the negotiation; more than a window holds
        assert transport.is_congested
        await transport.receive()
        await transport.drain()
        assert transport._window.size == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
async def test_messages_are_the_same_however_the_network_splits_them(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_reads, "READ_BYTES", size)
    texts = ["", "1", "x" * 125, "é" * 63, "x" * 126, "x" * 300, '{"n":"🎈"}']

    async def mix(socket: ServerConnection) -> None:
        for text in texts:
            await socket.send(text)
            await socket.ping()
            await socket.send([text[:1], text[1:], "!"])
            raw(socket, Opcode.PONG, b"unsolicited")
            await socket.send(b"binary")

    async with open_to(mix) as transport:
        received = await everything(transport)

    assert received == [each.encode() for text in texts for each in (text, f"{text}!")]


async def test_a_message_longer_than_two_reads_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * 70_000

    async def send_long(socket: ServerConnection) -> None:
        for text in ("before", long, "after"):
            await socket.send(text)

    async with open_to(send_long) as transport:
        assert await everything(transport) == [b"before", long.encode(), b"after"]


@pytest.mark.fault("WSK-10")
@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x81\0\0\0\0x",
        b"\xc1\x01x",
        b"\x83\x00",
        b"\x80\x00",
        b"\x89\x7e\x00\x7e" + b"x" * 126,
        b"\x01\x01x\x81\x01y",
    ],
)
async def test_a_frame_that_a_server_must_not_send_closes_with_1002(
    data: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_reads, "READ_BYTES", size)
    codes: list[int | None] = []

    async def send_data(socket: ServerConnection) -> None:
        await socket.send("1")
        socket.transport.write(data)
        await socket.wait_closed()
        codes.append(socket.close_code)

    async with open_to(send_data) as transport:
        with pytest.raises(ConnectionLost, match="violated the WebSocket protocol"):
            await everything(transport)
        await until(lambda: codes == [1002])
