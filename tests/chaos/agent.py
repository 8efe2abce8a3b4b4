"""An agent to be killed: it streams, waits, starts a process of its own, and never cleans up."""

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
    """Start a process in a session of its own, so that it outlives a kill of the process group."""
    nowhere = subprocess.DEVNULL
    subprocess.Popen(["sleep", "1000"], stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)


@handlers.on(HELLO)
async def hello(context: Context, params: Params) -> Params:
    start_grandchild()
    return params


@handlers.on(PROMPT)
async def prompt(context: Context, params: Params) -> Params:
    """Send this many updates as fast as the peer reads them; without a number, send them slowly and forever."""
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
