"""The agent as a user of duologue writes it."""

from __future__ import annotations

import asyncio

from benchmarks.network import WIRE
from benchmarks.script import MAX_MESSAGE_BYTES, VERSION
from benchmarks.wire import CHUNK_TEXTS, text
from duologue import Agent, Settings, Turn, choice
from duologue.transports.stdio.stdio import StdioTransport


class Knobs(Settings):
    mode = choice("ask", "write", category="mode")


agent = Agent("benchmark", settings=Knobs, protocol_versions=(1, 2) if VERSION else (1,))


@agent.on_prompt
async def answer(turn: Turn[Knobs]) -> None:
    word, _, argument = turn.text[:32].partition(" ")
    texts = {"stream": CHUNK_TEXTS, "flood": [text(2000)], "echo": [turn.text]}[word]
    for i in range(1 if word == "echo" else int(argument)):
        await turn.say(texts[i % len(texts)])


if __name__ == "__main__":
    if WIRE:
        from benchmarks.programs.listening import listen

        listen(agent)
    elif MAX_MESSAGE_BYTES:
        asyncio.run(agent.serve(StdioTransport(max_message_bytes=MAX_MESSAGE_BYTES)))
    else:
        agent.run()
