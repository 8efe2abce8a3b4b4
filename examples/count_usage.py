"""A client that counts tokens and cost: of each turn, and of a session over two runs of the program."""

import asyncio
import tempfile

import msgspec

from duologue import connect
from duologue.types import UsageState

AGENT = ["duologue", "agent"]  # or any other command


async def main(cwd: str) -> None:
    async with connect([*AGENT, "--sessions", cwd]) as agent:
        session = await agent.new_session(cwd)
        for prompt in ("/usage", "/echo nothing is reported here", "/usage"):
            turn = await session.prompt(prompt)
            assert turn.usage is not None  # a turn that has ended has it
            print(f"turn: {turn.usage.text or 'nothing'} ({turn.usage.provenance})")
        print(f"session: {session.usage.text} ({session.usage.provenance}), context: {session.usage.context_text}")
        saved = msgspec.json.encode(session.usage_state)  # bytes for a file or a database

    async with connect([*AGENT, "--sessions", cwd]) as agent:  # another day, another process
        session = await agent.load_session(session.id, cwd)
        session.restore_usage(msgspec.json.decode(saved, type=UsageState))
        await session.prompt("/usage")
        print(f"session: {session.usage.text} in {session.usage.turns} turns")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))
