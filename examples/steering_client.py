"""A client that steers a running turn, and queues the text if the agent cannot take it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from duologue import connect
from duologue.events import Text

AGENT = [sys.executable, str(Path(__file__).with_name("steered_agent.py"))]


async def main() -> None:
    async with connect(AGENT) as agent, agent.new_session(".") as session:
        queued = None
        async with session.prompt("write about tests") as turn:
            async for event in turn:
                if isinstance(event, Text):
                    print(event.text, end="")
                    if event.text.startswith("2."):
                        result = await turn.steer("use pytest", otherwise="queue")
                        print(f"[{result.outcome}]")
                        queued = result.turn
        if queued is not None:  # it was not taken: it is the next prompt
            print((await queued).text)


if __name__ == "__main__":
    asyncio.run(main())
