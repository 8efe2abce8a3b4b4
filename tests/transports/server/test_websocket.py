"""WebSocket, with a client that only knows the proposal."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.frames import BINARY, CONT, PING, TEXT, Frame

from duologue.builtin.agent import builtin_agent
from duologue.transports.base import Transport
from duologue.transports.server.limits import Limits
from tests.transports.server.servers import (
    RESUME_REQUEST,
    TOKEN,
    Counting,
    Echo,
    Json,
    bearer,
    running_server,
    socket_to,
)

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


async def test_an_agent_object_answers_a_plain_client() -> None:
    async with running_server(builtin_agent()) as server, socket_to(server) as socket:
        welcome = await socket.initialize()
        made = await socket.ask(1, "session/new", {"cwd": "/", "mcpServers": []})
        prompt = [{"type": "text", "text": "hello"}]
        answer = await socket.ask(2, "session/prompt", {"sessionId": made["result"]["sessionId"], "prompt": prompt})

    assert welcome["protocolVersion"] == 1
    assert welcome["_meta"] == {"steering": {"supported": True}}  # what the agent sends, and nothing of ours
    assert answer["result"]["stopReason"] == "end_turn"


async def test_the_upgrade_names_the_connection_by_an_id_that_cannot_be_guessed() -> None:
    async with running_server(Echo()) as server, socket_to(server) as one, socket_to(server) as other:
        ids = {one.id, other.id}

    assert len(ids) == 2
    assert all(len(id) >= 43 for id in ids)


async def test_frames_reach_the_agent_as_they_were_written() -> None:
    echo = Echo()
    texts = [
        '{"jsonrpc":"2.0", "method":"x",\n "params":{"n":12345678901234567890,"n":2,"é":"\\u00e9 \\ud83d\\ude00"}}'
    ]
    async with running_server(echo) as server, socket_to(server) as socket:
        await socket.initialize()
        for text in texts:
            await socket.send(text)
        await socket.ask(1, "last", {})

    assert [frame.decode() for frame in echo.frames[1:-1]] == texts


def numbered(number: int) -> str:
    """Return a notification; those of numbers that 10 divides are longer than what is read at once."""
    padding = "x" * 100_000 if number % 10 == 0 else "é" * (number * 37 % 300)
    return json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"n": number, "padding": padding}})


def frames_of(number: int) -> bytes:
    """Return the frames of a notification: a third of them in fragments with a ping in between, and binary ones."""
    text = numbered(number).encode()
    if number % 3:
        return Frame(TEXT, text).serialize(mask=True)
    parts = [
        Frame(TEXT, text[:20], fin=False),
        Frame(PING, b"between"),
        Frame(CONT, text[20:]),
        Frame(BINARY, b"ignored"),
    ]
    return b"".join(part.serialize(mask=True) for part in parts)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000, 66_000, 10_000_000])
async def test_messages_arrive_in_order_however_their_bytes_are_cut(size: int) -> None:
    echo = Echo()
    count = 8 if size < 1000 else 100
    data = b"".join(frames_of(number) for number in range(1 if size < 1000 else 0, count))
    async with running_server(echo) as server, socket_to(server) as socket:
        await socket.initialize()
        for begin in range(0, len(data), size):
            socket.connection.transport.write(data[begin : begin + size])
            await asyncio.sleep(0)
        await socket.ask(1, "last", {})

    numbers = [json.loads(frame)["params"]["n"] for frame in echo.frames[1:-1]]
    assert numbers == list(range(1 if size < 1000 else 0, count))


@pytest.mark.parametrize("is_between", [False, True])
async def test_text_that_is_not_utf_8_closes_with_1007_after_what_came_before(*, is_between: bool) -> None:
    echo = Echo()
    async with running_server(echo) as server, socket_to(server) as socket:
        await socket.initialize()
        texts = [b'{"jsonrpc":"2.0","method":"x"}'] * is_between + [b'{"jsonrpc":"2.0","method":"\xff"}']
        socket.connection.transport.write(b"".join(Frame(TEXT, text).serialize(mask=True) for text in texts))

        assert await socket.closed() == 1007
        await echo.ended.wait()

    assert echo.frames[1:] == texts[:-1]


async def test_a_frame_without_a_mask_closes_with_1002() -> None:
    async with running_server(Echo()) as server, socket_to(server) as socket:
        await socket.initialize()
        socket.connection.transport.write(Frame(TEXT, b"{}").serialize(mask=False))

        assert await socket.closed() == 1002


@pytest.mark.fault("WSK-05")
async def test_binary_frames_are_ignored() -> None:
    echo = Echo()
    async with running_server(echo) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.connection.send(json.dumps(INITIALIZE).encode())
        await socket.connection.send(b"\x00\xff")
        await socket.ask(1, "last", {})

    assert len(echo.frames) == 2


async def test_the_first_message_must_be_initialize() -> None:
    async with running_server(Echo()) as server, socket_to(server) as socket:
        await socket.send({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {}})

        assert await socket.closed() == 1002


@pytest.mark.parametrize(("text", "code"), [("nonsense", -32700), ("[]", -32600)])
async def test_an_invalid_message_is_answered_before_and_after_initialize(text: str, code: int) -> None:
    async with running_server(builtin_agent()) as server, socket_to(server) as socket:
        await socket.send(text)
        before = await socket.next()
        await socket.initialize()
        await socket.send(text)
        after = await socket.next()

    assert (before["error"]["code"], before["id"]) == (after["error"]["code"], after["id"]) == (code, None)


@pytest.mark.fault("WSK-12")
async def test_a_client_that_never_sends_initialize_is_disconnected() -> None:
    async with running_server(Echo(), Limits(init_seconds=0.05)) as server, socket_to(server) as socket:
        assert await socket.closed() == 1002


@pytest.mark.fault("WSK-04")
@pytest.mark.parametrize("pieces", [1, 1000])
async def test_a_message_over_the_limit_ends_the_connection(pieces: int) -> None:
    async with running_server(Echo(), Limits(message_bytes=10_000)) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.connection.send(["x" * (20_000 // pieces)] * pieces if pieces > 1 else "x" * 20_000)

        assert await socket.closed() == 1009


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}',
        '{"jsonrpc":"2.0","id":1,"method":"x","m\\u0065thod":"y"}',
        '{"jsonrpc":"2.0","id":1,"method":"x","params":{"sessionId":"a","sessionId":"b"}}',
    ],
)
async def test_a_message_that_two_readers_would_read_differently_is_refused(text: str) -> None:
    echo = Echo()
    async with running_server(echo) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.send(text)
        answer = await socket.next()

    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert len(echo.frames) == 1


async def test_the_agent_ends_with_the_client_that_knows_no_better() -> None:
    echo = Echo()
    async with running_server(echo) as server, socket_to(server) as socket:
        await socket.initialize()
        socket.cut()
        async with asyncio.timeout(60):
            await echo.ended.wait()


async def test_an_agent_that_fails_ends_the_connection_and_only_that(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Echo):
        def answer(self, transport: Transport, message: Json) -> None:
            if message.get("method") == "fail":
                raise RuntimeError("as asked")
            super().answer(transport, message)

    async with running_server(Failing()) as server, socket_to(server) as one, socket_to(server) as other:
        await one.initialize()
        await other.initialize()
        await one.send({"jsonrpc": "2.0", "id": 1, "method": "fail"})

        assert await one.closed() == 1011
        assert (await other.ask(1, "x", {}))["result"] == {}
    assert "as asked" in caplog.text


async def test_an_agent_may_end_the_conversation() -> None:
    class Leaving(Echo):
        async def serve(self, transport: Transport) -> None:
            async with transport:
                await transport.receive()
                transport.send(b'{"jsonrpc":"2.0","id":0,"result":{}}')
                transport.send(b'{"jsonrpc":"2.0","method":"bye"}')

    async with running_server(Leaving()) as server, socket_to(server) as socket:
        await socket.initialize()

        assert (await socket.next())["method"] == "bye"
        assert await socket.closed() == 1000


@pytest.mark.fault("WSK-13")
async def test_a_client_that_does_not_read_is_cut_off_without_affecting_others() -> None:
    class Flooding(Echo):
        most = 0

        async def serve(self, transport: Transport) -> None:
            async with transport:
                while frames := await transport.receive():
                    for frame in frames:
                        message = json.loads(frame)
                        if message["method"] != "flood":
                            self.answer(transport, message)
                            continue
                        for _ in range(1024):
                            transport.send(b'{"jsonrpc":"2.0","method":"x","params":"%b"}' % (b"x" * 1024 * 1024))
                            self.most = max(self.most, transport.pending_bytes)
                            if transport.is_congested:
                                await transport.drain()

    flooding = Flooding()
    async with (
        running_server(flooding, Limits(stall_seconds=0.2)) as server,
        socket_to(server, max_queue=1) as stalled,
        socket_to(server) as other,
    ):
        await stalled.initialize()
        await other.initialize()
        await stalled.send({"jsonrpc": "2.0", "method": "flood"})
        for number in range(100):
            await other.ask(number, "x", {})
        await _until(lambda: server.app.connections.gauges["connections"] == 1)
        stalled.cut()

    assert flooding.most < 64 * 1024 * 1024


async def test_an_agent_that_cannot_wait_for_a_deaf_client_loses_it_at_the_limit() -> None:
    class Rude(Echo):
        def answer(self, transport: Transport, message: Json) -> None:
            if message["method"] == "flood":
                for _ in range(1024):
                    transport.send(b'{"jsonrpc":"2.0","method":"x","params":"%b"}' % (b"x" * 1024 * 1024))
            super().answer(transport, message)

    async with (
        running_server(Rude(), Limits(queued_bytes=16 * 1024 * 1024)) as server,
        socket_to(server, max_queue=1) as stalled,
    ):
        await stalled.initialize()
        await stalled.send({"jsonrpc": "2.0", "method": "flood"})
        await _until(lambda: server.app.connections.gauges["connections"] == 0)
        stalled.cut()


async def _until(is_so: Any) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_client_that_requests_resuming_gets_a_grant_which_the_agent_never_sees() -> None:
    echo = Echo()
    async with running_server(echo) as server, socket_to(server) as socket:
        welcome = await socket.initialize(RESUME_REQUEST)
        other = await socket.ask(1, "x", {})

    assert welcome["_meta"]["duologue/resume"] == {
        "version": 1,
        "connectionId": socket.id,
        "windowBytes": 4 * 1024 * 1024,
        "graceSeconds": 120,
    }
    assert "_meta" not in json.loads(echo.frames[0])["params"]
    assert "_meta" not in other["result"]


async def test_a_browser_brings_its_token_as_a_subprotocol_that_is_never_echoed() -> None:
    token = "abc.DEF-123"
    async with running_server(Echo(), authenticate=lambda given: "page" if given == token else None) as server:
        names = ["acp", f"duologue.token.{token}"]
        async with socket_to(server, additional_headers={}, subprotocols=names, origin=server.base) as socket:
            await socket.initialize()

            assert socket.connection.subprotocol == "acp"
            assert token not in str(socket.connection.response and socket.connection.response.headers)


async def test_many_numbers_arrive_in_order() -> None:
    async with running_server(Counting()) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.send({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"to": 2000}})
        numbers = [(await socket.next())["params"]["n"] for _ in range(2000)]

    assert numbers == list(range(2000))


async def test_more_connections_than_the_limit_are_sent_away() -> None:
    async with (
        running_server(Echo(), Limits(connections=1)) as server,
        socket_to(server) as one,
        socket_to(server) as other,
    ):
        await one.initialize()
        await other.send(INITIALIZE)

        assert await other.closed() == 1013


async def test_an_unknown_path_has_no_sockets() -> None:
    async with running_server(Echo()) as server:
        unknown_url = f"{server.ws}/elsewhere"
        with pytest.raises(InvalidStatus) as refusal:
            from websockets.asyncio.client import connect

            await connect(unknown_url, additional_headers=bearer(TOKEN), proxy=None)

    assert refusal.value.response.status_code == 404


@pytest.mark.parametrize("size", [0, 1, 60, 61, 62, 63, 125, 126, 127, 65_400, 65_535, 65_536, 1_000_000])
async def test_messages_of_every_length_arrive_whole(size: int) -> None:
    """The length of a message is written in one of three ways."""

    class Sized(Echo):
        def answer(self, transport: Transport, message: Json) -> None:
            if message["method"] == "tell":
                for character in (b"x", "é".encode()):
                    transport.send(b'{"jsonrpc":"2.0","method":"told","params":"%b"}' % (character * size))
            super().answer(transport, message)

    async with running_server(Sized()) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.send({"jsonrpc": "2.0", "method": "tell"})
        params = [(await socket.next())["params"] for _ in range(2)]

    assert params == ["x" * size, "é" * size]


async def test_invalid_utf_8_of_an_agent_arrives_as_text() -> None:
    class Careless(Echo):
        def answer(self, transport: Transport, message: Json) -> None:
            if message["method"] == "tell":
                transport.send(b'{"jsonrpc":"2.0","method":"told","params":"\xff"}')
            super().answer(transport, message)

    async with running_server(Careless()) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.send({"jsonrpc": "2.0", "method": "tell"})

        assert (await socket.next())["params"] == "\ufffd"


async def test_an_answer_that_looks_like_an_update_still_is_one() -> None:
    """Whether a request is answered decides what is idle, and when a server may stop."""

    class Odd(Echo):
        def answer(self, transport: Transport, message: Json) -> None:
            transport.send(b'{"jsonrpc":"2.0","method":"told","params":{"text":"\\"id\\":"}}')
            transport.send(b'{"jsonrpc":"2.0","result":{},"id":%d}' % message["id"])

    async with running_server(Odd()) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.ask(1, "x", {})

        assert server.app.connections.gauges == {"connections": 1, "requests_running": 0}


async def test_a_batch_keeps_the_order_of_updates_and_responses() -> None:
    class Batching(Echo):
        def answer(self, transport: Transport, message: Json) -> None:
            if message.get("method") != "batch":
                super().answer(transport, message)
                return
            update = b'{"jsonrpc":"2.0","method":"n","params":{"n":%d}}'
            response = b'{"jsonrpc":"2.0","id":%d,"result":{}}'
            long = update.replace(b'"n":%d', b'"n":%d,"text":"' + b"x" * 3000 + b'"')
            transport.send_many([update % 0, update % 1, response % 7, long % 2, b'{"params":{"n":3},"method":"n"}'])

    async with running_server(Batching()) as server, socket_to(server) as socket:
        await socket.ask(0, "initialize", {"protocolVersion": 1})
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "batch"}))
        messages = [await socket.next() for _ in range(5)]
        [connection] = server.app.connections.all()
        running = len(connection.running)

    assert [message.get("params", {}).get("n", "response") for message in messages] == [0, 1, "response", 2, 3]
    assert running == 0
