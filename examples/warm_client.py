"""A client that opens its next session before it is needed, so that a user never waits for one."""

import asyncio
import tempfile
import time

from duologue import connect

AGENT = ["duologue", "agent"]  # or any other command


async def main(cwd: str) -> None:
    async with connect([*AGENT, "--sessions", cwd], cwd=cwd, warm=True) as agent:
        for number in (1, 2, 3):
            began = time.monotonic()
            async with agent.new_session(cwd) as session:
                seconds = time.monotonic() - began
                answer = await session.ask(f"/echo session {number}")
                print(f"{answer.splitlines()[0]} ({seconds * 1000:.0f} ms to open)")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))
