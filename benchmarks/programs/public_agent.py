"""The agent as a user of duologue writes it."""

from __future__ import annotations

import asyncio
import os
import time

from benchmarks.network import WIRE
from benchmarks.script import MAX_MESSAGE_BYTES, VERSION
from benchmarks.wire import CHUNK_TEXTS, text
from duologue import Agent, Settings, Turn, choice
from duologue.transports.stdio.stdio import StdioTransport


class SampleSettings(Settings):
    mode = choice("ask", "write", category="mode")


agent = Agent("benchmark", settings=SampleSettings, protocol_versions=(1, 2) if VERSION else (1,))

if folder := os.environ.get("BENCH_STORE"):
    agent.persist_sessions(folder)


@agent.on_prompt
async def answer(turn: Turn[SampleSettings]) -> None:
    word, _, argument = turn.text[:32].partition(" ")
    if word == "tick":
        await tick(turn, *map(float, argument.split()))
        return
    texts = {"stream": CHUNK_TEXTS, "flood": [text(2000)], "echo": [turn.text]}[word]
    for i in range(1 if word == "echo" else int(argument)):
        await turn.say(texts[i % len(texts)])


async def tick(turn: Turn[SampleSettings], rate: float, seconds: float) -> None:
    """Send updates at a steady rate; each says when it was due, and thereby how late it comes."""
    begin = time.monotonic()
    for number in range(int(rate * seconds)):
        due = begin + number / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await turn.say(f"{due:.6f}")


if __name__ == "__main__":
    if WIRE:
        from benchmarks.programs.listening import listen

        listen(agent)
    elif MAX_MESSAGE_BYTES:
        asyncio.run(agent.serve(StdioTransport(max_message_bytes=MAX_MESSAGE_BYTES)))
    else:
        agent.run()
