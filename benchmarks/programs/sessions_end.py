"""End many open sessions of the public API: `sessions_end.py HOW COUNT` prints seconds and CPU.

Both sides are in this process, connected by pipes. `leave` and `leave-running` measure the time from leaving the
client's connection until the agent has ended, without a turn or with one in every session; `close` closes each.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from benchmarks.pair import Modes, transports
from duologue import Agent, Turn, connect
from duologue.conversation.session_setup import Implementation

agent = Agent("benchmark", settings=Modes)

if folder := os.environ.get("BENCH_STORE"):
    agent.persist_sessions(folder)


@agent.on_prompt
async def answer(turn: Turn[Modes]) -> None:
    await turn.say("waiting")
    await asyncio.Event().wait()


async def main(how: str, count: int) -> dict[str, float]:
    near, far = transports("pipe")
    async with asyncio.timeout(100):
        serving = asyncio.create_task(agent.serve(far))
        async with connect(near, client_info=Implementation("benchmark", "1")) as remote:
            sessions = [await remote.new_session("/tmp") for _ in range(count)]
            if how == "leave-running":
                for session in sessions:
                    await anext(aiter(session.prompt("wait")))
            began, cpu = time.perf_counter(), time.process_time()
            if how == "close":
                await asyncio.gather(*(session.aclose() for session in sessions))
                return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
        await serving
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2])))))
