"""An agent that runs commands: `run COMMAND…` to the end, `serve COMMAND…` until it says that it is ready."""

import asyncio
import shlex

from duologue import Agent, Turn
from duologue.errors import DuologueError

agent = Agent("watching", version="1.0")


@agent.on_prompt
async def answer(turn: Turn) -> None:
    verb, *command = shlex.split(turn.text)
    if verb not in ("run", "serve") or not command:
        await turn.say("Send `run COMMAND…` or `serve COMMAND…`.")
        return
    try:
        await (serve(turn, command) if verb == "serve" else run(turn, command))
    except DuologueError as error:  # no such command, or the editor rejected it
        await turn.say(f"It could not be run: {error}")


async def run(turn: Turn, command: list[str]) -> None:
    ran = await turn.run(*command, timeout=60, output_limit=100_000)  # a tool call by itself, in the editor's terminal
    how = "took too long" if ran.timed_out else f"ended with {ran.exit_code if ran.signal is None else ran.signal}"
    await turn.say(f"It {how} and printed {len(ran.output.splitlines())} lines.")


async def serve(turn: Turn, command: list[str]) -> None:
    async with turn.tool("Start the server", kind="execute") as tool:
        async with turn.terminal(*command) as terminal:
            if terminal.part is not None:  # the editor's own terminal: the user watches it live
                await tool.show(terminal.part)
            while "ready" not in (output := await terminal.output()).output:
                if output.exit is not None:
                    await tool.fail(f"It ended before it was ready: {output.output}")
                    return
                await asyncio.sleep(0.05)
            await turn.say("The server is ready.")
            await terminal.kill()
        # Here it is gone, with everything it started, also if the turn was cancelled.


if __name__ == "__main__":
    agent.cli()
