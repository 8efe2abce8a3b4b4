"""An agent that can be steered: text that the user sends while it works is part of its next step."""

from __future__ import annotations

import asyncio
from typing import Any

from duologue import Agent, Turn

agent: Agent[Any] = Agent("writer", version="1.0", steering=True)


@agent.on_prompt
async def write(turn: Turn[Any]) -> None:
    texts = [turn.text]
    for number in range(1, 6):
        texts += [message.text for message in await turn.take_steering()]  # before each request to the model
        await turn.say(f"{number}. {await model(texts)}\n")


async def model(texts: list[str]) -> str:
    await asyncio.sleep(0.1)  # a model takes its time
    return f"with regard to: {texts[-1]}"


if __name__ == "__main__":
    agent.run()
