"""An agent for killing: it streams, it waits, it starts a process of its own, and it never tidies up by itself."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method, Model, Notification
from duologue.transports.stdio.stdio import StdioTransport


class Params(Model, frozen=True, kw_only=True):
    session_id: str = "s"
    count: int = 0


HELLO = Method("initialize", Params, Params)
PROMPT = Method("prompt", Params, Params, in_order=True)
HOLD = Method("hold", Params, Params)
UPDATE = Notification("update", Params)

handlers = Handlers()


def start_grandchild() -> None:
    """In a session of its own, so that it outlives whoever does not look for it."""
    nowhere = subprocess.DEVNULL
    subprocess.Popen(["sleep", "1000"], stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)


@handlers.on(HELLO)
async def hello(context: Context, params: Params) -> Params:
    start_grandchild()
    return params


@handlers.on(PROMPT)
async def prompt(context: Context, params: Params) -> Params:
    """So many updates, as fast as the peer takes them; or one after the other, for ever, if no number is given."""
    number = 0
    while not params.count or number < params.count:
        await context.connection.notify(UPDATE, Params(session_id=params.session_id, count=number))
        number += 1
        if not params.count:
            await asyncio.sleep(0.0005)
    return params


@handlers.on(HOLD)
async def hold(context: Context, params: Params) -> Any:
    await asyncio.Event().wait()


async def main() -> None:
    async with Connection(StdioTransport(), handlers, first_method="initialize") as connection:
        await connection.wait_closed()


if __name__ == "__main__":
    asyncio.run(main())
