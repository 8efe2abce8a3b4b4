"""A client that logs in when the agent requires it, and continues after the agent has crashed."""

import asyncio
import tempfile

from duologue import connect
from duologue.errors import AgentExited
from duologue.types import AuthMethod, Restart

AGENT = ["duologue", "agent", "--login"]  # or any other command


def choose(methods: list[AuthMethod]) -> AuthMethod:
    """Choose the first method; a real client would ask the user."""
    print(f"logging in: {methods[0].name}")
    return methods[0]


async def main(cwd: str) -> None:
    async with connect(
        [*AGENT, "--sessions", cwd],
        login=choose,
        restart=Restart(limit=3, within=60),
        stall_timeout=60,  # a turn without activity is reported after a minute, cancelled after two
    ) as agent:
        async with agent.new_session(cwd) as session:
            print(await session.ask("/echo before"))
            try:
                await session.ask("/crash 3")
            except AgentExited as error:
                print(f"lost: exit code {error.exit_code}")
            print(await session.ask("/echo and after"))  # a new process, a new login, the same session


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))
