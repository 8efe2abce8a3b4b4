"""A client to be killed: it starts the agent of this package, and keeps it busy."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.transports.process.transport import ProcessTransport
from tests.chaos.agent import HELLO, HOLD, PROMPT, UPDATE, Params

handlers = Handlers()


@handlers.on(UPDATE)
async def update(context: Context, params: Params) -> None:
    await asyncio.sleep(0)


async def main() -> None:
    sys.stdout.write("started\n")
    sys.stdout.flush()
    transport = ProcessTransport([sys.executable, str(Path(__file__).with_name("agent.py"))])
    async with Connection(transport, handlers, ignore_stray_output=True) as connection:
        await connection.request(HELLO, Params())
        sys.stdout.write("busy\n")
        sys.stdout.flush()
        await asyncio.gather(connection.request(PROMPT, Params()), connection.request(HOLD, Params()))


if __name__ == "__main__":
    asyncio.run(main())
