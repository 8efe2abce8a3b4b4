"""An agent that speaks version 2 alone, as a program: it answers, runs a command, or ends in the middle of a turn."""

from __future__ import annotations

import os
import sys
from typing import Any

from duologue.agent.agent import Agent
from duologue.agent.turn import Turn

agent: Agent[Any] = Agent("newer", version="2.0", protocol_versions=(2,))


@agent.on_prompt
async def answer(turn: Turn[Any]) -> None:
    if turn.text == "die":
        sys.stderr.write("something broke\n")
        sys.stderr.flush()
        os._exit(3)
    if turn.text == "run":
        await turn.run("echo", "from a command")
    await turn.say(f"You said {turn.text}.")


if __name__ == "__main__":
    agent.run()
