"""Connections that survive a broken network: nothing is lost or repeated, and a gap is always reported."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue import connect
from duologue.builtin.agent import builtin_agent
from duologue.errors import ResumeFailed
from duologue.transports.base import Transport
from duologue.transports.resume.buffers import ReplayBuffer
from duologue.transports.server.http_streams import HttpServerConnection
from duologue.transports.server.limits import Limits
from duologue.transports.server.server_sent_events import ServerSentEvents
from duologue.transports.server.websocket import WebSocketServerConnection
from duologue.transports.server.websocket_frames import WebSocketFrames
from tests.transports.server.servers import (
    RESUME_REQUEST,
    TOKEN,
    Counting,
    Echo,
    Json,
    RunningServer,
    Socket,
    http_client_to,
    running_server,
    socket_to,
)


def resume_message(id: str, received: Any) -> Json:
    return {"jsonrpc": "2.0", "method": "_duologue/resume", "params": {"connectionId": id, "received": received}}


@asynccontextmanager
async def resumed(server: RunningServer, id: str, received: Any) -> AsyncGenerator[tuple[Socket, Json]]:
    """Open a new socket and resume an earlier connection; return the server's answer."""
    async with socket_to(server) as socket:
        await socket.send(resume_message(id, received))
        yield socket, await socket.next()


class Paced(Echo):
    """Send numbers one at a time, and answer at the end; `ask` sends a request first."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[int, int]] = []
        """Each number with the request that it is for, in the order in which they were sent."""

    async def serve(self, transport: Transport) -> None:
        async with transport, asyncio.TaskGroup() as group:
            while frames := await transport.receive():
                for frame in frames:
                    self.frames.append(frame)
                    message: Json = json.loads(frame)
                    if message.get("method") == "count":
                        group.create_task(self.count(transport, message))
                    elif message.get("method") == "ask":
                        transport.send(b'{"jsonrpc":"2.0","id":"q","method":"question"}')
                    else:
                        self.answer(transport, message)
        self.ended.set()

    async def count(self, transport: Transport, message: Json) -> None:
        for number in range(message["params"]["to"]):
            of = message["id"]
            self.sent.append((of, number))
            transport.send(b'{"jsonrpc":"2.0","method":"number","params":{"n":%d,"of":%d}}' % (number, of))
            await asyncio.sleep(0)
        self.answer(transport, message)


@pytest.mark.fault("REC-01", "REC-02", "REC-05")
async def test_every_event_comes_once_and_in_order_however_often_the_network_is_cut(
    record_property: Any, chaos_factor: int
) -> None:
    cuts = [1, 7, 40, 200] if chaos_factor == 1 else range(1, 201)
    for every in cuts:
        most = 20 if chaos_factor == 1 and every == 1 else 200
        async with running_server(Paced()) as server:
            numbers = await _count_with_cuts(server, most, every)

        assert numbers == list(range(most))
    record_property("count", len(cuts))


async def _count_with_cuts(server: RunningServer, to: int, every: int) -> list[int]:
    """Return the numbers received by a client that loses its socket after every few."""
    numbers: list[int] = []
    received = 0
    async with socket_to(server) as socket:
        await socket.initialize(RESUME_REQUEST)
        id = socket.id
        await socket.send({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"to": to}})
        for _ in range(every):
            numbers.append((await socket.next())["params"]["n"])
            received += 1
        socket.cut()
    while True:
        async with resumed(server, id, received) as (socket, answer):
            assert answer == {"jsonrpc": "2.0", "method": "_duologue/resumed", "params": {"received": 1}}
            for _ in range(every):
                message = await socket.next()
                received += 1
                if "result" in message:
                    return numbers
                numbers.append(message["params"]["n"])
            socket.cut()


@pytest.mark.fault("REC-08")
async def test_a_turn_cut_a_thousand_times_reads_like_one_that_was_not(record_property: Any, chaos_factor: int) -> None:
    cuts = 10 * chaos_factor
    chance = random.Random(8)
    async with running_server(paced := Paced(), Limits(window_frames=50 * cuts), seconds=600) as server:
        numbers: list[tuple[int, int]] = []
        received = sent = 0
        async with socket_to(server) as socket:
            await socket.initialize(RESUME_REQUEST)
            id = socket.id
            socket.cut()
        for _ in range(cuts):
            async with resumed(server, id, received) as (socket, answer):
                assert answer["params"]["received"] <= sent
                for again in range(answer["params"]["received"], sent):
                    await socket.send(_count(again))
                await socket.send(_count(sent))
                sent += 1
                for _ in range(min(21 * sent - received, chance.randrange(45))):
                    message = await socket.next()
                    received += 1
                    if "method" in message:
                        numbers.append((message["params"]["of"], message["params"]["n"]))
                socket.cut()
        async with resumed(server, id, received) as (socket, answer):
            for again in range(answer["params"]["received"], sent):
                await socket.send(_count(again))
            while len(numbers) < 20 * sent:
                message = await socket.next()
                if "method" in message:
                    numbers.append((message["params"]["of"], message["params"]["n"]))

    assert numbers == paced.sent
    assert sorted(numbers) == [(request, number) for request in range(1, sent + 1) for number in range(20)]
    record_property("count", cuts)


def _count(id: int) -> Json:
    return {"jsonrpc": "2.0", "id": id + 1, "method": "count", "params": {"to": 20}}


@pytest.mark.fault("REC-03")
@pytest.mark.parametrize("received", [-1, 10_000, "3", 2.5, None, True, [], "unknown"])
async def test_a_position_that_makes_no_sense_is_history_lost(received: Any) -> None:
    async with running_server(Counting()) as server:
        async with socket_to(server) as socket:
            await socket.initialize(RESUME_REQUEST)
            await socket.ask(1, "count", {"to": 5})
            socket.cut()
        id = "unknown" if received == "unknown" else socket.id
        async with resumed(server, id, received) as (socket, answer):
            assert answer["method"] == "_duologue/lost"
            assert "load the session" in answer["params"]["reason"]
            assert await socket.closed() == 4410


@pytest.mark.fault("REC-03")
async def test_frames_dropped_from_the_window_are_reported_as_lost() -> None:
    paced = Paced()
    async with running_server(paced, Limits(window_frames=10)) as server:
        async with socket_to(server) as socket:
            await socket.initialize(RESUME_REQUEST)
            id = socket.id
            await socket.send({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"to": 100}})
            await socket.next()
            socket.cut()
        await _until(lambda: server.app.connections.gauges["requests_running"] == 0)
        async with resumed(server, id, 1) as (socket, answer):
            assert answer["method"] == "_duologue/lost"
        async with asyncio.timeout(60):
            await paced.ended.wait()


@pytest.mark.parametrize("transport", ["ws", "http"])
async def test_an_agent_that_can_wait_waits_for_a_resuming_client_and_nothing_is_lost(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many more updates than the window holds are sent while no client is connected."""
    # The agent continues when the client acknowledges what it has, not when a timer ends.
    monkeypatch.setattr("duologue.transports.remote.websocket.ACKNOWLEDGE_SECONDS", 3600.0)
    # HTTP has no acknowledgements, so the window has to hold all that is on its way.
    async with running_server(builtin_agent(), Limits(window_frames=500 if transport == "ws" else 5000)) as server:
        async with connect(getattr(server, transport), token=TOKEN) as agent:
            turn = (await agent.new_session("/")).prompt("/stream 3000")
            numbers = 0
            async for _ in turn:
                numbers += 1
                if numbers % 500 == 0:
                    _cut_all(server)
            text = (await turn).text

    assert text.split() == [str(number) for number in range(3000)]


@pytest.mark.fault("REC-04")
async def test_a_question_is_asked_again_after_a_cut_and_answered_once() -> None:
    paced = Paced()
    async with running_server(paced) as server:
        async with socket_to(server) as socket:
            await socket.initialize(RESUME_REQUEST)
            await socket.send({"jsonrpc": "2.0", "method": "ask"})
            first = await socket.next()
            socket.cut()
        async with resumed(server, socket.id, 0) as (back, _):
            again = await back.next()
            await back.send({"jsonrpc": "2.0", "id": "q", "result": "yes"})
            await back.ask(1, "x", {})

    assert first == again
    assert [json.loads(frame).get("result") for frame in paced.frames].count("yes") == 1


@pytest.mark.fault("REC-07")
async def test_of_two_sockets_that_resume_at_once_the_newer_wins_and_the_other_is_closed() -> None:
    async with running_server(Counting()) as server, socket_to(server) as first:
        await first.initialize(RESUME_REQUEST)
        async with resumed(server, first.id, 0) as (second, _), resumed(server, first.id, 0) as (third, _):
            assert (await first.closed(), await second.closed()) == (4409, 4409)
            assert "result" in await third.ask(1, "count", {"to": 3})


@pytest.mark.fault("WSK-09")
async def test_a_connection_that_is_cut_keeps_its_agent_and_its_turn_for_a_while() -> None:
    paced = Paced()
    async with running_server(paced, Limits(grace_seconds=0.1)) as server, socket_to(server) as socket:
        await socket.initialize(RESUME_REQUEST)
        await socket.send({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"to": 20}})
        socket.cut()
        await _until(lambda: server.app.connections.gauges == {"connections": 1, "requests_running": 0})
        async with asyncio.timeout(60):
            await paced.ended.wait()


async def test_a_client_that_closes_properly_is_not_waited_for() -> None:
    echo = Echo()
    async with running_server(echo) as server:
        async with socket_to(server) as socket:
            await socket.initialize(RESUME_REQUEST)
        async with asyncio.timeout(60):
            await echo.ended.wait()


async def test_the_server_says_what_it_has_and_forgets_what_the_client_has() -> None:
    async with running_server(Counting(), Limits(acknowledge_frames=3)) as server, socket_to(server) as socket:
        await socket.initialize(RESUME_REQUEST)
        for number in range(7):
            await socket.ask(number + 1, "x", {})
        await socket.send({"jsonrpc": "2.0", "method": "_duologue/received", "params": {"count": 5}})
        await socket.ask(99, "x", {})
        socket.cut()
        async with resumed(server, socket.id, 4) as (_, answer):
            assert answer["method"] == "_duologue/lost"

    assert [message["params"]["count"] for message in socket.control] == [3, 6]


async def test_the_server_says_what_it_has_after_a_while_anyway() -> None:
    async with (
        running_server(Echo(), Limits(acknowledge_seconds=0.0, stall_seconds=0.1)) as server,
        socket_to(server) as socket,
    ):
        await socket.initialize(RESUME_REQUEST)
        await socket.send({"jsonrpc": "2.0", "method": "x"})
        async with asyncio.timeout(60):
            control = json.loads(await socket.connection.recv())

    assert control == {"jsonrpc": "2.0", "method": "_duologue/received", "params": {"count": 1}}


async def test_a_client_that_did_not_request_resuming_cannot_resume() -> None:
    async with running_server(Echo()) as server, socket_to(server) as socket:
        await socket.initialize()
        for received in (0, 1):
            async with resumed(server, socket.id, received) as (back, answer):
                assert answer["method"] == "_duologue/lost"
                assert await back.closed() == 4410
        assert (await socket.ask(1, "x", {}))["id"] == 1  # nor can another client end it


async def test_words_about_the_connection_reach_the_agent_of_who_does_not_know_them() -> None:
    echo = Echo()
    async with running_server(echo) as server, socket_to(server) as socket:
        await socket.initialize()
        await socket.send({"jsonrpc": "2.0", "method": "_duologue/received", "params": {"count": 5}})
        await socket.ask(1, "x", {})

    assert b"_duologue/received" in echo.frames[1]


async def test_our_client_tells_one_whole_story_through_many_cuts() -> None:
    texts: list[str] = []
    for cut_every in (1000, 40):
        async with running_server(builtin_agent()) as server, connect(server.ws, token=TOKEN) as agent:
            turn = (await agent.new_session("/")).prompt("/stream 400")
            numbers = 0
            async for _ in turn:
                numbers += 1
                if numbers % cut_every == 0:
                    _cut_all(server)
            texts.append((await turn).text)

    assert texts[0] == texts[1] != ""


def _cut_all(server: RunningServer) -> None:
    for held in server.app.connections.all():
        if isinstance(held, WebSocketServerConnection) and held.handler is not None:
            held.handler.abort()
        if isinstance(held, HttpServerConnection):
            held.abort()


async def test_our_client_reports_that_it_resumed_too_late() -> None:
    async with running_server(builtin_agent()) as server, connect(server.ws, token=TOKEN) as agent:
        [held] = server.app.connections.all()
        _cut_all(server)
        held.end()
        with pytest.raises(ResumeFailed):
            await agent.new_session("/")


@pytest.mark.fault("REC-01", "REC-03")
async def test_over_http_events_are_numbered_and_a_gap_is_reported() -> None:
    async with running_server(Counting(), Limits(window_frames=20)) as server, http_client_to(server) as client:
        await client.initialize(RESUME_REQUEST)
        await client.post({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"to": 10}})
        numbers: list[int] = []
        last = 0
        while len(numbers) < 10:
            async with client.listen(last=last) as events:
                numbers.append((await events.next())["params"]["n"])
                last = events.last
        statuses: dict[str, int] = {}
        for position in ("12", "-1", "x", "1.0", "", "1_0", "1" * 30):
            async with client.listen(last=position) as events:
                statuses[position] = events.status

    assert numbers == list(range(10))
    assert set(statuses.values()) == {410}


async def test_over_http_a_connection_without_readers_is_kept_for_a_while() -> None:
    echo = Echo()
    async with running_server(echo, Limits(grace_seconds=0.1)) as server, http_client_to(server) as client:
        await client.initialize(RESUME_REQUEST)
        async with client.listen() as events:
            await client.post({"jsonrpc": "2.0", "id": 1, "method": "x"})
            await events.next()
            assert not echo.ended.is_set()
        async with asyncio.timeout(60):
            await echo.ended.wait()


async def _until(is_so: Any) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_small_window_is_acknowledged_in_time() -> None:
    """The server waits at half of its window, and without an acknowledgement for seconds."""
    async with running_server(builtin_agent(), Limits(window_bytes=32 * 1024)) as server:
        async with asyncio.timeout(60), connect(server.ws, token=TOKEN) as agent:
            turn = (await agent.new_session("/")).prompt("/stream 5000")

            assert len([event async for event in turn]) >= 5000


class Lines:
    """Write each frame as a line."""

    @staticmethod
    def encode(frames: list[bytes], first: int) -> bytes:
        return b"".join(b"%b\n" % frame for frame in frames)

    @staticmethod
    def offsets(data: bytes) -> list[int]:
        return [0, *(at + 1 for at, byte in enumerate(data[:-1]) if byte == ord("\n"))]


def test_a_replay_buffer_reports_frames_that_it_dropped() -> None:
    window = ReplayBuffer(100, 5, Lines, stores_sent=True)
    for number in range(1, 9):
        window.append(b"%d" % number)

    assert [window.take(2) for _ in range(4)] == [b"1\n2\n", b"3\n4\n", b"5\n6\n", b"7\n8\n"]
    assert window.take(100) == b""
    assert not window.rewind(2)
    assert not window.rewind(9)
    assert window.rewind(3)
    assert (window.take(1), window.last_taken) == (b"4\n", 4)
    window.acknowledge(3)
    assert window.rewind(3)
    assert window.take(1) == b"4\n"
    window.acknowledge(4)
    assert window.rewind(4)
    assert not window.rewind(3)


def test_a_window_keeps_what_was_never_sent_as_long_as_it_can() -> None:
    window = ReplayBuffer(100, 3, Lines, stores_sent=True)
    for number in range(1, 4):
        window.append(b"%d" % number)
    window.take(1)
    window.trim()

    assert (window.has_gap, window.rewind(0)) == (False, True)
    window.take(1)
    for number in range(4, 7):
        window.append(b"%d" % number)
    window.trim()
    assert (window.has_gap, window.rewind(1), window.rewind(3), window.stored_bytes) == (True, False, True, 3)
    window.forget()
    assert (window.stored_bytes, window.last_taken, window.has_gap) == (0, 6, False)


def test_a_window_goes_back_to_any_frame_of_what_was_written_together() -> None:
    for encoding in (WebSocketFrames, ServerSentEvents):
        frames = [b'{"n":%d,"x":"%b"}' % (number, b"x" * (number * 37)) for number in range(1, 251)]
        window = ReplayBuffer(10_000_000, 250, encoding, stores_sent=True)
        window.extend(frames, sum(map(len, frames)))
        whole = window.take(10_000_000)

        for number in range(250):
            assert window.rewind(number)
            assert window.take(1) == encoding.encode(frames[number:], number + 1)
            assert whole.endswith(encoding.encode(frames[number:], number + 1))


@given(steps=st.lists(st.tuples(st.sampled_from(["send", "take", "acknowledge", "rewind"]), st.integers(0, 12))))
def test_a_window_gives_back_exactly_what_a_list_of_all_frames_would(steps: list[tuple[str, int]]) -> None:
    window = ReplayBuffer(60, 9, ServerSentEvents, stores_sent=True)
    frames: list[bytes] = []
    taken = 0
    for step, number in steps:
        if step == "send":
            new = [b"%d" % each for each in range(len(frames), len(frames) + number)]
            frames += new
            window.extend(new, sum(map(len, new)))
        elif step == "take":
            data = window.take(number + 1)
            count = data.count(b"\n\n")
            expected = frames[taken : taken + count]
            assert data == ServerSentEvents.encode(expected, taken + 1) if count else data == b""
            taken += count
        elif step == "acknowledge":
            window.acknowledge(min(number, taken))
        elif window.rewind(number):
            assert number <= taken
            taken = number
        assert (window.last_taken, window.newest) == (taken, len(frames))
        assert window.stored_bytes - window.waiting_bytes <= 60


@given(first=st.integers(1, 1200), count=st.integers(1, 350))
def test_events_have_the_numbers_of_their_frames(first: int, count: int) -> None:
    data = ServerSentEvents.encode([b"{}"] * count, first)

    assert data == b"".join(b"id: %d\ndata: {}\n\n" % number for number in range(first, first + count))
    assert [data[at:].partition(b"\n")[0] for at in ServerSentEvents.offsets(data)[-2:]] == [
        b"id: %d" % number for number in range(first, first + count)
    ][-2:]
