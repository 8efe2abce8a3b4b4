"""A remote agent as a local command: the same frames at both ends, and every request is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from duologue.errors import ConnectionLost, StartError
from duologue.relay.stdio_proxy import StdioProxy
from duologue.transports.base import Transport
from duologue.transports.memory import MemoryTransport, memory_pair
from tests.transports.waiting import until

ODD = [
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":12345678901234567890.10,"n":2}}',
    b' {"id" : "x" ,\t"jsonrpc":"2.0","method":"b"} ',
    '{"jsonrpc":"2.0","method":"ü","params":["🎈",null]}'.encode(),
    b"not even JSON",
    b"[]",
]


class Far:
    """Both ends of the connection to the remote agent."""

    def __init__(self) -> None:
        self.near, self.far = memory_pair()

    def open(self) -> Transport:
        return self.near


@asynccontextmanager
async def proxied(proxy: StdioProxy) -> AsyncGenerator[MemoryTransport]:
    """Serve an editor through the proxy; yield the editor's end."""
    client, ours = memory_pair()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        serving = group.create_task(proxy.serve(ours))
        yield client
        await serving


async def take(transport: Transport, count: int) -> list[bytes]:
    frames: list[bytes] = []
    while len(frames) < count:
        frames += await transport.receive()
    return frames


async def test_frames_pass_in_both_directions_byte_for_byte() -> None:
    far = Far()
    async with proxied(StdioProxy(far.open)) as client:
        for frame in ODD:
            client.send(frame)
        assert await take(far.far, len(ODD)) == ODD
        for frame in ODD:
            far.far.send(frame)
        assert await take(client, len(ODD)) == ODD
        far.far.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        far.far.send(b'{"jsonrpc":"2.0","id":"x","result":{}}')
        await take(client, 2)
        await client.aclose()
    assert await far.far.receive() == []


async def test_line_ends_inside_a_message_do_not_cut_it_in_two_for_the_editor() -> None:
    far = Far()
    async with proxied(StdioProxy(far.open)) as client:
        far.far.send(b'{\n "jsonrpc": "2.0",\r\n "method": "a"\n}')
        [frame] = await take(client, 1)
        assert b"\n" not in frame
        assert json.loads(frame) == {"jsonrpc": "2.0", "method": "a"}
        await client.aclose()


async def test_an_editor_that_leaves_still_gets_what_is_being_answered() -> None:
    far = Far()
    proxy = StdioProxy(far.open)
    async with proxied(proxy) as client:
        client.send(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
        await take(far.far, 1)
        far.far.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        assert len(await take(client, 1)) == 1
        await client.aclose()
    assert proxy.failure is None


@pytest.mark.fault("REC-12")
async def test_an_agent_that_is_lost_leaves_no_request_unanswered() -> None:
    far = Far()
    proxy = StdioProxy(far.open)
    async with proxied(proxy) as client:
        client.send(b'{"jsonrpc":"2.0","id":1,"method":"a"}')
        client.send(b'{"jsonrpc":"2.0","id":"two","method":"b"}')
        client.send(b'{"jsonrpc":"2.0","method":"c"}')
        await take(far.far, 3)
        far.far.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        await far.far.aclose()
        answers = [json.loads(frame) for frame in await take(client, 2)]
    assert answers[0] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (answers[1]["id"], answers[1]["error"]["code"]) == ("two", -32603)
    assert "the agent is lost" in answers[1]["error"]["message"]
    assert isinstance(proxy.failure, ConnectionLost)


async def test_an_unreachable_agent_is_an_error_in_the_response_to_the_first_request() -> None:
    def fail() -> Transport:
        raise StartError("no server there")

    proxy = StdioProxy(fail)
    async with proxied(proxy) as client:
        client.send(b'{"jsonrpc":"2.0","method":"hello"}')
        client.send(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}')
        [answer] = await take(client, 1)
    assert json.loads(answer)["error"]["message"] == "no server there"
    assert str(proxy.failure) == "no server there"


async def test_an_editor_that_stops_reading_has_left() -> None:
    far = Far()
    proxy = StdioProxy(far.open)
    client, ours = memory_pair()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        serving = group.create_task(proxy.serve(ours))
        client.send(b'{"jsonrpc":"2.0","method":"a"}')
        await take(far.far, 1)
        far.far.send(b'{"jsonrpc":"2.0","method":"b"}')
        await client.aclose()
        await serving
    assert proxy.failure is None


async def test_neither_side_is_flooded_by_the_other() -> None:
    near, far = memory_pair(bound=1000)
    proxy = StdioProxy(lambda: near)
    client, ours = memory_pair(bound=1000)
    frame = b'{"jsonrpc":"2.0","method":"%s"}' % (b"x" * 900)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        serving = group.create_task(proxy.serve(ours))
        for sender, receiver in ((client, far), (far, client)):
            for _ in range(20):
                sender.send(frame)
                if sender.is_congested:
                    drained = group.create_task(sender.drain())
                    await take(receiver, 1)
                    await drained
        await client.aclose()
        await serving


async def test_a_remote_side_that_breaks_while_the_editor_waits_for_room_is_a_failure_and_no_crash() -> None:
    near, far = memory_pair(bound=100)
    proxy = StdioProxy(lambda: near)
    async with proxied(proxy) as client:
        client.send(b'{"jsonrpc":"2.0","id":1,"method":"%s"}' % (b"x" * 200))
        await until(lambda: near.is_congested)
        await far.aclose()
        [answer] = await take(client, 1)
        assert json.loads(answer)["error"]["code"] == -32603
    assert isinstance(proxy.failure, ConnectionLost)
