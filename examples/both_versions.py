"""One agent for clients of both versions of the protocol, and one client that reads both: nothing is written twice."""

from __future__ import annotations

import asyncio
import tempfile

from duologue import Agent, Turn, connect
from duologue.events import Terminal, Text, ToolCall
from duologue.types import ToolCancelled

agent = Agent("both", protocol_versions=(1, 2))


@agent.on_prompt
async def answer(turn: Turn) -> None:
    await turn.say("Let me see. ")
    # Version 1 shows it as text; version 2 shows a terminal of the agent, live.
    ran = await turn.run("echo", turn.text)
    try:
        # Clients of version 2 may cancel this call and nothing else.
        async with turn.tool("Think it over", kind="think", cancellable=True):
            await asyncio.sleep(0)
    except ToolCancelled:
        await turn.say("As you like. ")
    await turn.say(f"It says {ran.output.strip()}.")


async def main() -> None:
    for versions in ((1,), (1, 2)):
        async with connect(agent, protocol_versions=versions) as remote:
            print(f"version {remote.version}:", end=" ")
            async with remote.new_session(tempfile.gettempdir()) as session, session.prompt("hello") as turn:
                async for event in turn:
                    match event:
                        case Text(text=text):
                            print(text, end="")
                        case ToolCall(status="completed", title=title):
                            print(f"[{title}] ", end="")
                        case Terminal(exit=ended) if ended is not None:
                            print("[a terminal of the agent] ", end="")
                        case _:
                            pass
            print(f"({turn.stop_reason})")


if __name__ == "__main__":
    asyncio.run(main())
