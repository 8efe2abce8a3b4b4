"""Frame observers see every frame and change nothing."""

from __future__ import annotations

import asyncio

import pytest

from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.transports.memory import memory_pair
from tests.runtime.messages import PING, UPDATE, Ping, Update, frame


async def test_an_observer_sees_every_frame_of_both_directions_good_or_bad(caplog: pytest.LogCaptureFixture) -> None:
    agent_side = Handlers()
    seen: list[tuple[str, bytes]] = []

    def watch(direction: str, frame: bytes) -> None:
        seen.append((direction, frame))

    def fail(direction: str, frame: bytes) -> None:
        raise ValueError("an observer that breaks")

    @agent_side.on(PING)
    async def ping(context: Context, params: Ping) -> Ping:
        await context.connection.notify(UPDATE, Update(session_id="s", text=""))
        return params

    incoming = [frame(id=1, method="ping", params={"text": "a"}), b"not json", frame(method="unknown")]
    near, far = memory_pair()
    outgoing: list[bytes] = []
    async with asyncio.timeout(60), Connection(far, agent_side, observers=(fail, watch)), near:
        for frame_in in incoming:
            near.send(frame_in)
        while len(outgoing) < 3:
            outgoing += await near.receive()
    assert [frame for direction, frame in seen if direction == "in"] == incoming
    assert [frame for direction, frame in seen if direction == "out"] == outgoing
    assert outgoing[-1] == b'{"jsonrpc":"2.0","id":1,"result":{"text":"a"}}'
    assert caplog.text.count("a frame observer failed") == len(seen)
