"""An agent with background tasks: its turn ends at once, and the tests go on until they pass or are stopped."""

from __future__ import annotations

import asyncio
from typing import Any

from duologue import Agent, Turn
from duologue.types import BackgroundTaskHandle

agent: Agent[Any] = Agent("tester", version="1.0", unstable={"background_tasks"})


@agent.on_prompt
async def test(turn: Turn[Any]) -> None:
    await turn.session.run_in_background(f"run {turn.text}", run_tests, kind="shell")
    await turn.say("The tests are running.\n")


async def run_tests(task: BackgroundTaskHandle) -> str:
    for number in range(1, 601):
        await asyncio.sleep(0.1)  # cancelled here if the client stops the task
        await task.progress(f"{number} of 600 passed")
    return "all passed"


if __name__ == "__main__":
    agent.run()
