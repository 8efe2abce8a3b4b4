"""The client as a user of duologue writes it."""

from __future__ import annotations

import asyncio
import time

from benchmarks.programs.reaching import agent_process
from benchmarks.script import VERSION, Seen, Side, play
from duologue import connect
from duologue.client.session import ClientSession
from duologue.conversation.session_setup import Implementation
from duologue.events import Text

seen = Seen()
sessions: dict[str, ClientSession] = {}


async def prompt(session_id: str, text: str) -> None:
    async with sessions[session_id].prompt(text) as turn:
        async for event in turn:
            if isinstance(event, Text):
                if seen.is_busy:
                    await seen.time_found()
                seen.count(event.text)


async def main() -> None:
    started = time.perf_counter()
    info, versions = Implementation("benchmark", "1"), (VERSION or 1,)
    async with (
        agent_process() as (transport, pid),
        connect(transport, client_info=info, protocol_versions=versions) as agent,
    ):

        async def new_session() -> str:
            session = await agent.new_session("/tmp")
            sessions[session.id] = session
            return session.id

        async def initialized() -> None:
            """`connect` did it."""

        await play(
            Side(
                initialize=initialized,
                new_session=new_session,
                set_mode=lambda id: sessions[id].set_mode("ask"),
                prompt=prompt,
                agent_pid=pid(),
                started=started,
                seen=seen,
            )
        )


if __name__ == "__main__":
    asyncio.run(main())
