"""An agent that prints wherever it can, and does what its prompt says."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from duologue import Agent, Settings, Turn

agent = Agent("noisy", version="1.0", settings=Settings)


@agent.on_prompt
async def answer(turn: Turn[Settings]) -> None:
    print("printed in a turn")
    sys.stdout.write("written without a newline")
    os.write(1, b"written to the descriptor\n")
    subprocess.run(["echo", "echoed by a child"], check=True)  # noqa: ASYNC221
    logging.getLogger("noisy").warning("logged in a turn")
    await turn.say(turn.text)
    match turn.text:
        case "wait":
            await asyncio.Event().wait()
        case "run":
            await turn.run("sleep", "300")
        case "ask":
            async with turn.tool("Ask") as tool:
                await tool.request_permission()
        case "ignore":
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    pass
        case "thread":
            await asyncio.to_thread(time.sleep, 300)
        case "leave":
            # Started without an owner.
            turn.session.state["task"] = None
            asyncio.get_running_loop().create_task(_never())
        case _:
            pass


async def _never() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


if __name__ == "__main__":
    if len(sys.argv) > 1:
        agent.persist_sessions(Path(sys.argv[1]))
    agent.run()
