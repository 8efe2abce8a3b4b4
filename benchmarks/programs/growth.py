"""CPU of one update with many sessions, items or tool calls open: `growth.py KIND AMOUNT UPDATES` prints microseconds.

Both sides are in this process, connected in memory. `sessions` opens so many, `items` has a transcript of so many, and
`tools` leaves so many tool calls open; then come the updates of one session, which are measured.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from contextlib import AsyncExitStack

from benchmarks.pair import Modes, transports
from benchmarks.wire import CHUNK_TEXTS
from duologue import Agent, Turn, connect
from duologue.client.session import ClientSession
from duologue.conversation.session_setup import Implementation

WARM_UP = 500
agent = Agent("benchmark", settings=Modes)


@agent.on_prompt
async def answer(turn: Turn[Modes]) -> None:
    word, amount, updates = turn.text.split()
    async with AsyncExitStack() as stack:
        for number in range(int(amount)):
            if word == "tools":
                await stack.enter_async_context(turn.tool(f"Tool {number}", kind="read"))
            else:
                await turn.say("x", message_id=f"message-{number}")
        await turn.say("warm", message_id="m")
        for number in range(WARM_UP + int(updates)):
            await turn.say(CHUNK_TEXTS[number % len(CHUNK_TEXTS)], message_id="m")
        await asyncio.Event().wait()  # until the client has read them: ending the tool calls is not measured


async def stream(session: ClientSession, word: str, amount: int, updates: int) -> float:
    """Microseconds of CPU for each update after the warm-up."""
    seen, began = 0, 0.0
    async with session.prompt(f"{word} {amount} {updates}") as turn:
        async for event in turn:
            if getattr(event, "message_id", None) == "m":
                seen += 1
                if seen == WARM_UP:
                    gc.collect()
                    began = time.process_time()
                if seen == WARM_UP + updates:
                    return (time.process_time() - began) / updates * 1e6
    raise SystemExit(f"{seen} updates came")


async def main(kind: str, amount: int, updates: int) -> dict[str, float]:
    near, far = transports("memory")
    async with asyncio.timeout(110):
        serving = asyncio.create_task(agent.serve(far))
        info = Implementation("benchmark", "1")
        async with connect(near, client_info=info, max_transcript_bytes=None) as remote:
            session = await remote.new_session("/tmp")
            if kind == "sessions":
                for _ in range(amount - 1):
                    await remote.new_session("/tmp")
                amount = 0
            cost = await stream(session, kind, amount, updates)
        serving.cancel()
    return {"microseconds": cost}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))), flush=True)
    sys.stdout.flush()
    import os

    os._exit(0)  # how long it takes to end all of that is measured elsewhere
