"""The client as a user of duologue writes it."""

from __future__ import annotations

import asyncio
import time

from benchmarks.script import MAX_MESSAGE_BYTES, VERSION, Seen, Side, arguments, play
from duologue import connect
from duologue.client.session import ClientSession
from duologue.conversation.setup import Party
from duologue.events import Text
from duologue.jsonrpc import framing
from duologue.transports.process import ProcessTransport

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
    _, _, command = arguments()
    started = time.perf_counter()
    transport = ProcessTransport(command, max_message_bytes=MAX_MESSAGE_BYTES or framing.MAX_MESSAGE_BYTES)
    async with connect(transport, info=Party("benchmark", "1"), versions=(VERSION or 1,)) as agent:

        async def new_session() -> str:
            session = await agent.new("/tmp")
            sessions[session.id] = session
            return session.id

        async def initialized() -> None:
            """`connect` did it."""

        assert transport.pid is not None
        await play(
            Side(
                initialize=initialized,
                new_session=new_session,
                set_mode=lambda id: sessions[id].set_mode("ask"),
                prompt=prompt,
                agent_pid=transport.pid,
                started=started,
                seen=seen,
            )
        )


if __name__ == "__main__":
    asyncio.run(main())
