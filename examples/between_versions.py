"""A client of version 1 and an agent of version 2: a bridge between them, and neither notices."""

from __future__ import annotations

import asyncio
import sys

from duologue import Agent, Turn, connect
from duologue.lowlevel import Bridge, ProcessTransport

agent = Agent("newer", protocol_versions=(2,))


@agent.on_prompt
async def answer(turn: Turn) -> None:
    await turn.say(f"You said {turn.text}.")


async def main() -> None:
    bridge = Bridge(lambda: ProcessTransport([sys.executable, __file__, "--serve"]), version=1, agent_version=2)
    async with connect(bridge, protocol_versions=(1,)) as remote, remote.new_session(".") as session:
        print(f"version {remote.version}: {await session.ask('hello')}")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        agent.run()
    else:
        asyncio.run(main())
