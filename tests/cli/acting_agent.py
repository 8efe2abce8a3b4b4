"""Act as the prompt says: after a question that names the act, after one that does not, or without one."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

from duologue import Agent, Turn

agent = Agent("acting", version="1.0")


@agent.on_prompt
async def answer(turn: Turn) -> None:
    how, *command = shlex.split(turn.text)
    match how:
        case "write":
            await turn.files.write("note.txt", "new text\n")
        case "named" | "unnamed":
            given = {"command": shlex.join(command)} if how == "named" else {}
            async with turn.tool("Bash", kind="execute", raw_input=given) as tool:
                if await tool.request_permission():
                    await turn.run(*command, tool=tool)
        case "wait" | "wait-and-write":
            await asyncio.to_thread(Path(command[0]).read_text)  # a named pipe: until the test has written to it
            if how == "wait-and-write":
                await turn.files.write("note.txt", "new text\n")
        case "hang":
            Path(command[0]).read_text()  # noqa: ASYNC240  # it blocks the event loop, so that the turn cannot end
        case "say":
            await turn.say(shlex.join(command))
        case "read":
            await turn.say("Before.")
            async with turn.tool("Look", kind="read", locations=["long.txt"]) as tool:
                await tool.show("\n".join(f"line {number}" for number in range(10)))
        case "claim":
            async with turn.tool("Create file", kind="edit", locations=["secretly.txt"]):
                pass
            async with turn.tool("Bash", kind="execute", raw_input={"command": "make secretly"}):
                pass
        case _:
            await turn.run(*command)
    await turn.say("That is all.")


if __name__ == "__main__":
    agent.run()
