"""A client that logs in where an agent wants it, and goes on where an agent has crashed."""

import asyncio
import sys
import tempfile

from duologue import connect
from duologue.errors import AgentExited
from duologue.types import AuthMethod, Restart

AGENT = [sys.executable, "-m", "duologue.cli.main", "agent", "--login"]  # or any other command


def choose(methods: list[AuthMethod]) -> AuthMethod:
    """Here a person would be asked. This one takes the first way there is."""
    print(f"logging in: {methods[0].name}")
    return methods[0]


async def main(place: str) -> None:
    async with connect(
        [*AGENT, "--sessions", place],
        login=choose,
        restart=Restart(limit=3, within=60),
        stall_timeout=60,  # a turn without a sign of life is told after a minute, and given up after two
    ) as agent:
        async with agent.new_session(place) as session:
            print(await session.ask("/echo before"))
            try:
                await session.ask("/crash 3")
            except AgentExited as error:
                print(f"lost: exit code {error.exit_code}")
            print(await session.ask("/echo and after"))  # a new process, a new login, the same session


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))
