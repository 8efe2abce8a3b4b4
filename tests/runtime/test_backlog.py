"""A long backlog is kept as frames, and handled as if it had been kept decoded."""

from __future__ import annotations

import asyncio

from duologue.runtime.connection import Connection
from duologue.runtime.dispatcher import MAX_READ_BYTES
from duologue.runtime.handlers import Context, Handlers
from duologue.transports.memory import memory_pair
from tests.runtime.messages import UPDATE, Update, frame

COUNT = 2 * MAX_READ_BYTES // 1000


async def test_notifications_behind_a_long_backlog_are_decoded_again_in_order() -> None:
    handlers = Handlers()
    gate, done = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    @handlers.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        await gate.wait()
        seen.append(params.text)
        if len(seen) == COUNT:
            done.set()

    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(near, handlers) as connection:
        for number in range(COUNT):
            far.send(frame(method="update", params={"sessionId": "s", "text": f"{number:01000}"}))
        far.send(frame(id=1, method="last"))
        await far.receive()
        waiting = connection._queues._queues["s"].items
        decoded = [params for _, _, params, _ in waiting if params is not None]
        assert 0 < len(decoded) * 1000 <= MAX_READ_BYTES
        assert len(waiting) > 1.5 * len(decoded)
        gate.set()
        await done.wait()

    assert [int(text) for text in seen] == list(range(COUNT))
